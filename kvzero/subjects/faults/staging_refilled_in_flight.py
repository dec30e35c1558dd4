"""One pinned buffer stages the ids of every call, and is refilled without waiting.

A second call that is made before the device gets to the first one's upload puts its own
ids under it.

Kind: known-faults A7. Source: public reports of id buffers overwritten in flight.
Breaks: `queued_calls_act_in_order`.
"""

import torch

from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class OneBufferZeroer(Asynchronous):
    """Keeps its staging memory from call to call."""

    buffer: torch.Tensor | None = None

    def staged(self, given: torch.Tensor) -> torch.Tensor:
        """Return the begin of the buffer, grown where it is too small."""
        if self.buffer is None or len(self.buffer) < len(given):
            self.buffer = super().staged(given)
        return self.buffer[: len(given)].copy_(given)


FAULT = Fault(
    "staging-refilled-in-flight",
    ONLY_QUEUES,
    OneBufferZeroer,
    kind="id-staging-overwritten-in-flight",
    area="ordering",
    breaks="queued_calls_act_in_order",
    what="listed-byte-not-zero",
    needs_gpu=True,
)
