"""Ids on the device are read without telling the allocator that this stream uses them.

Their caller, who made them on another stream and waited for that, frees them after the
call, and their memory is written anew before the kernel reads it.

Kind: known-faults A8, memory that is freed in flight. Source: torch's public
documentation of `Tensor.record_stream`.
Breaks: `queued_calls_act_in_order`.
"""

import torch

from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class NotHeldZeroer(Asynchronous):
    """Reads ids on the device where they are."""

    def held(self, given: torch.Tensor) -> torch.Tensor:
        """Return the ids and hold nothing."""
        return given.to(torch.int64).contiguous()


FAULT = Fault(
    "device-ids-not-held",
    ONLY_QUEUES,
    NotHeldZeroer,
    kind="ids-freed-in-flight",
    area="ids",
    breaks="queued_calls_act_in_order",
    what="listed-byte-not-zero",
    needs_gpu=True,
)
