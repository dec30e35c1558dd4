"""Blocks of the call before are not cleared again, and are remembered by reference.

The caller's list has changed since: whatever stands there now is not cleared.

Kind: known-faults C15. Source: public review of Megatron-LM pull request 6584.
Breaks: `listed_pages_are_zero`.
"""

from typing import Any

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class RememberedIdsZeroer(WithinLimits):
    """The upstream shape on blocks that seem to be new."""

    before: Any = ()  # Any: a reference to the last call's ids

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Zero the pages of the blocks that the call before did not list."""
        known = torch.as_tensor(self.before, dtype=torch.int64)
        self.before = block_ids
        ids = torch.as_tensor(block_ids).to(torch.int64)
        super().zero(ids[~torch.isin(ids, known)])


FAULT = Fault(
    "remembered-ids-are-a-view",
    TRUSTS_IDS,
    RememberedIdsZeroer,
    kind="queued-id-is-a-view",
    area="ordering",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
