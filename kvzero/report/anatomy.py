"""What an allocation is made of, in order: regions, and the pieces of one block.

A *region* is a stretch of an allocation in which block follows block: one segment's row
of pages, or many segments packed into each block. Both regions and pieces repeat in
real layouts, so they are told as patterns.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.layout import Int64Array, Layout, SegmentTable, axes_steps

GAP, PAGE, OVERLAID, PADDING = range(4)
"""Kinds of pieces: no page, a page, a page over an earlier one, padding of a tile."""


class Region(NamedTuple):
    """A stretch of an allocation in which blocks follow each other.

    Attributes:
        begin: Its first byte.
        stride_bytes: Bytes from block to block; 0 if its segments differ in it, or
            shift pages between blocks.
        segments: Its segments, in the order of their offsets.
        end: The byte after its last.
        gap: What lies between its pages: `GAP`, or `PADDING` where a tile holds it.
    """

    begin: int
    stride_bytes: int
    segments: Int64Array
    end: int
    gap: int


def alike_allocations(layout: Layout) -> list[Int64Array]:
    """Return the allocations in groups that have one size and equal segments."""
    table = layout.table
    order = np.lexsort((table.page_bytes, table.offset_bytes, table.allocation))
    bounds = np.searchsorted(
        table.allocation[order], np.arange(layout.num_allocations + 1)
    )
    content = np.stack(table[1:], axis=1)[order]
    groups: dict[tuple[int, bytes], list[int]] = {}
    for index, size in enumerate(layout.allocation_sizes.tolist()):
        rows = content[bounds[index] : bounds[index + 1]]
        groups.setdefault((size, rows.tobytes()), []).append(index)
    return [np.array(group, np.int64) for group in groups.values()]


def regions(layout: Layout, allocation: int) -> list[Region]:
    """Return the regions of an allocation, in the order of memory."""
    table = layout.table
    here = np.flatnonzero(table.allocation == allocation)
    if not len(here) or not layout.num_blocks:
        return []
    here = here[np.argsort(table.offset_bytes[here], kind="stable")]
    begin, stride, page = (column[here] for column in table[1:])
    extent = begin + (layout.num_blocks - 1) * stride + page
    reach = np.maximum.accumulate(extent)
    starts = np.flatnonzero(np.concatenate([[True], begin[1:] >= reach[:-1]]))
    bounds = np.append(starts, len(here))
    window = np.maximum.reduceat(begin + page, starts) - begin[starts]
    narrowest = np.minimum.reduceat(stride, starts)
    regular = narrowest == np.maximum.reduceat(stride, starts)
    regular &= window <= narrowest
    columns = (
        begin[starts],
        np.where(regular, narrowest, 0),
        reach[bounds[1:] - 1],
        starts,
        bounds[1:],
        np.where(_in_tiles(layout, allocation, begin[starts]), PADDING, GAP),
    )
    return [
        Region(at, step, here[first:last], end, gap)
        for at, step, end, first, last, gap in zip(*map(np.ndarray.tolist, columns))
    ]


def _in_tiles(layout: Layout, allocation: int, at: Int64Array) -> NDArray[np.bool_]:
    """Return which bytes of an allocation lie in some tile."""
    found = np.array(sorted(tiles(layout, allocation)), np.int64).reshape(-1, 2)
    reach = np.append(np.maximum.accumulate(found[:, 1]), -1)  # of those begun by then
    last = np.searchsorted(found[:, 0], at, side="right") - 1
    inside: NDArray[np.bool_] = reach[last] > at
    return inside


def pieces(layout: Layout, region: Region) -> Int64Array:
    """Return what one block of a region holds, shape [pieces, 4].

    Columns are offset in the block, segment, size and kind. A piece without a page
    carries the segment before it, so that patterns move as one.
    """
    rows = list(_pieces(layout.table, region))
    return np.array(rows, np.int64).reshape(-1, 4)


def _pieces(table: SegmentTable, region: Region) -> Iterator[tuple[int, int, int, int]]:
    reach, last = 0, int(region.segments[0])
    for segment in region.segments.tolist():
        begin = int(table.offset_bytes[segment]) - region.begin
        size = int(table.page_bytes[segment])
        if begin > reach:
            yield reach, last, begin - reach, region.gap
        yield begin, segment, size, OVERLAID if begin < reach else PAGE
        reach, last = max(reach, begin + size), segment
    if reach < region.stride_bytes:
        yield reach, last, region.stride_bytes - reach, region.gap


def tiles(layout: Layout, allocation: int) -> list[tuple[int, int]]:
    """Return begin and end of the stretches of an allocation that tiles declare."""
    found = []
    for tile in layout.tiles:
        step_bytes, step_allocations = axes_steps(tile.axes)
        here = tile.allocation + step_allocations == allocation
        begins = (tile.origin_bytes + step_bytes[here]).tolist()
        found += [(begin, begin + tile.count * tile.stride_bytes) for begin in begins]
    return found
