"""The oracle: for each call, which bytes must be zero, may be zero or stay untouched.

Two oracles that share no code with the zeroer or with each other. The *segment oracle*
adds up page addresses and merges them into intervals, so its cost is that of the pages,
whatever their size. The *view oracle* indexes the KV tensors themselves (`view[ids]`)
over a map of byte positions; it is slow, independent, and meant for small layouts.

An `Intervals` is a set of bytes: sorted, disjoint, never touching stretches of absolute
addresses.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.case import REFUSED_DTYPES, Call, Case
from kvzero.layout import Int64Array, View, axes_steps


class Intervals(NamedTuple):
    """A set of bytes: [start, end) stretches, sorted, disjoint and not touching."""

    starts: torch.Tensor
    ends: torch.Tensor

    @property
    def total_bytes(self) -> int:
        """Return the number of bytes in the set."""
        return int((self.ends - self.starts).sum())

    def __len__(self) -> int:
        """Return the number of stretches."""
        return int(self.starts.numel())

    def moved(self, distance_bytes: int) -> "Intervals":
        """Return the set with every address moved."""
        return Intervals(self.starts + distance_bytes, self.ends + distance_bytes)


def no_bytes() -> Intervals:
    """Return the empty set."""
    return _of_arrays(np.zeros(0, np.int64), np.zeros(0, np.int64))


def merge(starts: torch.Tensor, ends: torch.Tensor) -> Intervals:
    """Return the bytes of any stretches: unsorted, overlapping or empty ones too.

    Args:
        starts: First addresses, int64, shape [n].
        ends: Addresses after the last, int64, shape [n].
    """
    return _of_arrays(*merged(starts.numpy(), ends.numpy()))


def merged(starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Do the same on arrays of NumPy.

    Starts and ends are sorted apart: a stretch of the result begins where all that
    began before have ended, whichever they are.
    """
    full = ends > starts
    starts, ends = _ascending(starts[full]), _ascending(ends[full])
    opens = starts[1:] > ends[:-1]
    return (
        np.concatenate([starts[:1], starts[1:][opens]]),
        np.concatenate([ends[:-1][opens], ends[-1:]]),
    )


def _ascending(addresses: Int64Array) -> Int64Array:
    """Return addresses sorted: they are often rows, which a stable sort merges."""
    return np.sort(addresses, kind="stable")


def _of_arrays(starts: Int64Array, ends: Int64Array) -> Intervals:
    return Intervals(torch.from_numpy(starts), torch.from_numpy(ends))


def union(first: Intervals, second: Intervals) -> Intervals:
    """Return the bytes in either set."""
    return _of_arrays(*merged(*_of_both(first, second)))


def intersect(first: Intervals, second: Intervals) -> Intervals:
    """Return the bytes in both sets."""
    starts, ends = map(_ascending, _of_both(first, second))
    # No byte is in more than two stretches: it is in two where one begins before the
    # one that began before it has ended, whichever that is.
    starts, ends = starts[1:], ends[:-1]
    both = starts < ends
    return _of_arrays(starts[both], ends[both])


def subtract(first: Intervals, second: Intervals) -> Intervals:
    """Return the bytes in the first set that are not in the second."""
    int64 = torch.iinfo(torch.int64)
    least, most = torch.tensor([[int64.min], [int64.max]])
    outside = Intervals(
        torch.cat([least, second.ends]), torch.cat([second.starts, most])
    )
    return intersect(first, outside)


def _of_both(first: Intervals, second: Intervals) -> tuple[Int64Array, Int64Array]:
    starts, ends = (torch.cat(pair).numpy() for pair in zip(first, second))
    return starts, ends


def within(intervals: Intervals, begin: int, end: int) -> Intervals:
    """Return the bytes of the set from `begin` to before `end`."""
    first = int(torch.searchsorted(intervals.ends, begin, right=True))
    last = int(torch.searchsorted(intervals.starts, end)) if end > begin else first
    return Intervals(
        intervals.starts[first:last].clamp(min=begin),
        intervals.ends[first:last].clamp(max=end),
    )


def zeroed_blocks(call: Call, num_blocks: int) -> Int64Array:
    """Return the distinct blocks that a call must zero, sorted.

    A call that must be refused zeroes nothing. Ids that arrive on the device are not
    seen by the host, so there the legal ids count and the others write nothing, unless
    the dtype alone, which the host does see, refuses them.
    """
    unseen = call.arrival == "device" and call.dtype not in REFUSED_DTYPES
    if call.must_be_refused(num_blocks) and not unseen:
        return np.zeros(0, np.int64)
    return call.blocks(num_blocks)


def must_be_zero(
    case: Case,
    call_index: int,
    base_addresses: Int64Array | Sequence[int],
) -> Intervals:
    """Return the bytes that must be zero after a call: the pages of its blocks.

    Args:
        case: The case.
        call_index: Which of its calls.
        base_addresses: Address of each allocation, shape [allocations].

    Returns:
        Absolute addresses.
    """
    return Oracle(case, base_addresses).must_be_zero(call_index)


def may_be_zero(
    case: Case,
    call_index: int,
    base_addresses: Int64Array | Sequence[int],
) -> Intervals:
    """Return the bytes that a call may zero beside those that it must.

    They are the padding of its blocks' tiles, if the case lets it be touched; never a
    byte outside an allocation.

    Args:
        case: The case.
        call_index: Which of its calls.
        base_addresses: Address of each allocation, shape [allocations].

    Returns:
        Absolute addresses.
    """
    return Oracle(case, base_addresses).may_be_zero(call_index)


def reserved_pages(
    case: Case,
    block: int | None,
    base_addresses: Int64Array | Sequence[int],
) -> Intervals:
    """Return the bytes that a warm-up may zero: the pages of a reserved block.

    Args:
        case: The case.
        block: `Contract.reserved_block`.
        base_addresses: Address of each allocation, shape [allocations].

    Returns:
        Absolute addresses; none where no block of the cache is reserved.
    """
    return Oracle(case, base_addresses).reserved_pages(block)


class Oracle:
    """The segment oracle of one case: what its calls share is computed once."""

    def __init__(
        self,
        case: Case,
        base_addresses: Int64Array | Sequence[int],
    ) -> None:
        """Take a case and where it lies.

        Args:
            case: The case.
            base_addresses: Address of each allocation, shape [allocations].
        """
        self._case = case
        self._bases = np.asarray(base_addresses, np.int64)
        self._known: dict[int, Int64Array] = {}

    def must_be_zero(self, call_index: int) -> Intervals:
        """Return the bytes that must be zero after a call; see the function."""
        return _pages(self._segments, self._blocks(call_index))

    def may_be_zero(self, call_index: int) -> Intervals:
        """Return the bytes that a call may zero beside those; see the function."""
        if not self._case.padding_may_be_touched:
            return no_bytes()
        blocks = self._blocks(call_index)
        tiles = no_bytes()
        for count, columns in self._tiles:
            owned = blocks[blocks < count]
            tiles = union(tiles, _pages(columns, owned))
        must = self.must_be_zero(call_index)
        return subtract(intersect(tiles, self._memory), must)

    def reserved_pages(self, block: int | None) -> Intervals:
        """Return the bytes that a warm-up may zero; see the function."""
        if block is None or block >= self._case.layout.num_blocks:
            return no_bytes()
        return _pages(self._segments, np.array([block], np.int64))

    def _blocks(self, call_index: int) -> Int64Array:
        if call_index not in self._known:
            call = self._case.calls[call_index]
            blocks = zeroed_blocks(call, self._case.layout.num_blocks)
            self._known = {call_index: blocks}  # of one call: lists may be long
        return self._known[call_index]

    @cached_property
    def _segments(self) -> "_Columns":
        table = self._case.layout.table
        begin = self._bases[table.allocation] + table.offset_bytes
        return begin, table.stride_bytes, table.page_bytes

    @cached_property
    def _tiles(self) -> list[tuple[int, "_Columns"]]:
        """Return how many blocks have each kind of tile, and where they lie."""
        found = []
        for tile in self._case.layout.tiles:
            step_bytes, step_allocations = axes_steps(tile.axes)
            starts = self._bases[tile.allocation + step_allocations]
            starts = starts + tile.origin_bytes + step_bytes
            strides = np.full(len(starts), tile.stride_bytes, np.int64)
            found.append((tile.count, (starts, strides, strides)))
        return found

    @cached_property
    def _memory(self) -> Intervals:
        ends = self._bases + self._case.layout.allocation_sizes
        return _of_arrays(*merged(self._bases, ends))


_Columns = tuple[Int64Array, Int64Array, Int64Array]
"""Address in block 0, block stride and page of some segments."""


def _pages(columns: _Columns, blocks: Int64Array) -> Intervals:
    """Return the bytes of some blocks' pages in all segments, overlaid ones once."""
    begin, stride, page = (column[:, None] for column in columns)
    starts = begin + stride * blocks
    ends = starts + page
    return _of_arrays(*merged(starts.ravel(), ends.ravel()))


def view_mask(
    view: View,
    num_blocks: int,
    ids: Sequence[int] | NDArray[np.int64],
    allocation_bytes: int,
) -> torch.Tensor:
    """Return the bytes of an allocation that `view[ids]` covers.

    The view is laid over a map in which every byte holds its own position, and indexed
    as a server would index it: what comes out are the positions.

    Args:
        view: The KV tensor; its block dimension counts kernel blocks.
        num_blocks: Blocks of the cache.
        ids: Block ids, each in range(num_blocks); duplicates allowed.
        allocation_bytes: Size of the view's allocation.

    Returns:
        Mask, bool, shape [allocation_bytes].
    """
    item: int = getattr(torch, view.dtype).itemsize
    positions = torch.arange(allocation_bytes, dtype=torch.int64)
    elements = positions.as_strided(
        (*view.shape, item), (*(s * item for s in view.strides), 1), view.offset_bytes
    )
    split = view.kernel_blocks_per_block
    blocks = torch.arange(num_blocks)[torch.as_tensor(np.asarray(ids, np.int64))]
    kernel_blocks = (blocks[:, None] * split + torch.arange(split)).reshape(-1)
    covered = torch.zeros(allocation_bytes, dtype=torch.bool)
    covered[elements.index_select(view.block_dim, kernel_blocks).reshape(-1)] = True
    return covered
