"""Block 0 is taken for a null block and skipped, though it is listed.

Kind: known-faults A23. Source: public reports, LMCache pull request 2984.
Breaks: `listed_pages_are_zero`.
"""

import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS, segment_row
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["first_chunk"])
def zero_id_0_skipped(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk of one page, with the fault."""
    address, stride_el, page_el = segment_row(table_ptr, tl.program_id(1))
    block = tl.load(ids_ptr + tl.program_id(0))
    if block <= 0:
        return
    lanes = (first_chunk + tl.program_id(2)).to(tl.int64) * BLOCK_SIZE + tl.arange(
        0, BLOCK_SIZE
    )
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, 0, mask=lanes < page_el)


class Id0SkippedZeroer(WithinLimits):
    """The upstream shape with the faulty kernel."""

    kernel = zero_id_0_skipped


FAULT = Fault(
    "id-0-skipped",
    TRUSTS_IDS,
    Id0SkippedZeroer,
    kind="id-0-not-reserved",
    area="kernel",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
