"""Uploaded ids are kept by their number, as launch metadata is, and used again for it.

The second call with as many ids zeroes the blocks of the first.

Kind: ids of another call are used (A7) with no race. Source: public reports of reused
offset tables, NVIDIA/TensorRT-LLM pull requests 15546 and 15607.
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class IdsCachedByCountZeroer(WithinLimits):
    """The upstream shape on ids that were uploaded before."""

    def __init__(self, pool: Pool) -> None:
        """Build the table and an empty cache."""
        super().__init__(pool)
        self.by_count: dict[int, torch.Tensor] = {}

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on ids of that number."""
        super().launch(self.by_count.setdefault(len(ids), ids))


FAULT = Fault(
    "ids-cached-by-count",
    TRUSTS_IDS,
    IdsCachedByCountZeroer,
    kind="stale-ids-of-another-call",
    area="cache",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
