"""The device buffer of ids is kept and grown, and the kernel runs over all of it.

A call with fewer ids than an earlier one zeroes the earlier one's blocks again.

Kind: known-faults B7, a reused id buffer, as it shows without a race. Source: by
reading, the public zeroer of vllm-ascend.
Breaks: `unlisted_bytes_are_untouched`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class StaleTailZeroer(WithinLimits):
    """The upstream shape with a buffer that only grows."""

    buffer: torch.Tensor | None = None

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on the buffer, the ids at its front."""
        if self.buffer is None or len(self.buffer) < len(ids):
            self.buffer = ids.clone()
        self.buffer[: len(ids)] = ids
        super().launch(self.buffer)


FAULT = Fault(
    "stale-tail-of-the-id-buffer",
    TRUSTS_IDS,
    StaleTailZeroer,
    kind="pinned-ids-still-reused",
    area="cache",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
