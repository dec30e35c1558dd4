"""A page is written as two rows of half its size, rounded up, at computed addresses.

Each row is masked by its own size and nobody looks at the end of the page: an odd page
is overrun by one element.

Kind: known-faults C10. Source: public report, vLLM issue 53271.
Breaks: `unlisted_bytes_are_untouched`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_halves(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    half_el = (page_el + 1) // 2
    mask = lanes < half_el
    tl.store(page_ptr + lanes, 0, mask=mask)
    tl.store(page_ptr + half_el + lanes, 0, mask=mask)


class HalvesZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_halves


FAULT = Fault(
    "halves-beyond-the-page",
    TRUSTS_IDS,
    HalvesZeroer,
    kind="computed-pointer-never-checked",
    area="kernel",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
