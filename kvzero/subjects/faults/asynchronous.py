"""The upstream shape made right for a busy device: its calls only queue work.

Ids of the host go through pinned memory of its own, fresh in every call, and ids on the
device are held for the stream that reads them. A fault subject that only a GPU shows
changes one of these steps, and nothing else.
"""

from typing import Any

import torch

from kvzero.subjects.element_table import ELEMENT_BYTES
from kvzero.subjects.faults.warmed_up import WarmedUp
from kvzero.subjects.protocol import Contract

ONLY_QUEUES = Contract(alignment_bytes=ELEMENT_BYTES, checks_ids=False)


class Asynchronous(WarmedUp):
    """Uploads ids without waiting for the copy."""

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Queue the zeroing of the given blocks' pages on the current stream."""
        given = torch.as_tensor(block_ids)
        if not (len(given) and self.num_segments):
            return
        on_device = given.device.type != "cpu"
        self.launch(self.held(given) if on_device else self.uploaded(given))

    def held(self, given: torch.Tensor) -> torch.Tensor:
        """Return ids on the device, kept from reuse until the stream has read them."""
        if given.is_cuda:
            given.record_stream(torch.cuda.current_stream(given.device))
        return given.to(torch.int64).contiguous()
