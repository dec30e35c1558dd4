"""Bytes are cleared by multiplying what was there by zero, as masks in attention do.

0 * NaN is NaN and 0 * -1 is -0.0: what was not finite stays.

Kind: the zero by multiplication that known-faults B2 tells of. Source: public reports,
vLLM issues 57156 and 39810.
Breaks: `listed_pages_are_zero`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_multiplied_by_zero(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    page_ptr = page_ptr.to(tl.pointer_type(tl.float32))
    mask = lanes < page_el
    old = tl.load(page_ptr + lanes, mask=mask, other=0.0)
    tl.store(page_ptr + lanes, old * 0.0, mask=mask)


class MultipliedByZeroZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_multiplied_by_zero


FAULT = Fault(
    "multiplied-by-zero",
    TRUSTS_IDS,
    MultipliedByZeroZeroer,
    kind="zero-by-multiplication",
    area="kernel",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
