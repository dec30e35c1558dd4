"""The kernel that zeroes chunks, the only device code that a server ships.

A program zeroes one chunk of one block. Where it lies follows from a row of the table
(address in block 0, block stride, bytes) and a block id. All addresses are integers
that the kernel turns into pointers itself, so nothing of a layout reaches Triton's
cache key: one variant is compiled for each target, and the alignment that 16-byte
stores need holds by construction, whatever the page.
"""

import triton
import triton.language as tl

RUNTIME_ARGUMENTS = (
    "rows_ptr",
    "ids_ptr",
    "num_blocks",
    "inner",
    "chunks_inside",
    "row_shift",
)


@triton.jit(do_not_specialize=RUNTIME_ARGUMENTS)
def zero_chunks(
    rows_ptr,
    ids_ptr,
    num_blocks: tl.int64,
    inner: tl.int32,
    chunks_inside: tl.int32,
    row_shift: tl.int32,
    CHUNK_BYTES: tl.constexpr,
    ROW_FIELDS: tl.constexpr,
):
    """Zero one chunk of one block.

    Args:
        rows_ptr: Rows of the table, shape [chunks, ROW_FIELDS], int64.
        ids_ptr: Block ids, int64; one outside the cache writes nothing.
        num_blocks: Blocks of the cache.
        inner: Neighbouring programs that share a block, or a chunk.
        chunks_inside: 1 if neighbours share a block, 0 if they share a chunk.
        row_shift: Chunks of a row, as a power of two; more than one are all
            CHUNK_BYTES long and follow each other.
        CHUNK_BYTES: Most bytes of a chunk that 16-byte stores cover.
        ROW_FIELDS: Numbers from one row to the next.
    """
    program = tl.program_id(0)
    outer = program // inner
    nearer = program - outer * inner
    chunk = tl.where(chunks_inside != 0, nearer, outer)
    block = tl.where(chunks_inside != 0, outer, nearer)

    block_id = tl.load(ids_ptr + block)
    row = chunk >> row_shift
    row_ptr = rows_ptr + row.to(tl.int64) * ROW_FIELDS
    address = tl.load(row_ptr)
    stride = tl.load(row_ptr + 1)
    size = tl.load(row_ptr + 2)
    # A device id cannot be refused by the host, so a wrong one has an empty chunk.
    is_listed = (block_id >= 0) & (block_id < num_blocks)
    size = tl.where(is_listed, size, 0)

    chunk_in_row = chunk - (row << row_shift)
    begin = address + chunk_in_row.to(tl.int64) * CHUNK_BYTES + block_id * stride
    end = begin + size
    body_begin = (begin + 15) & -16
    body_end = end & -16

    # The aligned middle. Both promises of a vector store are computed, not assumed: the
    # pointer is rounded up to 16 bytes, and the bound counts whole vectors of 4 words.
    words = tl.arange(0, CHUNK_BYTES // 4)
    body_words = ((body_end - body_begin) >> 4).to(tl.int32) * 4
    body_ptr = tl.multiple_of(body_begin.to(tl.pointer_type(tl.int32)), 16)
    is_body = words < body_words
    tl.store(body_ptr + words, 0, mask=is_body, eviction_policy="evict_first")

    # At most 15 bytes before it, and at most 15 after it. A chunk inside one vector has
    # no middle, and `body_end` lies before its begin: it is all head.
    lanes = tl.arange(0, 16)
    head_bytes = (tl.minimum(body_begin, end) - begin).to(tl.int32)
    tl.store(begin.to(tl.pointer_type(tl.int8)) + lanes, 0, mask=lanes < head_bytes)
    tail_begin = tl.maximum(body_begin, body_end)
    tail_bytes = (end - tail_begin).to(tl.int32)
    tl.store(
        tail_begin.to(tl.pointer_type(tl.int8)) + lanes, 0, mask=lanes < tail_bytes
    )
