"""The last chunk is loaded, cleared up to the page's end, and stored back whole.

The bytes come out right while nobody else writes behind the page at the same time: a
race with the owner of the bytes that are stored back.

Kind: a foreign byte stored with its old value. Source: design, section 5; the chunks
without a mask of public Ascend variants (known-faults B9), repaired the wrong way.
Breaks: `unlisted_bytes_are_untouched`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_tail_written_back(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    if first_el >= page_el:
        return
    old = tl.load(page_ptr + lanes)
    tl.store(page_ptr + lanes, tl.where(lanes < page_el, 0, old))


class TailWrittenBackZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_tail_written_back


FAULT = Fault(
    "tail-read-and-written-back",
    TRUSTS_IDS,
    TailWrittenBackZeroer,
    kind="read-modify-write-tail",
    area="kernel",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
