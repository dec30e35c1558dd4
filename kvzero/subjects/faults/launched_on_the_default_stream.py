"""The kernel is launched on the device's default stream, whichever the caller is on.

Zeros then land before the work that the caller had queued, or after what follows.

Kind: known-faults A9, a hard-wired stream. Source: public review of LMCache pull
request 2916.
Breaks: `queued_calls_act_in_order`.
"""

from typing import Any

import torch

from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.faults.fault import Fault


class DefaultStreamZeroer(Asynchronous):
    """Knows one stream."""

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Zero the pages, on the default stream."""
        with torch.cuda.stream(torch.cuda.default_stream(self.table.device)):
            super().zero(block_ids)


FAULT = Fault(
    "launched-on-the-default-stream",
    ONLY_QUEUES,
    DefaultStreamZeroer,
    kind="launched-on-another-stream",
    area="ordering",
    breaks="queued_calls_act_in_order",
    what="listed-byte-not-zero",
    needs_gpu=True,
)
