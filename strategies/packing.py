"""Packing: how pages lie inside a block, and how blocks repeat.

Every layout here is made of *frames*. A frame is a window of memory as long as one
block stride: block b owns the window that begins b strides on. Whatever lies inside it,
pages side by side, touching or over each other, belongs to one block, so pages of
different blocks are disjoint whatever is drawn. A frame then repeats as a whole: region
after region, in allocations of its own, as planes, or as kernel blocks of one block.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from kvzero.layout import Allocation, Axis, Run, Tile

Repeat = Literal[
    "regions", "inside", "allocations", "planes", "pairs", "kernel_blocks", "reversed"
]
"""How segments of one frame repeat: each in a region of its own, inside one block, each
in an allocation, as two planes a layer, as two allocations a layer, as kernel blocks of
one block, or region before region."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Equal pages at equal distances inside one window."""

    page_bytes: int
    offset_bytes: int = 0
    count: int = 1
    step_bytes: int = 1
    interleaved: bool = False

    @property
    def end_bytes(self) -> int:
        """Return where the last of the pages ends in the window."""
        return self.offset_bytes + (self.count - 1) * self.step_bytes + self.page_bytes


@dataclass(frozen=True, slots=True)
class Frame:
    """A window with its pages, and how it repeats.

    Attributes:
        pieces: The pages.
        window_bytes: Length of the window.
        repeat: How it repeats.
        count: How often, kernel blocks apart; planes and pairs round it to two.
        kernel_blocks: Windows of one block, for ``"kernel_blocks"``.
        lead_bytes: Memory before the first window.
        gap_bytes: Memory between two repetitions.
        new_allocation: Begin a new allocation, even where the last one has room.
    """

    pieces: tuple[Piece, ...]
    window_bytes: int
    repeat: Repeat = "regions"
    count: int = 1
    kernel_blocks: int = 1
    lead_bytes: int = 0
    gap_bytes: int = 0
    new_allocation: bool = False

    @property
    def stride_bytes(self) -> int:
        """Return the block stride."""
        return self.window_bytes * self.kernel_blocks

    @property
    def segments(self) -> int:
        """Return how many segments the frame stands for, planes rounded."""
        per_window = sum(piece.count for piece in self.pieces)
        return self.count * self.kernel_blocks * per_window

    def without(self, segments: int) -> "Frame":
        """Return the frame with about so many segments fewer, never none."""
        if self.repeat == "inside":
            first = self.pieces[0]
            fewer = replace(first, count=max(first.count - segments, 1))
            return replace(self, pieces=(fewer, *self.pieces[1:]))
        per_count = self.segments // self.count
        return replace(self, count=max(self.count - -(-segments // per_count), 1))

    def stretched(self, window_bytes: int) -> "Frame":
        """Return the frame with a window of at least so many bytes."""
        return replace(self, window_bytes=max(self.window_bytes, window_bytes))

    def place(self, num_blocks: int) -> "PlacedFrame":
        """Return how the frame repeats for a number of blocks."""
        region = self.stride_bytes * max(num_blocks, 1) + self.gap_bytes
        half = max(self.count // 2, 1)
        match self.repeat:
            case "allocations":
                return PlacedFrame(_axes((self.count, 0, 1)), region, self.count)
            case "pairs":
                return PlacedFrame(_axes((half, 0, 2), (2, 0, 1)), region, 2 * half)
            case "planes":
                axes = _axes((half, 2 * region, 0), (2, region, 0))
                return PlacedFrame(axes, 2 * half * region)
            case "kernel_blocks":
                inner = (self.kernel_blocks, self.window_bytes, 0)
                axes = _axes((self.count, region, 0), inner)
                tile_axes = _axes((self.count, region, 0))
                return PlacedFrame(axes, self.count * region, tile_axes=tile_axes)
            case "reversed":
                axes = _axes((self.count, -region, 0))
                first = (self.count - 1) * region
                return PlacedFrame(axes, self.count * region, first_bytes=first)
            case _:
                axes = _axes((self.count, region, 0))
                return PlacedFrame(axes, self.count * region)


class PlacedFrame(NamedTuple):
    """What a frame needs of memory.

    Attributes:
        axes: How its runs repeat.
        size_bytes: Bytes of each of its allocations.
        allocations: How many it needs.
        first_bytes: Where the first repetition begins.
        tile_axes: How its tile repeats, where that differs from `axes`.
    """

    axes: tuple[Axis, ...]
    size_bytes: int
    allocations: int = 1
    first_bytes: int = 0
    tile_axes: tuple[Axis, ...] | None = None


class Packing(NamedTuple):
    """Memory with its runs and tiles."""

    allocations: tuple[Allocation, ...]
    runs: tuple[Run, ...]
    tiles: tuple[Tile, ...]


def pack(frames: tuple[Frame, ...], num_blocks: int, *, tail_bytes: int = 0) -> Packing:
    """Return the memory that holds all frames, one behind the other.

    Frames of one allocation share it with the frame before them.

    Args:
        frames: The frames.
        num_blocks: Blocks of the cache.
        tail_bytes: Memory at the end of every allocation that nobody uses.
    """
    allocations: list[Allocation] = []
    runs: list[Run] = []
    tiles: list[Tile] = []
    for frame in frames:
        placed = frame.place(num_blocks)
        shares = placed.allocations == 1 and not frame.new_allocation
        if shares and allocations and allocations[-1].count == 1:
            begin = allocations.pop().size_bytes
        else:
            begin = 0
        index = sum(a.count for a in allocations)
        origin = begin + frame.lead_bytes
        size = origin + placed.size_bytes + tail_bytes
        allocations.append(Allocation(size, placed.allocations))
        first = origin + placed.first_bytes
        runs.extend(_run(frame, placed, piece, first, index) for piece in frame.pieces)
        tile_axes = placed.axes if placed.tile_axes is None else placed.tile_axes
        if num_blocks:
            tiles.append(Tile(frame.stride_bytes, num_blocks, first, index, tile_axes))
    return Packing(tuple(allocations), tuple(runs), tuple(tiles))


def _run(
    frame: Frame, placed: PlacedFrame, piece: Piece, first: int, index: int
) -> Run:
    inside = _axes((piece.count, piece.step_bytes, 0))
    return Run(
        piece.page_bytes,
        frame.stride_bytes,
        first + piece.offset_bytes,
        index,
        placed.axes + inside,
        piece.interleaved,
    )


def _axes(*axes: tuple[int, int, int]) -> tuple[Axis, ...]:
    """Return the axes that repeat something at all."""
    return tuple(Axis(*axis) for axis in axes if axis[0] > 1)
