"""Whether pages of two different blocks share a byte.

Segments with one block stride S are rectangles: their residue modulo S is an interval
on a circle, and the whole strides before it shift the block that lies at each turn. Two
segments whose intervals meet put blocks of different ids on one byte exactly if those
shifts differ by less than the number of blocks. One sorted sweep over the circle sees
all of it, so the cost is that of sorting segments, not of comparing pairs or blocks.
Segments with different strides in one stretch of memory have no such circle: there, and
only there, the pages themselves are sorted, a window of memory at a time.
"""

from bisect import bisect_left, insort
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.errors import InternalError, LayoutError

Int64Array = NDArray[np.int64]

WINDOW_PAGES = 2**21
"""Pages sorted at once where strides differ: 48 MiB of arrays."""
MAX_MIXED_PAGES = 2**27
"""Pages that are compared where strides differ: about 6 s."""


class BlockOverlap(NamedTuple):
    """One byte that belongs to pages of two different blocks."""

    allocation: int
    byte: int
    segment: int
    block: int
    other_segment: int
    other_block: int


def block_overlap(
    allocation: Int64Array,
    offset: Int64Array,
    stride: Int64Array,
    page: Int64Array,
    num_blocks: int,
) -> BlockOverlap | None:
    """Return one byte shared by pages of different blocks, or None.

    Args:
        allocation: Allocation of each segment, shape [segments].
        offset: Byte offset of block 0 of each segment, shape [segments].
        stride: Block stride of each segment in bytes, shape [segments].
        page: Page size of each segment in bytes, shape [segments].
        num_blocks: Blocks of every segment.
    """
    if num_blocks < 2 or not len(offset):
        return None
    if _in_one_window(allocation, offset, stride, page, num_blocks):
        return None
    order = np.lexsort((stride, allocation))
    new = np.flatnonzero(
        (np.diff(allocation[order], prepend=-1) != 0)
        | (np.diff(stride[order], prepend=-1) != 0)
    )
    classes = np.split(order, new[1:])
    for members in classes:
        found = _same_stride(members, allocation, offset, stride, page, num_blocks)
        if found is not None:
            return found
    if len(classes) == len(np.unique(allocation)):
        return None
    return _mixed_strides(classes, allocation, offset, stride, page, num_blocks)


def _same_stride(
    members: Int64Array,
    allocation: Int64Array,
    offset: Int64Array,
    stride: Int64Array,
    page: Int64Array,
    num_blocks: int,
) -> BlockOverlap | None:
    """Sweep the circle of one stride in one allocation."""
    step = int(stride[members[0]])
    where = int(allocation[members[0]])
    too_wide = np.flatnonzero(page[members] > step)
    if len(too_wide):
        segment = int(members[too_wide[0]])
        byte = int(offset[segment]) + step
        return BlockOverlap(where, byte, segment, 0, segment, 1)
    turn, begin = np.divmod(offset[members], step)
    end = begin + page[members]
    wraps = end > step
    begin = np.concatenate([begin, begin[wraps] - step])
    end = np.concatenate([end, end[wraps] - step])
    turn = np.concatenate([turn, turn[wraps] + 1])
    segment_of = np.concatenate([members, members[wraps]])
    order = np.argsort(begin, kind="stable")
    suspects = order[_turns_differ(begin[order], end[order], turn[order])]
    pair = _sweep(begin, end, turn, suspects, num_blocks)
    if pair is None:
        return None
    first, second = pair
    # Block b of one segment meets block b + shift of the other.
    shift = int(turn[first] - turn[second])
    block, other_block = max(-shift, 0), max(shift, 0)
    byte = int(begin[second]) + (int(turn[first]) + block) * step
    segments = int(segment_of[first]), int(segment_of[second])
    return BlockOverlap(where, byte, segments[0], block, segments[1], other_block)


def _in_one_window(
    allocation: Int64Array,
    offset: Int64Array,
    stride: Int64Array,
    page: Int64Array,
    num_blocks: int,
) -> bool:
    """Return whether each stretch of memory is one window repeated block after block.

    Then block b owns the b-th window whatever lies in it. Most layouts are like that,
    layers one behind the other or packed, and need no sweep.
    """
    end = offset + (num_blocks - 1) * stride + page
    length = int(end.max()) + 1
    if length * (int(allocation.max()) + 1) >= 2**62:
        return False
    begin = allocation * length + offset
    order = np.argsort(begin, kind="stable")
    begin, step, size = begin[order], stride[order], page[order]
    reach = np.maximum.accumulate(begin + (num_blocks - 1) * step + size)
    starts = np.flatnonzero(np.concatenate([[True], begin[1:] >= reach[:-1]]))
    window = np.maximum.reduceat(begin + size, starts) - begin[starts]
    narrowest = np.minimum.reduceat(step, starts)
    same = narrowest == np.maximum.reduceat(step, starts)
    return bool((same & (window <= narrowest)).all())


def _turns_differ(
    begin: Int64Array, end: Int64Array, turn: Int64Array
) -> NDArray[np.bool_]:
    """Return which sorted intervals stand in a cluster that mixes turns."""
    reach = np.maximum.accumulate(end)
    starts = np.flatnonzero(np.concatenate([[True], begin[1:] >= reach[:-1]]))
    low = np.minimum.reduceat(turn, starts)
    high = np.maximum.reduceat(turn, starts)
    sizes = np.diff(np.append(starts, len(begin)))
    return np.repeat(low != high, sizes)


def _sweep(
    begin: Int64Array,
    end: Int64Array,
    turn: Int64Array,
    order: Int64Array,
    num_blocks: int,
) -> tuple[int, int] | None:
    """Return two intervals that meet with turns less than `num_blocks` apart.

    All turns open at one point are equal or at least `num_blocks` apart, or the sweep
    would have stopped; so a new one can only clash with its neighbours.
    """
    open_turns: list[int] = []
    holder: dict[int, tuple[int, int]] = {}
    ends: list[tuple[int, int]] = []
    for index in order.tolist():
        at, until, q = int(begin[index]), int(end[index]), int(turn[index])
        while ends and ends[0][0] <= at:
            closed, closed_turn = heappop(ends)
            if holder[closed_turn][0] == closed:
                del holder[closed_turn]
                del open_turns[bisect_left(open_turns, closed_turn)]
        if q in holder:
            if until <= holder[q][0]:
                continue
        else:
            at_turn = bisect_left(open_turns, q)
            for other in open_turns[max(at_turn - 1, 0) : at_turn + 1]:
                if abs(other - q) < num_blocks:
                    return holder[other][1], index
            insort(open_turns, q)
        holder[q] = (until, index)
        heappush(ends, (until, q))
    return None


def _mixed_strides(
    classes: list[Int64Array],
    allocation: Int64Array,
    offset: Int64Array,
    stride: Int64Array,
    page: Int64Array,
    num_blocks: int,
) -> BlockOverlap | None:
    """Sort pages where segments of different strides lie in one stretch of memory."""
    extent = offset + (num_blocks - 1) * stride + page
    for where in np.unique(allocation).tolist():
        here = np.concatenate([c for c in classes if allocation[c[0]] == where])
        order = here[np.argsort(offset[here], kind="stable")]
        reach = np.maximum.accumulate(extent[order])
        new = np.concatenate([[True], offset[order][1:] >= reach[:-1]])
        for members in np.split(order, np.flatnonzero(new)[1:]):
            if len(np.unique(stride[members])) > 1:
                _check_mixed_pages(len(members) * num_blocks, where)
                found = _windows(members, offset, stride, page, num_blocks)
                if found is not None:
                    return BlockOverlap(where, *found)
    return None


def _check_mixed_pages(pages: int, where: int) -> None:
    if pages > MAX_MIXED_PAGES:
        raise LayoutError(
            f"segments of different block strides share a stretch of allocation "
            f"{where} with {pages} pages, but must have at most {MAX_MIXED_PAGES}: "
            f"such pages are compared one by one"
        )


def _windows(
    members: Int64Array,
    offset: Int64Array,
    stride: Int64Array,
    page: Int64Array,
    num_blocks: int,
) -> tuple[int, int, int, int, int] | None:
    """Walk one stretch of memory in windows of about `WINDOW_PAGES` pages."""
    begin, step, size = offset[members], stride[members], page[members]
    extent = begin + (num_blocks - 1) * step + size
    at, stop = int(begin.min()), int(extent.max())
    pages_per_byte = float((1.0 / step).sum())
    width = max(int(WINDOW_PAGES / pages_per_byte), int(size.max()))
    while at < stop:
        # Pages that meet [at, at + width): a page that straddles a border is in both.
        first = np.clip(-((begin + size - 1 - at) // step), 0, num_blocks)
        last = np.clip((at + width - 1 - begin) // step + 1, 0, num_blocks)
        counts = np.maximum(last - first, 0)
        which = np.repeat(np.arange(len(members)), counts)
        skipped = np.repeat(np.cumsum(counts) - counts, counts)
        block = first[which] + np.arange(len(which)) - skipped
        found = _adjacent(begin[which] + block * step[which], size[which], block)
        if found is not None:
            byte, one, two = found
            return (
                byte,
                int(members[which[one]]),
                int(block[one]),
                int(members[which[two]]),
                int(block[two]),
            )
        at += width
    return None


def _adjacent(
    begin: Int64Array, size: Int64Array, block: Int64Array
) -> tuple[int, int, int] | None:
    """Return a byte and the two pages of different blocks that hold it, or None."""
    if not len(begin):
        return None
    order = np.argsort(begin, kind="stable")
    at, end, ids = begin[order], (begin + size)[order], block[order]
    reach = np.maximum.accumulate(end)
    starts = np.flatnonzero(np.concatenate([[True], at[1:] >= reach[:-1]]))
    mixed = np.flatnonzero(
        np.minimum.reduceat(ids, starts) != np.maximum.reduceat(ids, starts)
    )
    if not len(mixed):
        return None
    # Every page of a cluster meets the one that reached farthest before it, so walking
    # along that chain must cross from one block to another.
    farthest = int(starts[mixed[0]])
    for index in range(farthest + 1, len(order)):
        if ids[index] != ids[farthest]:
            return int(at[index]), int(order[farthest]), int(order[index])
        if end[index] > end[farthest]:
            farthest = index
    raise InternalError("a cluster of pages mixes blocks, but no two of them meet")
