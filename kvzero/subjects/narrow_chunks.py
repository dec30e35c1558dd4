"""Two shapes with a narrow chunk: the largest power of two that divides every page.

`flat-1d` folds ids, segments and chunks on one axis, as the upstream zeroer did before
its grid became three-dimensional; `narrow-z` is the rival proposal, the same chunk on a
3-D grid with ids on z. Neither looks at the launch limits.

Source: public descriptions of vLLM issues 52058 and 50485; written anew.
"""

import torch
import triton
import triton.language as tl

from kvzero.memory import Pool
from kvzero.subjects.element_table import (
    MAX_CHUNK_EL,
    TRUSTS_IDS,
    ElementTableZeroer,
    power_of_two_divisor,
    segment_row,
)
from kvzero.subjects.protocol import MadeSubject


@triton.jit
def zero_chunk(table_ptr, block, segment, chunk, CHUNK: tl.constexpr):
    """Zero one whole chunk of one page; no mask, since chunks divide every page."""
    address, stride_el, page_el = segment_row(table_ptr, segment)
    first_el = chunk.to(tl.int64) * CHUNK
    if first_el < page_el:
        offset_el = block * stride_el + first_el
        chunk_ptr = address.to(tl.pointer_type(tl.int32)) + offset_el
        tl.store(chunk_ptr + tl.arange(0, CHUNK), tl.zeros([CHUNK], tl.int32))


@triton.jit(do_not_specialize=["n_segments", "n_chunks"])
def zero_flat_1d(
    table_ptr,
    ids_ptr,
    n_segments,
    n_chunks,
    CHUNK: tl.constexpr,
):
    """Zero one chunk; the program id folds id, segment and chunk."""
    program = tl.program_id(0)
    chunk = program % n_chunks
    segment = program // n_chunks % n_segments
    block = tl.load(ids_ptr + program // n_chunks // n_segments)
    zero_chunk(table_ptr, block, segment, chunk, CHUNK)


@triton.jit
def zero_narrow_z(table_ptr, ids_ptr, CHUNK: tl.constexpr):
    """Zero one chunk; chunks on x, segments on y, ids on z."""
    block = tl.load(ids_ptr + tl.program_id(2))
    segment = tl.program_id(1)
    zero_chunk(table_ptr, block, segment, tl.program_id(0), CHUNK)


class NarrowZeroer(ElementTableZeroer):
    """Tables with the narrow chunk that both shapes share."""

    chunk_el: int
    chunks: int

    def __init__(self, pool: Pool) -> None:
        """Build the table and find the chunk."""
        super().__init__(pool)
        divisors = [power_of_two_divisor(page) for page in self.pages_el]
        self.chunk_el = min([*divisors, MAX_CHUNK_EL])
        self.chunks = self.widest_el // self.chunk_el


class Flat1DZeroer(NarrowZeroer):
    """One launch over one axis."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel over the product of ids, segments and chunks."""
        programs = len(ids) * self.num_segments * self.chunks
        zero_flat_1d[(programs,)](
            self.table,
            ids,
            self.num_segments,
            self.chunks,
            self.chunk_el,
        )


class NarrowZZeroer(NarrowZeroer):
    """One launch over (chunks, segments, ids)."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel over chunks, segments and ids."""
        zero_narrow_z[(self.chunks, self.num_segments, len(ids))](
            self.table, ids, self.chunk_el
        )


FLAT_1D = MadeSubject("flat-1d", TRUSTS_IDS, Flat1DZeroer)
NARROW_Z = MadeSubject("narrow-z", TRUSTS_IDS, NarrowZZeroer)
