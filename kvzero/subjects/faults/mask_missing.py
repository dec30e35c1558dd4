"""The last chunk is stored whole, so it runs over the end of the page.

Kind: known-faults B9, the unmasked half. Source: public variants of the Ascend port.
Breaks: `unlisted_bytes_are_untouched`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_mask_missing(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    first_el = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE
    if first_el >= page_el:
        return
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, tl.zeros([BLOCK_SIZE], tl.int32))


class MaskMissingZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_mask_missing


FAULT = Fault(
    "mask-missing",
    TRUSTS_IDS,
    MaskMissingZeroer,
    kind="mask-missing",
    area="kernel",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
