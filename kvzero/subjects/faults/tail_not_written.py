"""Chunks are counted with a floor, so the tail of a page keeps its old bytes.

Right only while the chunk divides every page.

Kind: known-faults B9, chunk count floors. Source: public variants of the Ascend port.
Breaks: `listed_pages_are_zero`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_tail_not_written(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    whole_el = page_el // BLOCK_SIZE * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, 0, mask=lanes < whole_el)


class TailNotWrittenZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_tail_not_written


FAULT = Fault(
    "tail-not-written",
    TRUSTS_IDS,
    TailNotWrittenZeroer,
    kind="chunk-count-floors",
    area="kernel",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
