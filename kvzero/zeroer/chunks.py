"""Segments of a cache to chunks: what one program zeroes of one block.

Segments of one block stride whose pages touch or overlap are one segment, for every
block at once: their addresses move together. What remains is cut into equal *windows*,
which begin at the line of 256 bytes that holds the page's first byte and are whole
lines long. So no two programs store into one line, except where pages share it, and
only the two ends of a page need stores narrower than 16 bytes, whatever the stride. A
row of the table is as many chunks as divide every page's number of them: often a page.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.errors import LayoutError
from kvzero.layout import MAX_BYTES, Int64Array

CHUNK_BYTES = 4096
"""Bytes of a window at most, where a page has several. 2 KiB costs a quarter, since it
takes more programs than a GPU can start; 8 KiB costs a per cent (H200, one warp)."""
MORE_BYTES = 2048
"""Beyond them in the only window of a page: in one window instead of two, pages of
4,224 B were 1.14 times as fast, of 5 KiB 1.01 times, and of 6 KiB as fast (H200)."""
LINE_BYTES = 256
"""Where windows begin. With 128, packed layouts whose pages begin anywhere took 1.01 to
1.02 times as long (H200)."""
ROW_FIELDS = 4
"""Numbers of a row (address in block 0, block stride, page size, and the distance from
the page's first window plus the windows' length in lines, which is below `LINE_BYTES`):
32 bytes are one sector of memory."""
MAX_ROWS = 2**20
"""Rows of equally many chunks, up to which there are no others: 32 MiB of table."""
WIDEST_ROW = 2**18
"""Chunks of a row that any launch can hold: a page of 1 GiB."""
ROW_BASE = 4
ROW_WIDTHS = tuple(ROW_BASE**digit for digit in range(10))
"""Beyond them a row stands for as many chunks as a digit, in base 4, of their number.
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
        rows: How many.
        width: Chunks of one row.
    """

    first_row: int
    first_chunk: int
    rows: int
    width: int

    @property
    def chunks(self) -> int:
        """Return the chunks of all rows."""
        return self.rows * self.width

    def chunks_of(self, rows: range) -> range:
        """Return the chunks of some of the rows, which count from 0 here."""
        return range(
            self.first_chunk + rows.start * self.width,
            self.first_chunk + rows.stop * self.width,
        )

    def next(self, rows: int, width: int) -> "ChunkGroup":
        """Return the group of the `rows` rows after this one."""
        return ChunkGroup(
            self.first_row + self.rows, self.first_chunk + self.chunks, rows, width
        )


class ChunkTable(NamedTuple):
    """The chunks of one block.

    Attributes:
        rows: Shape [rows, ROW_FIELDS]: a page's address in block 0, block stride and
            size, and how far the row's first window lies behind the page's, in bytes,
            plus the lines of a window. Chunks of one row follow each other.
        groups: The rows by their number of chunks; usually there is one group.
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
    counts, window_bytes = _windows(segments)
    first = np.zeros_like(counts)
    parts: list[Int64Array] = []
    groups = [ChunkGroup(0, 0, 0, 1)]
    for width, here in _rows_by_width(counts):
        parts.append(_rows(segments, window_bytes, first, here, width))
        groups.append(groups[-1].next(len(parts[-1]), width))
        first = first + here * width
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return ChunkTable(rows, tuple(group for group in groups if group.rows))


def _windows(segments: Segments) -> tuple[Int64Array, Int64Array]:
    """Return the windows of each page, the most that any block needs, and their size.

    From block to block a page moves within its first line by multiples of the greatest
    common divisor of stride and line.
    """
    step = np.gcd(segments.stride_bytes, LINE_BYTES)
    furthest = LINE_BYTES - step + segments.address % step
    span = furthest + segments.page_bytes
    counts = np.where(span <= CHUNK_BYTES + MORE_BYTES, 1, -(-span // CHUNK_BYTES))
    lines = -(-span // (counts * LINE_BYTES))
    return -(-span // (lines * LINE_BYTES)), lines * LINE_BYTES


def _rows_by_width(counts: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Yield numbers of chunks with the rows of so many that each page has."""
    common = max(1, int(np.gcd.reduce(counts)))
    if common <= WIDEST_ROW and int(counts.sum()) <= MAX_ROWS * common:
        yield common, counts // common
        return
    for width in ROW_WIDTHS:
        here = counts // width
        yield width, here if width == ROW_WIDTHS[-1] else here % ROW_BASE


def _rows(
    segments: Segments,
    window_bytes: Int64Array,
    first: Int64Array,
    counts: Int64Array,
    width: int,
) -> Int64Array:
    """Return `counts` rows of each segment, `width` chunks each, from chunk `first`."""
    before = np.cumsum(counts) - counts
    # A row as it would be, were it the first of all; `repeat` copies whole rows.
    windows = (first - before * width) * window_bytes + window_bytes // LINE_BYTES
    rows = np.stack([*segments, windows], axis=1).repeat(counts, axis=0)
    rows[:, 3] += np.arange(len(rows)) * (window_bytes * width).repeat(counts)
    return rows
