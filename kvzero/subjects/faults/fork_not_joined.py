"""Zeroing runs on a stream of its own, which waits for the caller's, but not back.

What the caller queues next reads pages before they are zeroed.

Kind: known-faults A10 as it shows on one device. Source: public reports of zeroing that
is not ordered with the work after it.
Breaks: `queued_calls_act_in_order`.
"""

import torch

from kvzero.memory import Pool
from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault

BUSY_CYCLES = 1_000_000
"""What else the stream has to do: about half a millisecond."""


class ForkedZeroer(Asynchronous):
    """Launches on a busy stream of its own."""

    def __init__(self, pool: Pool) -> None:
        """Build the table and the stream."""
        super().__init__(pool)
        self.own = torch.cuda.Stream(pool.device)

    def launch(self, ids: torch.Tensor) -> None:
        """Launch behind the caller's work, on the other stream."""
        self.own.wait_stream(torch.cuda.current_stream(ids.device))
        ids.record_stream(self.own)
        with torch.cuda.stream(self.own):
            torch.cuda._sleep(BUSY_CYCLES)  # noqa: SLF001 - torch has no other
            super().launch(ids)


FAULT = Fault(
    "fork-not-joined",
    ONLY_QUEUES,
    ForkedZeroer,
    kind="zeroing-not-ordered-with-later-work",
    area="ordering",
    breaks="queued_calls_act_in_order",
    what="listed-byte-not-zero",
    needs_gpu=True,
)
