"""The chunk is the largest power of two that divides every page.

One small or odd page makes all chunks small. Each page size has a launch of its own, so
no program is idle and the chunk is the only cost.

Kind: known-faults A6. Source: public report, vLLM pull request 52058.
Breaks: `work_is_bounded`, a cost.
"""

from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS, power_of_two_divisor
from kvzero.subjects.faults.exact_work import ExactWork
from kvzero.subjects.faults.fault import Fault


class SmallestPageZeroer(ExactWork):
    """Exact work in chunks that fit the most awkward page."""

    def __init__(self, pool: Pool) -> None:
        """Build the table and find the chunk."""
        super().__init__(pool)
        divisors = map(power_of_two_divisor, self.pages_el)
        widest = self.meta.block_size
        self.meta = self.meta._replace(block_size=min([*divisors, widest]))


FAULT = Fault(
    "smallest-page-sets-the-chunk",
    TRUSTS_IDS,
    SmallestPageZeroer,
    kind="smallest-page-sets-the-chunk",
    area="planner",
    breaks="work_is_bounded",
    what="too-many-programs",
)
