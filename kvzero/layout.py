"""Layouts as plain integers: allocations, runs of segments, tiles, views.

A *segment* is one strided run of pages; block b of it is the ``page_bytes`` that start
at ``offset_bytes + b * stride_bytes`` of its allocation. Real tables repeat
themselves, so a layout holds *runs*: one run is a whole family of segments, at times
65,536 of them.
Everything that needs single segments asks for `Layout.table`, which expands the runs
into NumPy arrays once. The module needs neither torch nor Triton.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.errors import LayoutError
from kvzero.overlaps import block_overlap

if TYPE_CHECKING:
    from kvzero.views import Tensors

MAX_BYTES = 2**46
"""Largest size, stride or offset of a layout: 64 TiB, what a process can map."""
MAX_TOTAL_BYTES = 2**47
"""Largest sum of all allocations: the address space of a process on x86-64."""
MAX_BLOCKS = 2**40
MAX_SEGMENTS = 2**22
MAX_ALLOCATIONS = 2**20

Int64Array = NDArray[np.int64]


def check_int(name: str, value: object, minimum: int, maximum: int) -> None:
    """Refuse `value` unless it is an int between both bounds, inclusive.

    Raises:
        LayoutError: It is not, named by `name`.
    """
    if type(value) is not int or not minimum <= value <= maximum:
        raise LayoutError(
            f"{name}={value!r}, but must be an int from {minimum} to {maximum}"
        )


@dataclass(frozen=True, slots=True)
class Allocation:
    """`count` equal pieces of memory, each `size_bytes` long."""

    size_bytes: int
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse what no memory could be."""
        check_int("size_bytes", self.size_bytes, 1, MAX_BYTES)
        check_int("count", self.count, 1, MAX_ALLOCATIONS)


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction in which a run or a tile repeats.

    Attributes:
        count: How often.
        step_bytes: Bytes from one to the next, inside an allocation.
        step_allocations: Allocations from one to the next.
    """

    count: int
    step_bytes: int = 0
    step_allocations: int = 0

    def __post_init__(self) -> None:
        """Refuse a direction that leads nowhere."""
        check_int("count", self.count, 1, MAX_SEGMENTS)
        check_int("step_bytes", self.step_bytes, -MAX_BYTES, MAX_BYTES)
        check_int("step_allocations", self.step_allocations, 0, MAX_ALLOCATIONS)


@dataclass(frozen=True, slots=True)
class Run:
    """A family of segments with one page size and one block stride.

    Attributes:
        page_bytes: Bytes zeroed per block.
        stride_bytes: Block stride: bytes from block b to block b + 1.
        offset_bytes: Where block 0 of the first segment begins in its allocation.
        allocation: Allocation of the first segment.
        axes: How the first segment repeats; the last axis varies fastest.
        interleaved: The run's segments alternate with those of the run before it in
            the table, instead of following them.
    """

    page_bytes: int
    stride_bytes: int
    offset_bytes: int = 0
    allocation: int = 0
    axes: tuple[Axis, ...] = ()
    interleaved: bool = False

    def __post_init__(self) -> None:
        """Refuse pages and strides that no memory could have."""
        check_int("page_bytes", self.page_bytes, 1, MAX_BYTES)
        check_int("stride_bytes", self.stride_bytes, 1, MAX_BYTES)
        check_int("offset_bytes", self.offset_bytes, 0, MAX_BYTES)
        check_int("allocation", self.allocation, 0, MAX_ALLOCATIONS)

    @property
    def segments(self) -> int:
        """Return how many segments the run stands for."""
        return axes_size(self.axes)


@dataclass(frozen=True, slots=True)
class Tile:
    """What each block owns of an allocation, padding included.

    Byte x of the allocation, ``origin <= x < origin + count * stride``, belongs to
    block ``(x - origin) // stride``.

    Attributes:
        stride_bytes: Bytes that one block owns.
        count: Blocks, from block 0.
        origin_bytes: Where block 0's part begins.
        allocation: Allocation of the first tile.
        axes: How the tile repeats.
    """

    stride_bytes: int
    count: int
    origin_bytes: int = 0
    allocation: int = 0
    axes: tuple[Axis, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a tile that no memory could hold."""
        check_int("stride_bytes", self.stride_bytes, 1, MAX_BYTES)
        check_int("count", self.count, 1, MAX_BLOCKS)
        check_int("origin_bytes", self.origin_bytes, 0, MAX_BYTES)
        check_int("allocation", self.allocation, 0, MAX_ALLOCATIONS)
        last = (self.count - 1) * self.stride_bytes
        check_int("bytes from the first tile to the last", last, 0, MAX_BYTES)


@dataclass(frozen=True, slots=True)
class View:
    """A KV tensor over an allocation.

    Attributes:
        shape: Sizes of the dimensions.
        strides: Strides, in elements.
        dtype: torch's name of the element type, such as ``"bfloat16"``.
        block_dim: The dimension that counts (kernel) blocks.
        kernel_blocks_per_block: Kernel blocks of one block (*virtual block splitting*).
        allocation: The allocation that holds it.
        offset_bytes: Where element 0 lies in it.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str = "uint8"
    block_dim: int = 0
    kernel_blocks_per_block: int = 1
    allocation: int = 0
    offset_bytes: int = 0


class Segment(NamedTuple):
    """One strided run of pages, inside an allocation."""

    allocation: int
    offset_bytes: int
    stride_bytes: int
    page_bytes: int


class SegmentTable(NamedTuple):
    """All segments of a layout in table order, one array a column."""

    allocation: Int64Array
    offset_bytes: Int64Array
    stride_bytes: Int64Array
    page_bytes: Int64Array

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.allocation)

    def segment(self, index: int) -> Segment:
        """Return one segment as Python ints."""
        return Segment(*(int(column[index]) for column in self))

    def take(self, order: Int64Array) -> "SegmentTable":
        """Return the segments at the given indices, in that order."""
        return SegmentTable(*(column[order] for column in self))


def axes_size(axes: tuple[Axis, ...]) -> int:
    """Return how many elements a grid of axes has."""
    size = 1
    for axis in axes:
        size *= axis.count
    return size


def axes_steps(axes: tuple[Axis, ...]) -> tuple[Int64Array, Int64Array]:
    """Return the byte step and the allocation step of each element of a grid."""
    step_bytes = np.zeros(1, np.int64)
    step_allocations = np.zeros(1, np.int64)
    for axis in axes:
        index = np.arange(axis.count, dtype=np.int64)
        step_bytes = np.add.outer(step_bytes, index * axis.step_bytes).ravel()
        step_allocations = np.add.outer(
            step_allocations, index * axis.step_allocations
        ).ravel()
    return step_bytes, step_allocations


def expand_run(run: Run) -> SegmentTable:
    """Return the segments of one run."""
    step_bytes, step_allocations = axes_steps(run.axes)
    size = len(step_bytes)
    return SegmentTable(
        run.allocation + step_allocations,
        run.offset_bytes + step_bytes,
        np.full(size, run.stride_bytes, np.int64),
        np.full(size, run.page_bytes, np.int64),
    )


def expand_runs(runs: tuple[Run, ...]) -> SegmentTable:
    """Return the segments of all runs in table order, interleaving honoured."""
    tables = [expand_run(run) for run in runs]
    if not tables:
        empty = np.zeros(0, np.int64)
        return SegmentTable(empty, empty, empty, empty)
    joined = SegmentTable(*(np.concatenate(columns) for columns in zip(*tables)))
    if not any(run.interleaved for run in runs):
        return joined
    # A group is a run and the interleaved runs after it; inside a group the segments
    # are ordered by their index in their run first.
    group = np.cumsum([not (run.interleaved and i) for i, run in enumerate(runs)])
    sizes = [len(table) for table in tables]
    index_in_run = np.concatenate([np.arange(size) for size in sizes])
    order = np.lexsort(
        (np.repeat(np.arange(len(runs)), sizes), index_in_run, np.repeat(group, sizes))
    )
    return joined.take(order)


def widest_per_address(table: SegmentTable) -> SegmentTable:
    """Keep one segment per address, at the first position, with the widest page.

    Raises:
        LayoutError: Two segments at one address have different block strides.
    """
    if not len(table):
        return table
    order = np.lexsort((table.offset_bytes, table.allocation))
    sorted_table = table.take(order)
    new = np.ones(len(table), bool)
    new[1:] = (np.diff(sorted_table.allocation) != 0) | (
        np.diff(sorted_table.offset_bytes) != 0
    )
    starts = np.flatnonzero(new)
    mixed = np.flatnonzero(~new & (np.diff(sorted_table.stride_bytes, prepend=0) != 0))
    if len(mixed):
        first, second = sorted(int(order[i]) for i in (mixed[0] - 1, mixed[0]))
        raise LayoutError(
            f"segments {first} and {second} begin at one address with different block "
            f"strides, but overlaid segments must agree on it"
        )
    widest = np.maximum.reduceat(sorted_table.page_bytes, starts)
    first_position = np.minimum.reduceat(order, starts)
    by_position = np.argsort(first_position)
    kept = table.take(first_position[by_position])
    return SegmentTable(*kept[:3], widest[by_position])


@dataclass(frozen=True)
class Layout:
    """Allocations, the runs of segments in them, and the number of blocks.

    Attributes:
        num_blocks: Blocks of the cache; block ids count from 0.
        allocations: Memory, in order; runs, tiles and views name it by index.
        runs: Segments, in table order.
        tiles: What each block owns, padding included; empty when not declared.
        views: The KV tensors that the runs derive from, when known.
        widest_per_address: Segments that begin at one address are one segment with the
            widest of their pages (overlaid cache groups).

    Raises:
        LayoutError: A segment leaves its allocation, or pages of two different blocks
            share a byte.
    """

    num_blocks: int
    allocations: tuple[Allocation, ...]
    runs: tuple[Run, ...]
    tiles: tuple[Tile, ...] = ()
    views: tuple[View, ...] = ()
    widest_per_address: bool = False

    def __post_init__(self) -> None:
        """Refuse a layout that no memory could have."""
        check_int("num_blocks", self.num_blocks, 0, MAX_BLOCKS)
        count = sum(run.segments for run in self.runs)
        check_int("segments of all runs", count, 0, MAX_SEGMENTS)
        check_int("allocations", self.num_allocations, 0, MAX_ALLOCATIONS)
        total = sum(a.size_bytes * a.count for a in self.allocations)
        check_int("bytes of all allocations", total, 0, MAX_TOTAL_BYTES)
        self._check_bounds()
        self._check_overlaps()
        self._check_tiles()

    @classmethod
    def from_tensors(
        cls,
        tensors: "Tensors",
        *,
        block_dim: int | Sequence[int] = 0,
        kernel_blocks_per_block: int | Sequence[int] = 1,
        num_blocks: int | None = None,
    ) -> "Layout":
        """Return the layout of live KV tensors, one allocation a storage.

        Views that begin at one address are one segment with the widest of their pages,
        as layers that share a cache and overlaid cache groups need.

        Args:
            tensors: One entry a layer: a tensor, or a tuple of tensors such as (K, V).
            block_dim: The dimension that counts blocks, for all or for each entry.
            kernel_blocks_per_block: Kernel blocks of one block, for all or for each
                entry; the block dimension then counts kernel blocks.
            num_blocks: Blocks of the cache; by default as the first tensor says.

        Raises:
            LayoutError: A tensor has no memory, is no plain strided view of the blocks,
                or shares bytes of different blocks with another.
        """
        from kvzero.views import layout_of_tensors  # views stand on layouts

        return layout_of_tensors(
            tensors,
            block_dim=block_dim,
            kernel_blocks_per_block=kernel_blocks_per_block,
            num_blocks=num_blocks,
        )

    @property
    def num_allocations(self) -> int:
        """Return the number of allocations."""
        return sum(allocation.count for allocation in self.allocations)

    @cached_property
    def allocation_sizes(self) -> Int64Array:
        """Return the size of each allocation, in bytes."""
        return np.repeat(
            np.array([a.size_bytes for a in self.allocations], np.int64),
            [a.count for a in self.allocations],
        )

    @cached_property
    def table(self) -> SegmentTable:
        """Return all segments, in table order."""
        table = expand_runs(self.runs)
        return widest_per_address(table) if self.widest_per_address else table

    def _check_bounds(self) -> None:
        table = self.table
        outside = (table.allocation < 0) | (table.allocation >= self.num_allocations)
        if outside.any():
            index = int(np.argmax(outside))
            raise LayoutError(
                f"segment {index}: allocation={table.allocation[index]}, but must be "
                f"in range({self.num_allocations})"
            )
        sizes = self.allocation_sizes[table.allocation] if len(table) else 0
        last = max(self.num_blocks - 1, 0)
        if len(table) and last > MAX_BYTES // int(table.stride_bytes.max()):
            index = int(np.argmax(table.stride_bytes))
            raise LayoutError(
                f"segment {index}: block {last} lies beyond {MAX_BYTES} B, more than "
                f"any allocation may have"
            )
        end = table.offset_bytes + last * table.stride_bytes + table.page_bytes
        leaves = (table.offset_bytes < 0) | (end > sizes)
        if self.num_blocks and leaves.any():
            index = int(np.argmax(leaves))
            raise LayoutError(
                f"segment {index}: bytes {table.offset_bytes[index]} to {end[index]} "
                f"of allocation {table.allocation[index]}, but must lie within its "
                f"{self.allocation_sizes[table.allocation[index]]} B"
            )

    def _check_overlaps(self) -> None:
        found = block_overlap(
            self.table.allocation,
            self.table.offset_bytes,
            self.table.stride_bytes,
            self.table.page_bytes,
            self.num_blocks,
        )
        if found is not None:
            raise LayoutError(
                f"block {found.block} of segment {found.segment} and block "
                f"{found.other_block} of segment {found.other_segment} share byte "
                f"{found.byte} of allocation {found.allocation}, but pages of "
                f"different blocks must be disjoint"
            )

    def _check_tiles(self) -> None:
        count = sum(axes_size(tile.axes) for tile in self.tiles)
        check_int("tiles with their axes", count, 0, MAX_SEGMENTS)
        for index, tile in enumerate(self.tiles):
            step_bytes, step_allocations = axes_steps(tile.axes)
            where = tile.allocation + step_allocations
            first = tile.origin_bytes + step_bytes
            inside = (where >= 0) & (where < self.num_allocations) & (first >= 0)
            last = first[inside] + (tile.count - 1) * tile.stride_bytes
            if not inside.all() or (last >= self.allocation_sizes[where[inside]]).any():
                raise LayoutError(
                    f"tiles[{index}]: a block begins outside its allocation, but every "
                    f"tile must begin inside one"
                )
