"""The kernel that zeroes chunks, the only device code that a server ships.

A program zeroes one chunk of one block, or of a few blocks where chunks are short: what
a page has in common with one window of memory. Where it lies follows from a row of the
table (address in block 0, block stride, page size, windows) and a block id. All
addresses are integers that the kernel turns into pointers itself, so nothing of a
layout reaches Triton's cache key but whether its chunks are short: a zeroer has one
variant, a target two. The alignment that 16-byte stores need holds by construction,
whatever the page.
"""

import triton
import triton.language as tl

RUNTIME_ARGUMENTS = (
    "rows_ptr",
    "ids_ptr",
    "num_blocks",
    "n_blocks",
    "blocks_each",
    "single_chunks",
    "rows_inside",
)


@triton.jit(do_not_specialize=RUNTIME_ARGUMENTS)
def zero_chunks(
    rows_ptr,
    ids_ptr,
    num_blocks: tl.int64,
    n_blocks: tl.int32,
    blocks_each: tl.int32,
    single_chunks: tl.int32,
    rows_inside: tl.int32,
    SEVERAL_BLOCKS: tl.constexpr,
    CHUNK_BYTES: tl.constexpr,
    MORE_BYTES: tl.constexpr,
    LINE_BYTES: tl.constexpr,
    ROW_FIELDS: tl.constexpr,
):
    """Zero one chunk of one block, or of some neighbours in the block list.

    The axes of the grid are the chunks of a row, then rows and blocks, and the first is
    left out where rows have one chunk.

    Args:
        rows_ptr: Rows of the table, shape [rows, ROW_FIELDS], int64.
        ids_ptr: Block ids, int64; one outside the cache writes nothing.
        num_blocks: Blocks of the cache.
        n_blocks: Length of the block list.
        blocks_each: Blocks of one program, 1 unless SEVERAL_BLOCKS.
        single_chunks: 1 if a row has one chunk, and x and y count rows and blocks.
        rows_inside: 1 if rows are counted before blocks, 0 if it is the other way.
        SEVERAL_BLOCKS: Whether there is a loop, which costs 0.05 us even for one block.
        CHUNK_BYTES: Bytes that are stored at once.
        MORE_BYTES: Bytes that a window may have beyond them.
        LINE_BYTES: A page's windows begin at the last multiple of it that is not
            behind the page's first byte.
        ROW_FIELDS: Numbers from one row to the next.
    """
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    chunk = tl.where(single_chunks != 0, 0, x)
    inner = tl.where(single_chunks != 0, x, y)
    outer = tl.where(single_chunks != 0, y, z)
    row = tl.where(rows_inside != 0, inner, outer)
    first = tl.where(rows_inside != 0, outer, inner)
    if SEVERAL_BLOCKS:
        first *= blocks_each

    block_id = tl.load(ids_ptr + first)
    row_ptr = rows_ptr + row.to(tl.int64) * ROW_FIELDS
    address = tl.load(row_ptr)
    stride = tl.load(row_ptr + 1)
    page_bytes = tl.load(row_ptr + 2)
    windows = tl.load(row_ptr + 3)
    # Windows begin at whole lines, which leaves room for their length in lines.
    window_bytes = (windows & (LINE_BYTES - 1)).to(tl.int32) * LINE_BYTES
    offset = (windows & -LINE_BYTES) + chunk.to(tl.int64) * window_bytes
    # Of the page, from the window on; more than the longest window is as good as that.
    rest_bytes = tl.minimum(page_bytes - offset, CHUNK_BYTES + MORE_BYTES).to(tl.int32)

    if SEVERAL_BLOCKS:
        last = tl.minimum(first + blocks_each, n_blocks)
        for position in range(first + 1, last + 1):
            ahead = tl.load(ids_ptr + position, mask=position < last, other=-1)
            zero_window(
                block_id,
                num_blocks,
                address,
                stride,
                offset,
                window_bytes,
                rest_bytes,
                CHUNK_BYTES,
                MORE_BYTES,
                LINE_BYTES,
            )
            block_id = ahead
    else:
        zero_window(
            block_id,
            num_blocks,
            address,
            stride,
            offset,
            window_bytes,
            rest_bytes,
            CHUNK_BYTES,
            MORE_BYTES,
            LINE_BYTES,
        )


@triton.jit
def zero_window(
    block_id,
    num_blocks,
    address,
    stride,
    offset,
    window_bytes,
    rest_bytes,
    CHUNK_BYTES: tl.constexpr,
    MORE_BYTES: tl.constexpr,
    LINE_BYTES: tl.constexpr,
):
    """Zero what the page of one block has in common with one of its windows.

    All but addresses counts from the window's begin in 32 bits, which takes half as
    many instructions.

    Args:
        block_id: The block.
        num_blocks: Blocks of the cache.
        address: Of the page in block 0.
        stride: From block to block.
        offset: From the line that holds the page's first byte to the window.
        window_bytes: Bytes of the window, a multiple of LINE_BYTES.
        rest_bytes: Bytes of the page, less the offset.
        CHUNK_BYTES: Bytes that are stored at once.
        MORE_BYTES: Bytes that a window may have beyond them.
        LINE_BYTES: Bytes of a line.
    """
    # The host cannot refuse a device id, so a wrong one has an empty page. Unsigned,
    # negative ones are beyond every cache.
    is_listed = block_id.to(tl.uint64) < num_blocks.to(tl.uint64)
    rest_bytes = tl.where(is_listed, rest_bytes, -LINE_BYTES)
    page_begin = address + block_id * stride
    lead_bytes = (page_begin & (LINE_BYTES - 1)).to(tl.int32)
    window = (page_begin & -LINE_BYTES) + offset
    begin = tl.where(offset == 0, lead_bytes, 0)
    end = tl.maximum(tl.minimum(lead_bytes + rest_bytes, window_bytes), begin)
    body_begin = (begin + 15) & -16
    body_end = end & -16

    # The aligned middle. What a vector store of 4 words promises is computed: windows
    # begin at whole lines, and both bounds count whole vectors.
    words = tl.arange(0, CHUNK_BYTES // 4)
    first_word = (body_begin >> 4) * 4
    last_word = (body_end >> 4) * 4
    window_ptr = tl.multiple_of(window.to(tl.pointer_type(tl.int32)), 16)
    is_body = (words >= first_word) & (words < last_word)
    tl.store(window_ptr + words, 0, mask=is_body, eviction_policy="evict_first")
    if last_word > CHUNK_BYTES // 4:
        more = CHUNK_BYTES // 4 + tl.arange(0, MORE_BYTES // 4)
        is_more = more < last_word
        tl.store(window_ptr + more, 0, mask=is_more, eviction_policy="evict_first")

    # At most 15 bytes before it, and at most 15 after it. A chunk inside one vector has
    # no middle, and `body_end` lies before its begin: it is all head.
    if ((begin | end) & 15) != 0:
        lanes = tl.arange(0, 16)
        bytes_ptr = window.to(tl.pointer_type(tl.int8))
        head_bytes = tl.minimum(body_begin, end) - begin
        tl.store(bytes_ptr + begin + lanes, 0, mask=lanes < head_bytes)
        tail_begin = tl.maximum(body_begin, body_end)
        tail_bytes = end - tail_begin
        tl.store(bytes_ptr + tail_begin + lanes, 0, mask=lanes < tail_bytes)
