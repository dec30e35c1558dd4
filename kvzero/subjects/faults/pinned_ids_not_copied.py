"""Ids in pinned memory are uploaded from there, without waiting and without a copy.

The caller fills that memory anew once the call has returned, and the upload, which runs
later, takes what then stands there.

Kind: known-faults A7 without a buffer of the zeroer's own. Source: design, section 8;
seen on an H200 at every size.
Breaks: `queued_calls_act_in_order`.
"""

import torch

from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class PinnedIdsZeroer(Asynchronous):
    """Trusts that pinned ids stay."""

    def uploaded(self, given: torch.Tensor) -> torch.Tensor:
        """Return ids, of any type, from where they are if that is pinned."""
        if not (given.is_pinned() and given.is_contiguous()):
            return super().uploaded(given)
        return given.to(self.table.device, non_blocking=True).to(torch.int64)


FAULT = Fault(
    "pinned-ids-not-copied",
    ONLY_QUEUES,
    PinnedIdsZeroer,
    kind="pinned-ids-overwritten-by-their-caller",
    area="ids",
    breaks="queued_calls_act_in_order",
    what="listed-byte-not-zero",
    needs_gpu=True,
)
