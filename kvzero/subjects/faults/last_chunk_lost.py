"""The grid has as many chunks as fit the largest page whole, so its last bytes stay.

Pages of less than one chunk are right, and those of whole chunks.

Kind: known-faults D, last chunk lost. Source: the floor in public variants of the
Ascend port, here on the grid.
Breaks: `listed_pages_are_zero`.
"""

from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class LastChunkLostZeroer(WithinLimits):
    """The upstream shape with a grid rounded down."""

    def __init__(self, pool: Pool) -> None:
        """Build the table and count the chunks."""
        super().__init__(pool)
        whole = self.widest_el // self.meta.block_size
        self.meta = self.meta._replace(chunks=max(whole, 1))


FAULT = Fault(
    "last-chunk-lost",
    TRUSTS_IDS,
    LastChunkLostZeroer,
    kind="last-chunk-lost",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
