"""Bytes of views against bytes of pages, for all blocks at once and exactly.

A view and a page with the same block stride keep their distance, so block 0 decides for
all blocks. Only where something is left over, and pages of another stride might cover
it, is each block looked at. Views are read here anew, by no code that turns views into
segments.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.layout import Int64Array, Layout, View, axes_steps
from kvzero.oracle import merge, subtract
from kvzero.pages import ELEMENT_BYTES

MAX_STRETCHES = 2**22
"""Stretches of bytes that are looked at in one comparison."""
MAX_PAIRS = 2**14
"""Pairs of stretches up to which comparing each costs less than sorting all."""


class TooManyError(Exception):
    """There are more stretches than are looked at."""


class Stretches(NamedTuple):
    """Stretches of bytes, one a row.

    Attributes:
        block: The block that they belong to.
        allocation: The allocation that they lie in.
        stride_bytes: From this block's to the next block's; 0 where each block has rows
            of its own.
        begin: First bytes.
        end: Bytes after the last.
    """

    block: Int64Array
    allocation: Int64Array
    stride_bytes: Int64Array
    begin: Int64Array
    end: Int64Array

    @property
    def rows(self) -> int:
        """Return the number of stretches."""
        return len(self.begin)

    @property
    def total_bytes(self) -> int:
        """Return the bytes of all stretches together."""
        return int((self.end - self.begin).sum())

    def take(self, rows: Int64Array | NDArray[np.bool_]) -> "Stretches":
        """Return some of the stretches."""
        return Stretches(*(column[rows] for column in self))


def block_0(
    allocation: Int64Array, stride_bytes: int | Int64Array, begin: Int64Array, size: int
) -> Stretches:
    """Return stretches of block 0, which stand for those of all blocks."""
    block = np.zeros(len(begin), np.int64)
    stride = np.broadcast_to(np.asarray(stride_bytes, np.int64), begin.shape)
    return Stretches(block, allocation, stride, begin, begin + size)


def joined(parts: Iterable[Stretches]) -> Stretches:
    """Return the stretches of all parts."""
    empty = np.zeros(0, np.int64)
    parts = [Stretches(*[empty] * 5), *parts]
    return Stretches(*(np.concatenate(columns) for columns in zip(*parts)))


def pages_of(layout: Layout) -> Stretches:
    """Return the pages of block 0."""
    table = layout.table
    return Stretches(
        np.zeros(len(table), np.int64),
        table.allocation,
        table.stride_bytes,
        table.offset_bytes,
        table.offset_bytes + table.page_bytes,
    )


def tiles_of(layout: Layout) -> Stretches:
    """Return what block 0 owns by the layout's tiles.

    Tiles that do not reach to the last block are left out: what lies in them in block 0
    does not in the last.
    """
    parts = []
    for tile in layout.tiles:
        if tile.count >= layout.num_blocks:
            step_bytes, step_allocations = axes_steps(tile.axes)
            where = tile.allocation + step_allocations
            begin = tile.origin_bytes + step_bytes
            parts.append(block_0(where, tile.stride_bytes, begin, tile.stride_bytes))
    return joined(parts)


class ViewBytes(NamedTuple):
    """Where a view's blocks lie, in bytes.

    Attributes:
        step_bytes: From one kernel block to the next.
        outer: (size, stride) of each dimension outside the blocks, kernel blocks last.
        inner: (size, stride) of each dimension inside a kernel block, its element last.
    """

    step_bytes: int
    outer: tuple[tuple[int, int], ...]
    inner: tuple[tuple[int, int], ...]

    @property
    def span_bytes(self) -> int:
        """Return the bytes from a kernel block's first to its last, holes included."""
        return 1 + sum((size - 1) * stride for size, stride in self.inner)


def view_bytes(view: View) -> ViewBytes:
    """Return where the blocks of a view lie."""
    item = ELEMENT_BYTES[view.dtype]
    strides = [stride * item for stride in view.strides]
    step = strides[view.block_dim]
    sides = [
        (size, stride)
        for dim, (size, stride) in enumerate(zip(view.shape, strides))
        if dim != view.block_dim
    ]
    if step <= 0:
        # One block, whose stride may be any number: nothing lies outside it.
        step = max([item, *(stride for _, stride in sides)])
    return ViewBytes(
        step,
        (
            *(side for side in sides if side[1] > step),
            (view.kernel_blocks_per_block, step),
        ),
        (*(side for side in sides if side[1] <= step), (item, 1)),
    )


def spans_of(view: View) -> Stretches:
    """Return the spans of block 0 of a view, holes included."""
    found = view_bytes(view)
    begin = view.offset_bytes + _grid(found.outer)
    return _of_view(view, begin, found.span_bytes)


def bytes_of(view: View) -> Stretches:
    """Return the bytes of block 0 of a view, holes left out."""
    found = view_bytes(view)
    inner, width = _without_steps(found.inner)
    begin = view.offset_bytes + _grid((*found.outer, *inner))
    return _of_view(view, begin, width)


def _of_view(view: View, begin: Int64Array, size: int) -> Stretches:
    where = np.full(len(begin), view.allocation, np.int64)
    stride = view_bytes(view).step_bytes * view.kernel_blocks_per_block
    return block_0(where, stride, begin, size)


def _without_steps(
    sides: tuple[tuple[int, int], ...],
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the dimensions that leave holes, and the bytes that lie in a row."""
    width = 1
    left = sorted(sides, key=lambda side: side[1])
    while left and left[0][1] <= width:
        size, stride = left.pop(0)
        width += (size - 1) * stride
    return tuple(left), width


def _grid(sides: tuple[tuple[int, int], ...]) -> Int64Array:
    """Return the offset of each element of some dimensions."""
    count = 1
    for size, _ in sides:
        count *= size
    if count > MAX_STRETCHES:
        raise TooManyError(f"a view has {count} stretches of bytes in a block")
    offsets = np.zeros(1, np.int64)
    for size, stride in sides:
        offsets = np.add.outer(offsets, np.arange(size) * stride).ravel()
    return offsets


def without(first: Stretches, second: Stretches, num_blocks: int) -> Stretches:
    """Return what of the first is in none of the second, for any block.

    Args:
        first: Stretches of block 0.
        second: Stretches of block 0.
        num_blocks: Blocks that they stand for.

    Returns:
        Stretches of block 0, which stand for all blocks; or, with a stride of 0, those
        of each block.

    Raises:
        TooManyError: Each block would have to be looked at, and there are too many.
    """
    if num_blocks == 0:
        return joined([])
    if num_blocks == 1:
        # Nothing moves: strides mean nothing.
        first, second = _still(first), _still(second)
    if _are_inside(first, second):
        return joined([])
    left = _subtract(first, second)
    others = second.take(np.isin(second.allocation, left.allocation))
    strides = np.concatenate([left.stride_bytes, others.stride_bytes])
    if not left.rows or len(np.unique(strides)) < 2:
        return left
    return _subtract(_each_block(left, num_blocks), _each_block(others, num_blocks))


def _are_inside(first: Stretches, second: Stretches) -> bool:
    """Return whether each of the first lies in one of the second, if they are few."""
    if first.rows * second.rows > MAX_PAIRS:
        return False
    inside = first.begin[:, None] >= second.begin
    inside &= first.end[:, None] <= second.end
    for name in ("block", "stride_bytes", "allocation"):
        inside &= getattr(first, name)[:, None] == getattr(second, name)
    return bool(inside.any(axis=1).all())


def _still(stretches: Stretches) -> Stretches:
    return stretches._replace(stride_bytes=np.zeros(stretches.rows, np.int64))


def _each_block(stretches: Stretches, num_blocks: int) -> Stretches:
    if stretches.rows * num_blocks > MAX_STRETCHES:
        raise TooManyError(
            f"views and pages of different block strides in {num_blocks} blocks"
        )
    rows = np.tile(np.arange(stretches.rows), num_blocks)
    block = np.repeat(np.arange(num_blocks), stretches.rows)
    every = stretches.take(rows)
    moved = block * every.stride_bytes
    return _still(
        every._replace(block=block, begin=every.begin + moved, end=every.end + moved)
    )


def _subtract(first: Stretches, second: Stretches) -> Stretches:
    """Return what of the first is in none of the second of its block and stride."""
    # Every end of a stretch gets its rank among all of them; stretches of another
    # block, stride or allocation rank apart, so that one line of integers holds all.
    keys = [
        np.concatenate([getattr(first, name), getattr(second, name)] * 2)
        for name in ("block", "stride_bytes", "allocation")
    ]
    at = np.concatenate([first.begin, second.begin, first.end, second.end])
    order = np.lexsort((at, *reversed(keys)))
    new = np.zeros(len(at), bool)
    for column in (*keys, at):
        new[1:] |= np.diff(column[order]) != 0
    rank = np.empty(len(at), np.int64)
    rank[order] = np.cumsum(new)
    row_of_rank = order[np.flatnonzero(new | (np.arange(len(at)) == 0))]
    parts = np.split(rank, np.cumsum([first.rows, second.rows, first.rows]))
    begins, others, ends, others_end = map(torch.from_numpy, parts)
    left = subtract(merge(begins, ends), merge(others, others_end))
    first_row, last_row = (row_of_rank[ranks.numpy()] for ranks in left)
    block, stride, allocation = (key[first_row] for key in keys)
    return Stretches(block, allocation, stride, at[first_row], at[last_row])
