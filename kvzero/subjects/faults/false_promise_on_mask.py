"""The compiler is told that every page is a multiple of 4 elements.

The interpreters see nothing; on a GPU the last vector store runs over the page.

Kind: a promise that the data break (design, section 6). Source: measured on an H200.
Breaks: `promises_hold`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_false_promise_on_mask(
    table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr
):
    """Zero one chunk of one page, with the fault."""
    row_ptr = table_ptr + tl.program_id(1) * 3
    address, stride_el = tl.load(row_ptr), tl.load(row_ptr + 1)
    block = tl.load(ids_ptr + tl.program_id(0))
    page_el = tl.multiple_of(tl.load(row_ptr + 2), 4)
    lanes = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE + tl.arange(
        0, BLOCK_SIZE
    )
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, 0, mask=lanes < page_el)


class FalsePromiseOnMaskZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_false_promise_on_mask


FAULT = Fault(
    "false-promise-on-mask",
    TRUSTS_IDS,
    FalsePromiseOnMaskZeroer,
    kind="false-promise",
    area="kernel",
    breaks="promises_hold",
    what="false-promise",
)
