"""Every call's ids are kept, so that no kernel reads freed memory, and never let go.

Kind: growth of device memory on the hot path. Source: public reports of servers that
run out of memory after days.
Breaks: `calls_keep_no_memory`.
"""

import torch

from kvzero.memory import Pool
from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class NeverFreedZeroer(Asynchronous):
    """Keeps what it launches on."""

    def __init__(self, pool: Pool) -> None:
        """Build the table and an empty list."""
        super().__init__(pool)
        self.launched: list[torch.Tensor] = []

    def launch(self, ids: torch.Tensor) -> None:
        """Launch on ids that are kept."""
        self.launched.append(ids)
        super().launch(ids)


FAULT = Fault(
    "ids-never-freed",
    ONLY_QUEUES,
    NeverFreedZeroer,
    kind="device-memory-grows",
    area="cache",
    breaks="calls_keep_no_memory",
    what="memory-kept",
    needs_gpu=True,
)
