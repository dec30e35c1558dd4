"""The upstream shape made right: what a fault subject is when its fault is taken out.

Segments, chunks and ids are split so that every launch is inside every limit. A fault
subject changes the kernel, or one of the limits, and nothing else, so it has no second
fault that a fuzzer could stumble on first.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from kvzero.limits import CUDA_MAX_YZ, HIP_MAX_WORK_ITEMS, HIP_WIDEST_WARP, INT32_MAX
from kvzero.subjects.element_table import segment_row
from kvzero.subjects.masked_3d import Masked3DZeroer

NUM_WARPS = 4
MAX_IDS = HIP_MAX_WORK_ITEMS // (NUM_WARPS * HIP_WIDEST_WARP)


@triton.jit(do_not_specialize=["first_chunk"])
def zero_chunk(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, 0, mask=lanes < page_el)


class WithinLimits(Masked3DZeroer):
    """Launches `kernel` over parts of the ids, the segments and the chunks.

    Attributes:
        kernel: Takes table, ids, first chunk and the chunk's width.
        max_segments: Segments of one launch.
        max_programs: Programs of one launch.
    """

    kernel: Any = zero_chunk  # Any: Triton ships no types
    max_segments = CUDA_MAX_YZ
    max_programs = INT32_MAX

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel as often as the limits ask for."""
        for rows in self.table.split(self.max_segments):
            # At most so many that the launch of one id is inside the limit, too.
            most = max(min(self.max_programs // len(rows), CUDA_MAX_YZ), 1)
            for first in range(0, self.meta.chunks, most):
                chunks = min(self.meta.chunks - first, most)
                self.launch_part(ids, rows.clone(), first, chunks)

    def launch_part(
        self, ids: torch.Tensor, rows: torch.Tensor, first: int, chunks: int
    ) -> None:
        """Launch the kernel for some rows and `chunks` chunks from `first`."""
        most = max(self.max_programs // (len(rows) * chunks), 1)
        for part in ids.split(min(most, MAX_IDS)):
            self.run((len(part), len(rows), chunks), rows, part.clone(), first)

    def run(
        self, grid: tuple[int, ...], rows: torch.Tensor, ids: torch.Tensor, first: int
    ) -> None:
        """Launch the kernel once."""
        self.kernel[grid](rows, ids, first, self.meta.block_size)
