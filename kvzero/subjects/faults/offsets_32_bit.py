"""The block's offset is a 32-bit product, which wraps in large pools.

Kind: known-faults C1. Source: public reports, vLLM issue 1486 and others.
Breaks: `listed_pages_are_zero`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_offsets_32_bit(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    lanes = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE + tl.arange(
        0, BLOCK_SIZE
    )
    offset_el = block.to(tl.int32) * stride_el.to(tl.int32)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + offset_el
    tl.store(page_ptr + lanes, 0, mask=lanes < page_el)


class Offsets32BitZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_offsets_32_bit


FAULT = Fault(
    "offsets-32-bit",
    TRUSTS_IDS,
    Offsets32BitZeroer,
    kind="int32-offset-overflow",
    area="kernel",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
