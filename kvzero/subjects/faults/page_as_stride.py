"""The step from block to block is the page size instead of the block stride.

Block 0 is right either way, so a test that zeroes block 0 proves nothing.

Kind: known-faults A2. Source: public reports, vLLM pull request 50276.
Breaks: `listed_pages_are_zero`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_page_as_stride(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    lanes = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE + tl.arange(
        0, BLOCK_SIZE
    )
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * page_el
    tl.store(page_ptr + lanes, 0, mask=(lanes < page_el) & (stride_el > 0))


class PageAsStrideZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_page_as_stride


FAULT = Fault(
    "page-as-stride",
    TRUSTS_IDS,
    PageAsStrideZeroer,
    kind="page-as-stride",
    area="kernel",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
