"""The first word of a page is taken for a header that zeroing must leave.

The contract has no header: every byte of a page is to be zero.

Kind: known-faults C17. Source: public report, vLLM issue 54879, and a public fork's
pages with a header.
Breaks: `listed_pages_are_zero`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_header_kept(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, 0, mask=(lanes > 0) & (lanes < page_el))


class HeaderKeptZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_header_kept


FAULT = Fault(
    "header-kept",
    TRUSTS_IDS,
    HeaderKeptZeroer,
    kind="zero-is-not-the-neutral-value",
    area="kernel",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
