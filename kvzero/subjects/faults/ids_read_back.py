"""Ids on the device are copied to the host and looked at, in every call.

The host waits for all work of the stream before it can launch.

Kind: a host synchronisation on the hot path. Source: public reports of `.item()` and
`.tolist()` stalls in schedulers.
Breaks: `calls_do_not_wait`.
"""

import torch

from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class ReadBackZeroer(Asynchronous):
    """Drops what is outside the cache, on the host."""

    def held(self, given: torch.Tensor) -> torch.Tensor:
        """Return those ids that are in the cache."""
        inside = [i for i in given.tolist() if 0 <= i < self.num_blocks]
        return self.uploaded(torch.tensor(inside))


FAULT = Fault(
    "ids-read-back",
    ONLY_QUEUES,
    ReadBackZeroer,
    kind="host-sync-on-the-hot-path",
    area="ids",
    breaks="calls_do_not_wait",
    what="host-waits",
    needs_gpu=True,
)
