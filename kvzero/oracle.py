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

FEW_KINDS = 16
"""Block strides that are looked through one by one for segments that touch."""
FEW = 4096
"""Stretches from which on torch is faster than NumPy, if they are in disorder."""


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


_NO_BYTES = Intervals(*torch.zeros((2, 0), dtype=torch.int64))


def no_bytes(device: torch.device | str = "cpu") -> Intervals:
    """Return the empty set."""
    if device == "cpu":
        return _NO_BYTES
    empty = torch.zeros(0, dtype=torch.int64, device=device)
    return Intervals(empty, empty)


def merge(starts: torch.Tensor, ends: torch.Tensor) -> Intervals:
    """Return the bytes of any stretches: unsorted, overlapping or empty ones too.

    Args:
        starts: First addresses, int64, shape [n].
        ends: Addresses after the last, int64, shape [n].
    """
    if _are_few(starts):
        return _of_arrays(*merged(starts.numpy(), ends.numpy()))
    full = ends > starts
    if not bool(full.all()):
        starts, ends = starts[full], ends[full]
    if starts.numel() < 2:
        return Intervals(starts, ends)
    if not bool((starts[1:] >= starts[:-1]).all()):
        starts, order = starts.sort()
        ends = ends[order]
        del order
    if not bool((ends[1:] >= ends[:-1]).all()):
        ends = ends.cummax(0).values
    opens = torch.ones(starts.numel(), dtype=torch.bool, device=starts.device)
    torch.gt(starts[1:], ends[:-1], out=opens[1:])
    closes = torch.ones_like(opens)
    closes[:-1] = opens[1:]
    return Intervals(starts[opens], ends[closes])


def merged(starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Do the same without the fixed costs of torch, on arrays of NumPy."""
    full = ends > starts
    if np.count_nonzero(full) < len(full):
        starts, ends = starts[full], ends[full]
    count = len(starts)
    if count < 2:
        return starts, ends
    if np.count_nonzero(starts[1:] < starts[:-1]):
        order = starts.argsort(kind="stable")
        starts, ends = starts[order], ends[order]
    if np.count_nonzero(ends[1:] < ends[:-1]):
        ends = np.maximum.accumulate(ends)
    breaks = (starts[1:] > ends[:-1]).nonzero()[0]
    if len(breaks) == count - 1:
        return starts, ends
    opens, closes = np.zeros((2, len(breaks) + 1), np.intp)
    opens[1:] = breaks + 1
    closes[:-1], closes[-1] = breaks, count - 1
    return starts[opens], ends[closes]


def _are_few(addresses: torch.Tensor) -> bool:
    """Return whether NumPy is faster on some addresses than torch."""
    return addresses.numel() < FEW and addresses.device.type == "cpu"


def _of_arrays(starts: Int64Array, ends: Int64Array) -> Intervals:
    return Intervals(torch.from_numpy(starts), torch.from_numpy(ends))


def union(first: Intervals, second: Intervals) -> Intervals:
    """Return the bytes in either set."""
    return merge(
        torch.cat([first.starts, second.starts]), torch.cat([first.ends, second.ends])
    )


def subtract(first: Intervals, second: Intervals) -> Intervals:
    """Return the bytes in the first set that are not in the second."""
    return _where_depth(first, second, weight=2, wanted=1)


def intersect(first: Intervals, second: Intervals) -> Intervals:
    """Return the bytes in both sets."""
    return _where_depth(first, second, weight=1, wanted=2)


def _where_depth(
    first: Intervals, second: Intervals, *, weight: int, wanted: int
) -> Intervals:
    """Return where the first set counts 1, the second `weight`, and the sum fits."""
    if not len(first) or not len(second):
        return first if wanted == 1 else no_bytes(first.starts.device)
    if _are_few(first.starts) and _are_few(second.starts):
        return _of_arrays(*_where_depth_of_few(first, second, weight, wanted))
    at = torch.cat([first.starts, first.ends, second.starts, second.ends])
    change = torch.ones(at.numel(), dtype=torch.int8, device=at.device)
    change[len(first) : 2 * len(first)] = -1
    change[2 * len(first) :] = weight
    change[2 * len(first) + len(second) :] = -weight
    at, order = at.sort()
    # The depth between two neighbouring addresses; where they are equal, the stretch is
    # empty and `merge` drops it. Unsorted ties may pass through any depth meanwhile.
    depth = change[order].cumsum(0, dtype=torch.int8)
    fits = depth[:-1] == wanted
    return merge(at[:-1][fits], at[1:][fits])


def _where_depth_of_few(
    first: Intervals, second: Intervals, weight: int, wanted: int
) -> tuple[Int64Array, Int64Array]:
    """Do the same without the fixed costs of torch."""
    at = np.concatenate([part.numpy() for part in (*first, *second)])
    change = np.ones(len(at), np.int8)
    change[len(first) : 2 * len(first)] = -1
    change[2 * len(first) :] = weight
    change[2 * len(first) + len(second) :] = -weight
    order = np.argsort(at, kind="stable")
    at = at[order]
    fits = np.cumsum(change[order], dtype=np.int8)[:-1] == wanted
    return merged(at[:-1][fits], at[1:][fits])


def contains(intervals: Intervals, addresses: torch.Tensor) -> torch.Tensor:
    """Return which addresses are in the set, as a mask of the same shape."""
    if not len(intervals):
        return torch.zeros_like(addresses, dtype=torch.bool)
    index = torch.searchsorted(intervals.starts, addresses, right=True) - 1
    return (index >= 0) & (addresses < intervals.ends[index.clamp(min=0)])


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
    device: torch.device | str = "cpu",
) -> Intervals:
    """Return the bytes that must be zero after a call: the pages of its blocks.

    Args:
        case: The case.
        call_index: Which of its calls.
        base_addresses: Address of each allocation, shape [allocations].
        device: Where to compute.

    Returns:
        Absolute addresses.
    """
    return Oracle(case, base_addresses, device).must_be_zero(call_index)


def may_be_zero(
    case: Case,
    call_index: int,
    base_addresses: Int64Array | Sequence[int],
    device: torch.device | str = "cpu",
) -> Intervals:
    """Return the bytes that a call may zero beside those that it must.

    They are the padding of its blocks' tiles, if the case lets it be touched; never a
    byte outside an allocation.

    Args:
        case: The case.
        call_index: Which of its calls.
        base_addresses: Address of each allocation, shape [allocations].
        device: Where to compute.

    Returns:
        Absolute addresses.
    """
    return Oracle(case, base_addresses, device).may_be_zero(call_index)


def reserved_pages(
    case: Case,
    block: int | None,
    base_addresses: Int64Array | Sequence[int],
    device: torch.device | str = "cpu",
) -> Intervals:
    """Return the bytes that a warm-up may zero: the pages of a reserved block.

    Args:
        case: The case.
        block: `Contract.reserved_block`.
        base_addresses: Address of each allocation, shape [allocations].
        device: Where to compute.

    Returns:
        Absolute addresses; none where no block of the cache is reserved.
    """
    return Oracle(case, base_addresses, device).reserved_pages(block)


class Oracle:
    """The segment oracle of one case: what its calls share is computed once."""

    def __init__(
        self,
        case: Case,
        base_addresses: Int64Array | Sequence[int],
        device: torch.device | str = "cpu",
    ) -> None:
        """Take a case and where it lies.

        Args:
            case: The case.
            base_addresses: Address of each allocation, shape [allocations].
            device: Where to compute.
        """
        self._case = case
        self._bases = np.asarray(base_addresses, np.int64)
        self._device = device
        self._known: dict[int, Int64Array] = {}

    def must_be_zero(self, call_index: int) -> Intervals:
        """Return the bytes that must be zero after a call; see the function."""
        blocks = self._blocks(call_index)
        if not len(blocks):
            return no_bytes(self._device)
        return _pages(self._segments, blocks, self._device)

    def may_be_zero(self, call_index: int) -> Intervals:
        """Return the bytes that a call may zero beside those; see the function."""
        case = self._case
        if not case.padding_may_be_touched or not case.layout.tiles:
            return no_bytes(self._device)
        blocks = self._blocks(call_index)
        tiles = no_bytes(self._device)
        for count, columns in self._tiles:
            owned = blocks[blocks < count]
            tiles = union(tiles, _pages(columns, owned, self._device))
        must = self.must_be_zero(call_index)
        return subtract(intersect(tiles, self._memory), must)

    def reserved_pages(self, block: int | None) -> Intervals:
        """Return the bytes that a warm-up may zero; see the function."""
        if block is None or block >= self._case.layout.num_blocks:
            return no_bytes(self._device)
        return _pages(self._segments, np.array([block], np.int64), self._device)

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
        return _by_address(begin, table.stride_bytes, table.page_bytes)

    @cached_property
    def _tiles(self) -> list[tuple[int, "_Columns"]]:
        """Return how many blocks have each kind of tile, and where they lie."""
        found = []
        for tile in self._case.layout.tiles:
            step_bytes, step_allocations = axes_steps(tile.axes)
            starts = self._bases[tile.allocation + step_allocations]
            starts = starts + tile.origin_bytes + step_bytes
            strides = np.full(len(starts), tile.stride_bytes, np.int64)
            found.append((tile.count, _by_address(starts, strides, strides)))
        return found

    @cached_property
    def _memory(self) -> Intervals:
        ends = self._bases + self._case.layout.allocation_sizes
        starts, ends = merged(self._bases, ends)
        return Intervals(
            torch.from_numpy(starts).to(self._device),
            torch.from_numpy(ends).to(self._device),
        )


_Columns = tuple[Int64Array, Int64Array, Int64Array]
"""Address in block 0, block stride and page of some segments, sorted by address."""


def _by_address(
    block_zero: Int64Array, strides: Int64Array, pages: Int64Array
) -> _Columns:
    """Return segments sorted; those of one stride that touch stay so, and are one."""
    kinds = set(strides.tolist())
    if 0 < len(kinds) <= FEW_KINDS:
        ends = block_zero + pages
        parts = []
        for stride in kinds:
            mine = slice(None) if len(kinds) == 1 else strides == stride
            first, last = merged(block_zero[mine], ends[mine])
            parts.append((first, np.full(len(first), stride, np.int64), last - first))
        block_zero, strides, pages = map(np.concatenate, zip(*parts))
    order = block_zero.argsort(kind="stable")
    return block_zero[order], strides[order], pages[order]


def _pages(
    columns: _Columns, blocks: Int64Array, device: torch.device | str
) -> Intervals:
    """Return the bytes of some blocks' pages in all segments, overlaid ones once."""
    is_here = device == "cpu" or torch.device(device).type == "cpu"
    if len(columns[0]) * len(blocks) < FEW and is_here:
        return _of_arrays(*_few_pages(blocks, *columns))
    begin, stride, page = (torch.from_numpy(c).to(device) for c in columns)
    ids = torch.from_numpy(blocks).to(device)
    # Segments in rows or blocks in rows: whichever comes out sorted spares the sort.
    starts = begin[:, None] + stride[:, None] * ids
    by_block = starts.numel() and bool((starts[-1, :-1] <= starts[0, 1:]).all())
    ends = starts + page[:, None]
    if by_block:
        starts, ends = starts.T, ends.T
    return merge(starts.flatten(), ends.flatten())


def _few_pages(
    blocks: Int64Array, block_zero: Int64Array, strides: Int64Array, pages: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Do the same without the fixed costs of torch."""
    starts = block_zero[:, None] + strides[:, None] * blocks
    ends = starts + pages[:, None]
    return merged(starts.ravel(), ends.ravel())


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
