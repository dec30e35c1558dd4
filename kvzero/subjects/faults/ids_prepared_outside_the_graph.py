"""Ids are converted before a graph is captured, and the graph holds the result.

A replay acts on the ids of the capture, whatever stands in their tensor by then.

Kind: stale inputs of a CUDA graph. Source: torch's public documentation of CUDA graphs,
on static inputs; known-faults B2 is what a capture leaves behind.
Breaks: `graphs_replay_with_new_ids`.
"""

from dataclasses import replace

import torch

from kvzero.memory import Pool
from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class PreparedZeroer(Asynchronous):
    """Prepares ids when it can wait, and captures only the launch."""

    def __init__(self, pool: Pool) -> None:
        """Build the table and an empty cache."""
        super().__init__(pool)
        self.prepared: dict[int, torch.Tensor] = {}

    def held(self, given: torch.Tensor) -> torch.Tensor:
        """Return prepared ids in a capture."""
        if torch.cuda.is_current_stream_capturing():
            return self.prepared[len(given)]
        self.prepared[len(given)] = super().held(given).clone()
        return self.prepared[len(given)]


FAULT = Fault(
    "ids-prepared-outside-the-graph",
    replace(ONLY_QUEUES, allows_capture=True),
    PreparedZeroer,
    kind="stale-ids-in-a-graph",
    area="ids",
    breaks="graphs_replay_with_new_ids",
    what="listed-byte-not-zero",
    needs_gpu=True,
)
