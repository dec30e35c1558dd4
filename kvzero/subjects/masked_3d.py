"""The upstream zeroer's shape since its grid became three-dimensional.

Ids on x, segments on y, chunks of up to 1,024 elements on z; programs beyond their page
exit at once and the last chunk is masked. Correct while the launch stays inside the
limits, which it does not look at.

Source: public description of vLLM pull request 52058; written anew.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from kvzero.memory import Pool
from kvzero.subjects.element_table import (
    MAX_CHUNK_EL,
    TRUSTS_IDS,
    ElementTableZeroer,
    next_power_of_two,
    segment_row,
)
from kvzero.subjects.protocol import MadeSubject


class Meta(NamedTuple):
    """What fixes the grid besides the ids."""

    chunks: int
    block_size: int
    segments: int


@triton.jit
def zero_masked_3d(table_ptr, ids_ptr, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    first_el = tl.program_id(2) * BLOCK_SIZE
    if first_el >= page_el:
        return
    block = tl.load(ids_ptr + tl.program_id(0))
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    tl.store(page_ptr + lanes, 0, mask=lanes < page_el)


class Masked3DZeroer(ElementTableZeroer):
    """One launch over (ids, segments, chunks) of `kernel`."""

    kernel: Any = zero_masked_3d  # Any: Triton ships no types
    meta: Meta

    def __init__(self, pool: Pool) -> None:
        """Build the table and fix the chunk width."""
        super().__init__(pool)
        block_size = min(next_power_of_two(self.widest_el), MAX_CHUNK_EL)
        chunks = -(-self.widest_el // block_size)
        self.meta = Meta(chunks, block_size, self.num_segments)

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel over ids, segments and chunks."""
        chunks, block_size, segments = self.meta
        self.kernel[len(ids), segments, chunks](self.table, ids, block_size)


MASKED_3D = MadeSubject("masked-3d", TRUSTS_IDS, Masked3DZeroer)
