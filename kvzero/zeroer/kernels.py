"""The kernel that zeroes chunks, the only device code that a server ships.

A program zeroes one chunk of one block: what a page has in common with one window of
memory. Where it lies follows from a row of the table (address in block 0, block stride,
page size, window) and a block id. All addresses are integers that the kernel turns into
pointers itself, so nothing of a layout reaches Triton's cache key: one variant is
compiled for each target, and the alignment that 16-byte stores need holds by
construction, whatever the page.
"""

import triton
import triton.language as tl

RUNTIME_ARGUMENTS = (
    "rows_ptr",
    "ids_ptr",
    "num_blocks",
    "chunks_inside",
    "row_shift",
)


@triton.jit(do_not_specialize=RUNTIME_ARGUMENTS)
def zero_chunks(
    rows_ptr,
    ids_ptr,
    num_blocks: tl.int64,
    chunks_inside: tl.int32,
    row_shift: tl.int32,
    CHUNK_BYTES: tl.constexpr,
    LINE_BYTES: tl.constexpr,
    ROW_FIELDS: tl.constexpr,
):
    """Zero one chunk of one block.

    Args:
        rows_ptr: Rows of the table, shape [chunks, ROW_FIELDS], int64.
        ids_ptr: Block ids, int64; one outside the cache writes nothing.
        num_blocks: Blocks of the cache.
        chunks_inside: 1 if x counts chunks and y blocks, 0 if it is the other way.
        row_shift: Chunks of a row, as a power of two; they follow each other.
        CHUNK_BYTES: Bytes of a window.
        LINE_BYTES: A page's windows begin at the last multiple of it that is not
            behind the page's first byte.
        ROW_FIELDS: Numbers from one row to the next.
    """
    inner, outer = tl.program_id(0), tl.program_id(1)
    chunk = tl.where(chunks_inside != 0, inner, outer)
    block = tl.where(chunks_inside != 0, outer, inner)

    block_id = tl.load(ids_ptr + block)
    row = chunk >> row_shift
    row_ptr = rows_ptr + row.to(tl.int64) * ROW_FIELDS
    address = tl.load(row_ptr)
    stride = tl.load(row_ptr + 1)
    size = tl.load(row_ptr + 2)
    offset = tl.load(row_ptr + 3)
    chunk_in_row = chunk - (row << row_shift)
    offset += chunk_in_row.to(tl.int64) * CHUNK_BYTES
    # A device id cannot be refused by the host, so a wrong one has an empty page.
    is_listed = (block_id >= 0) & (block_id < num_blocks)
    size = tl.where(is_listed, size, 0)

    page_begin = address + block_id * stride
    window = (page_begin & -LINE_BYTES) + offset
    begin = tl.maximum(page_begin, window)
    end = tl.minimum(page_begin + size, window + CHUNK_BYTES)
    # Never before the begin, so that all that follows is small beside a window.
    end = tl.maximum(end, begin)
    body_begin = (begin + 15) & -16
    body_end = end & -16

    # The aligned middle. What a vector store of 4 words promises is computed: windows
    # begin at whole lines, and both bounds count whole vectors.
    words = tl.arange(0, CHUNK_BYTES // 4)
    first_word = ((body_begin - window) >> 4).to(tl.int32) * 4
    last_word = ((body_end - window) >> 4).to(tl.int32) * 4
    window_ptr = tl.multiple_of(window.to(tl.pointer_type(tl.int32)), 16)
    is_body = (words >= first_word) & (words < last_word)
    tl.store(window_ptr + words, 0, mask=is_body, eviction_policy="evict_first")

    # At most 15 bytes before it, and at most 15 after it. A chunk inside one vector has
    # no middle, and `body_end` lies before its begin: it is all head.
    if ((begin | end) & 15) != 0:
        lanes = tl.arange(0, 16)
        head_bytes = (tl.minimum(body_begin, end) - begin).to(tl.int32)
        tl.store(begin.to(tl.pointer_type(tl.int8)) + lanes, 0, mask=lanes < head_bytes)
        tail_begin = tl.maximum(body_begin, body_end)
        tail_bytes = (end - tail_begin).to(tl.int32)
        tl.store(
            tail_begin.to(tl.pointer_type(tl.int8)) + lanes, 0, mask=lanes < tail_bytes
        )
