"""Pages are stored 16 B at a time, with no check that they begin on 16 B.

The interpreters see nothing; a GPU reports a misaligned address.

Kind: known-faults B14. Source: by reading, rtp-llm's kernel; design, section 6.
Breaks: `promises_hold`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_vector_store(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    page_ptr = tl.multiple_of(page_ptr, 16)
    whole_el = page_el // 4 * 4
    tl.store(page_ptr + lanes, 0, mask=lanes < whole_el)
    tl.store(page_ptr + lanes, 0, mask=(lanes >= whole_el) & (lanes < page_el))


class VectorStoreZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_vector_store


FAULT = Fault(
    "vector-store-alignment",
    TRUSTS_IDS,
    VectorStoreZeroer,
    kind="vector-store-alignment",
    area="kernel",
    breaks="promises_hold",
    what="false-promise",
)
