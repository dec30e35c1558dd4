"""Segments of a cache to chunks: what one program zeroes of one block.

Segments of one block stride whose pages touch or overlap are one segment, for every
block at once: their addresses move together. What remains is cut into chunks where
*windows* of 4 KiB end, which begin at the line of 128 bytes that holds the page's first
byte. So no two programs store into one line, except where pages share it, and only the
two ends of a page need stores narrower than 16 bytes, whatever the stride. A row of the
table is one chunk; only blocks with gigabytes of pages have rows of many.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.errors import LayoutError
from kvzero.layout import MAX_BYTES, Int64Array

CHUNK_BYTES = 4096
"""Bytes of a window. 2 KiB costs a quarter, 8 KiB a per cent (H200, one warp)."""
LINE_BYTES = 128
"""Bytes of a line of a GPU's cache, where windows begin: 1 to 4 per cent, except where
it takes a chunk more (H200)."""
ROW_FIELDS = 4
"""Numbers of a row (address in block 0, block stride, page size, window's distance from
the first one): 32 bytes are one sector of memory."""
MAX_SINGLE_CHUNKS = 2**20
"""Chunks of one block, 4 GiB of them, up to which each has its row: 32 MiB of table."""
ROW_BASE = 4
ROW_SHIFTS = (2, 4, 6, 8, 10, 12, 14, 16, 18)
"""Beyond that a row stands for as many chunks as a digit, in base 4, of their number.
Each power is a launch of its own, which a call that zeroes gigabytes does not feel."""
INT64_MAX = 2**63 - 1

Integers = Sequence[int] | NDArray[np.integer]


class Segments(NamedTuple):
    """Strided runs of pages in memory, one array a column."""

    address: Int64Array
    stride_bytes: Int64Array
    page_bytes: Int64Array

    def take(self, order: NDArray[np.integer]) -> "Segments":
        """Return the segments at the given indices, in that order."""
        return Segments(*(column[order] for column in self))


class ChunkGroup(NamedTuple):
    """Neighbouring rows of the table with equally many chunks each.

    Attributes:
        first_row: The first of them.
        first_chunk: Chunks of the rows before it.
        chunks: Chunks of all of them.
        shift: Chunks of one row, as a power of two.
    """

    first_row: int
    first_chunk: int
    chunks: int
    shift: int

    def next(self, rows: int, shift: int) -> "ChunkGroup":
        """Return the group of the `rows` rows after this one."""
        return ChunkGroup(
            self.first_row + (self.chunks >> self.shift),
            self.first_chunk + self.chunks,
            rows << shift,
            shift,
        )


class ChunkTable(NamedTuple):
    """The chunks of one block.

    Attributes:
        rows: Shape [rows, ROW_FIELDS]: a page's address in block 0, block stride and
            size, and how far the row's first window lies behind the page's, in bytes.
            Chunks of one row follow each other.
        groups: The rows by their number of chunks; usually one group of single chunks.
    """

    rows: Int64Array
    groups: tuple[ChunkGroup, ...]

    @property
    def num_chunks(self) -> int:
        """Return the chunks of one block."""
        return sum(group.chunks for group in self.groups)


def checked_segments(
    addresses: Integers, strides_bytes: Integers, pages_bytes: Integers, num_blocks: int
) -> Segments:
    """Return segments as arrays.

    Raises:
        LayoutError: A column is no list of ints, or a page that cannot be.
    """
    segments = Segments(
        _column("addresses", addresses, 0, INT64_MAX),
        _column("strides_bytes", strides_bytes, 1, MAX_BYTES),
        _column("pages_bytes", pages_bytes, 1, MAX_BYTES),
    )
    lengths = [len(column) for column in segments]
    if len(set(lengths)) > 1:
        raise LayoutError(
            f"lengths of addresses, strides_bytes, pages_bytes={lengths}, but must be "
            f"equal: one entry a segment"
        )
    _check_blocks_apart(segments, num_blocks)
    _check_addresses(segments, num_blocks)
    return segments


def _column(name: str, values: Integers, minimum: int, maximum: int) -> Int64Array:
    column = np.asarray(values)
    if not column.size:
        return np.zeros(0, np.int64)
    if column.ndim != 1 or column.dtype.kind not in "iu":
        raise LayoutError(
            f"{name} of dtype {column.dtype} and shape {column.shape}, but must be a "
            f"list or an array of ints"
        )
    outside = (column < minimum) | (column > maximum)
    if outside.any():
        index = int(np.argmax(outside))
        raise LayoutError(
            f"{name}[{index}]={column[index]}, but must be from {minimum} to {maximum}"
        )
    return column.astype(np.int64)


def _check_blocks_apart(segments: Segments, num_blocks: int) -> None:
    wide = np.flatnonzero(segments.page_bytes > segments.stride_bytes)
    if num_blocks > 1 and len(wide):
        index = int(wide[0])
        raise LayoutError(
            f"pages_bytes[{index}]={segments.page_bytes[index]}, but must be at most "
            f"strides_bytes[{index}]={segments.stride_bytes[index]}: pages of "
            f"different blocks must be disjoint"
        )


def _check_addresses(segments: Segments, num_blocks: int) -> None:
    room = INT64_MAX - segments.address - segments.page_bytes
    beyond = np.flatnonzero(room // segments.stride_bytes < num_blocks - 1)
    if len(beyond):
        index = int(beyond[0])
        raise LayoutError(
            f"addresses[{index}]={segments.address[index]:#x}, but must leave room for "
            f"{num_blocks} blocks of {segments.stride_bytes[index]} B below 2**63"
        )


def merged(segments: Segments) -> Segments:
    """Return segments with the same pages in which no two of one stride touch.

    They are in the order of their addresses, so that narrow pages among wide ones stay
    there: programs of narrow pages alone store less than a GPU can write, while it
    starts them.

    Args:
        segments: The segments, in any order; pages may overlap.
    """
    if not len(segments.address):
        return segments
    segments = segments.take(np.lexsort((segments.address, segments.stride_bytes)))
    address, stride, page = segments
    reach = _reach(stride, address + page)
    new = np.ones(len(address), bool)
    new[1:] = (stride[1:] != stride[:-1]) | (address[1:] > reach[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(address)) - 1
    joined = Segments(address[first], stride[first], reach[last] - address[first])
    return joined.take(np.argsort(joined.address, kind="stable"))


def _reach(stride: Int64Array, end: Int64Array) -> Int64Array:
    """Return the highest end so far among the segments of the same stride.

    Ends are ranked by stride first, so a running maximum of ranks starts anew with
    every stride: its first segment ranks above all those before it.
    """
    order = np.lexsort((end, stride))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return end[order][np.maximum.accumulate(rank)]


def chunk_table(segments: Segments) -> ChunkTable:
    """Return the chunks of one block, which cover each byte of the pages once.

    Args:
        segments: Segments that `merged` returned.
    """
    counts = _chunk_counts(segments)
    is_single = int(counts.sum()) <= MAX_SINGLE_CHUNKS
    single = counts if is_single else counts % ROW_BASE
    parts = [_rows(segments, np.zeros_like(counts), single, 0)]
    groups = [ChunkGroup(0, 0, len(parts[0]), 0)]
    begin, rest = single, counts - single
    for shift in ROW_SHIFTS if rest.any() else ():
        here = rest >> shift
        if shift != ROW_SHIFTS[-1]:
            here = here % ROW_BASE
        parts.append(_rows(segments, begin, here, shift))
        begin, rest = begin + (here << shift), rest - (here << shift)
        groups.append(groups[-1].next(len(parts[-1]), shift))
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return ChunkTable(rows, tuple(g for g in groups if g.chunks))


def _chunk_counts(segments: Segments) -> Int64Array:
    """Return the chunks of each page: the most that any of its blocks needs.

    From block to block a page moves within its first line by multiples of the greatest
    common divisor of stride and line.
    """
    step = np.gcd(segments.stride_bytes, LINE_BYTES)
    furthest = LINE_BYTES - step + segments.address % step
    counts: Int64Array = -(-(furthest + segments.page_bytes) // CHUNK_BYTES)
    return counts


def _rows(
    segments: Segments, first: Int64Array, counts: Int64Array, shift: int
) -> Int64Array:
    """Return `counts` rows of each segment, from chunk `first`, `1 << shift` a row."""
    before = np.cumsum(counts) - counts
    # A row as it would be, were it the first of all; `repeat` copies whole rows.
    begin = (first - (before << shift)) * CHUNK_BYTES
    rows = np.stack([*segments, begin], axis=1).repeat(counts, axis=0)
    rows[:, 3] += np.arange(len(rows)) * (CHUNK_BYTES << shift)
    return rows
