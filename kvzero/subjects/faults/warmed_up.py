"""The upstream shape with a warm-up that compiles and launches, and writes nothing."""

import torch

from kvzero.subjects.faults.within_limits import WithinLimits


class WarmedUp(WithinLimits):
    """Warms up by a launch over one page of no bytes."""

    def warmup(self) -> None:
        """Launch the kernel once, with nothing to zero."""
        if self.num_segments:
            no_page = torch.zeros_like(self.table[:1])
            first_id = torch.zeros(1, dtype=torch.int64, device=self.table.device)
            self.launch_part(first_id, no_page, 0, 1)
