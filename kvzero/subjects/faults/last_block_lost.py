"""A bound check is off by one, so the last block of the cache is never zeroed.

Kind: a mutant of the bound check. Source: the request for a test of the last block in
the public review of vLLM pull request 50276.
"""

import torch
import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.masked_3d import Masked3DZeroer


@triton.jit(do_not_specialize=["num_blocks"])
def zero_last_block_lost(table_ptr, ids_ptr, num_blocks, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    if block >= num_blocks - 1:
        return
    lanes = tl.program_id(2) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, 0, mask=lanes < page_el)


class LastBlockLostZeroer(Masked3DZeroer):
    """The upstream shape with the faulty kernel, which is told the number of blocks."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel over ids, segments and chunks."""
        chunks, block_size, segments = self.meta
        zero_last_block_lost[len(ids), segments, chunks](
            self.table, ids, self.num_blocks, block_size
        )


FAULT = Fault(
    "last-block-lost",
    TRUSTS_IDS,
    LastBlockLostZeroer,
    kind="last-block-lost",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
