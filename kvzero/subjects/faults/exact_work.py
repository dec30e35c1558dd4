"""The upstream shape with no idle program: each page size has a launch of its own.

What a fault subject of the kind *cost* is built on: launches over the largest page cost
too much beside small ones.
"""

from itertools import groupby

import torch

from kvzero.limits import CUDA_MAX_YZ
from kvzero.subjects.faults.within_limits import WithinLimits


class ExactWork(WithinLimits):
    """Launches `kernel` for one page size after another."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel over exactly the chunks that each page has."""
        order = sorted(range(self.num_segments), key=self.pages_el.__getitem__)
        for page_el, group in groupby(order, self.pages_el.__getitem__):
            chunks = -(-page_el // self.meta.block_size)
            table = self.table[list(group)]
            for rows in table.split(self.max_segments):
                for first in range(0, chunks, CUDA_MAX_YZ):
                    most = min(chunks - first, CUDA_MAX_YZ)
                    self.launch_part(ids, rows.clone(), first, most)
