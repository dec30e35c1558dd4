"""Each call returns when its kernel is done, not when it is queued.

torch does not notice this wait: it shows where the stream is held.

Kind: a host synchronisation behind torch's back. Source: public reports of debugging
`cuda.synchronize()` calls that were shipped.
Breaks: `calls_do_not_wait`.
"""

import torch

from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class WaitingZeroer(Asynchronous):
    """Waits after the launch."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch and wait."""
        super().launch(ids)
        torch.cuda.synchronize(ids.device)


FAULT = Fault(
    "waits-for-its-kernel",
    ONLY_QUEUES,
    WaitingZeroer,
    kind="host-sync-behind-torch",
    area="ordering",
    breaks="calls_do_not_wait",
    what="host-waits",
    needs_gpu=True,
)
