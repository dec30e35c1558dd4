"""A tensor of ids is read from its first element on, one after another.

A column of a block table lies apart in memory: what is read lies between its ids.

Kind: known-faults D, strided id buffer. Source: the views into a free list of the
public review of Megatron-LM pull request 6584.
Breaks: `listed_pages_are_zero`.
"""

from typing import Any

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class StridedIdsZeroer(WithinLimits):
    """The upstream shape with a raw reader of ids."""

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Zero the pages of the blocks that lie at the ids' address."""
        ids = torch.as_tensor(block_ids)
        super().zero(ids.as_strided(ids.shape, (1,)))


FAULT = Fault(
    "strided-ids-read-as-contiguous",
    TRUSTS_IDS,
    StridedIdsZeroer,
    kind="strided-ids-read-as-contiguous",
    area="ids",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
