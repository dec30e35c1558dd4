"""The planner takes kernel blocks for blocks, so ids count the wrong unit.

Right while one kernel block is one block, the only ratio that public tests had.

Kind: known-faults A21. Source: public reports, kvcached issue 330 and the review of
vLLM pull request 51718.
Breaks: `listed_pages_are_zero`.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import Reading, ViewTableZeroer


class RatioIgnoredZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def understood(self, reading: Reading) -> Reading:
        """Return a tensor whose kernel blocks seem to be the blocks."""
        return reading._replace(kernel_blocks=1)


FAULT = Fault(
    "ratio-ignored",
    TRUSTS_IDS,
    RatioIgnoredZeroer,
    kind="virtual-block-ratio-ignored",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
