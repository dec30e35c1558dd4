"""Zeroers in plain torch: what a server without a kernel of its own would write.

Each run of a layout is a few strided views of its pages, made once, and a call is one
torch operation a view: memory that several runs share is zeroed for each of them. The
two subjects differ in that operation. They trust their caller's ids: torch counts
negative ones from the end.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch

from kvzero.layout import Run
from kvzero.memory import Pool
from kvzero.subjects.protocol import Contract, MadeSubject

PLAIN_TORCH = Contract(
    checks_ids=False,
    uses_triton=False,
    holds_device_ids=False,  # torch takes ids for those of the stream of the call
)


def run_views(pool: Pool, run: Run) -> Iterator[torch.Tensor]:
    """Yield the pages of a run, uint8, shape [..., blocks, page bytes].

    Segments of one allocation are one view, whose leading dimensions repeat them.
    """
    apart = [axis for axis in run.axes if axis.step_allocations]
    inside = [axis for axis in run.axes if not axis.step_allocations]
    # Torch knows no negative strides: begin at the lowest segment.
    lowest = sum(min((axis.count - 1) * axis.step_bytes, 0) for axis in inside)
    wide = [(axis.count, abs(axis.step_bytes)) for axis in inside if axis.step_bytes]
    shape = [count for count, _ in wide]
    steps = [step for _, step in wide]
    for at in product(*(range(axis.count) for axis in apart)):
        moved = list(zip(at, apart))
        which = run.allocation + sum(n * axis.step_allocations for n, axis in moved)
        offset = run.offset_bytes + sum(n * axis.step_bytes for n, axis in moved)
        yield pool.tensors[which][offset + lowest :].as_strided(
            (*shape, pool.layout.num_blocks, run.page_bytes),
            (*steps, run.stride_bytes, 1),
        )


class IndexFillZeroer:
    """One ``index_fill_`` a view."""

    def __init__(self, pool: Pool) -> None:
        """Make the views."""
        self.views = [v for run in pool.layout.runs for v in run_views(pool, run)]
        self.device = pool.device

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Zero the pages of the given blocks."""
        ids = torch.as_tensor(block_ids).to(self.device, torch.int64)
        for view in self.views:
            self.zero_pages(view, ids)

    def zero_pages(self, view: torch.Tensor, ids: torch.Tensor) -> None:
        """Zero the listed blocks of one view."""
        view.index_fill_(-2, ids, 0)


class TorchLoopZeroer(IndexFillZeroer):
    """One assignment to indexed pages a view."""

    def zero_pages(self, view: torch.Tensor, ids: torch.Tensor) -> None:
        """Zero the listed blocks of one view."""
        view[..., ids, :] = 0


INDEX_FILL = MadeSubject("index-fill", PLAIN_TORCH, IndexFillZeroer)
TORCH_LOOP = MadeSubject("torch-loop", PLAIN_TORCH, TorchLoopZeroer)
