"""Set-up demands that every page begins on 16 B, which packed strides do not promise.

The contract says 4 B: a layout that is legal for the table is refused by the kernel.

Kind: known-faults C19. Source: public report, vLLM issue 55528.
Breaks: `legal_calls_are_accepted`, a refusal at set-up.
"""

from kvzero.errors import SubjectError
from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits

VECTOR_BYTES = 16


class AlignmentDemandedZeroer(WithinLimits):
    """The upstream shape, for tables of whole vectors only."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the segments, if each page begins on a vector."""
        addresses, strides, pages = super().segments(pool)
        if (addresses % VECTOR_BYTES).any() or (strides % VECTOR_BYTES).any():
            raise SubjectError(f"pages must begin on {VECTOR_BYTES} B")
        return addresses, strides, pages


FAULT = Fault(
    "alignment-demanded",
    TRUSTS_IDS,
    AlignmentDemandedZeroer,
    kind="layout-loses-its-alignment",
    area="planner",
    breaks="legal_calls_are_accepted",
    what="build-refused",
)
