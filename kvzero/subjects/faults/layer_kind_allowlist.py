"""A list of known cache kinds decides what is zeroed; other layers are forgotten.

A kind is told by its page: sliding-window and latent layers have pages of their own.

Kind: known-faults A12. Source: public reports, vLLM issues 51749 and 47574.
Breaks: `listed_pages_are_zero`.
"""

from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class LayerKindAllowlistZeroer(WithinLimits):
    """The upstream shape for layers of the first one's kind."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the segments of the one kind that is known."""
        addresses, strides, pages = super().segments(pool)
        known = pages == pages[:1]
        return addresses[known], strides[known], pages[known]


FAULT = Fault(
    "layer-kind-allowlist",
    TRUSTS_IDS,
    LayerKindAllowlistZeroer,
    kind="layer-kind-allowlist",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
