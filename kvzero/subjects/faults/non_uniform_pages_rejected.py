"""Set-up demands one page size of all segments, so two kinds of cache cannot start.

Kind: known-faults A3. Source: public reports, vLLM issues 49696 and 49746.
Breaks: `legal_calls_are_accepted`, a refusal at set-up.
"""

from kvzero.errors import SubjectError
from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class OnePageSizeZeroer(WithinLimits):
    """The upstream shape, for uniform tables only."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the segments, if their pages are equal."""
        addresses, strides, pages = super().segments(pool)
        if len(set(pages.tolist())) > 1:
            raise SubjectError("all segments must have one page size")
        return addresses, strides, pages


FAULT = Fault(
    "non-uniform-pages-rejected",
    TRUSTS_IDS,
    OnePageSizeZeroer,
    kind="non-uniform-pages-rejected",
    area="planner",
    breaks="legal_calls_are_accepted",
    what="build-refused",
)
