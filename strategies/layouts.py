"""Layouts: frames one behind the other, and a number of blocks that still fits.

The number of blocks is drawn log-uniformly and cut to the memory that the frames leave,
so layouts have few blocks far apart as well as many close together.
"""

from dataclasses import replace
from functools import cache
from typing import Literal

from hypothesis import strategies as st

from kvzero.layout import Allocation, Layout, Run
from kvzero.strategies.counts import (
    Span,
    draw_integer,
    draw_one,
    spans,
    weighted,
)
from kvzero.strategies.frames import MAX_POOL_BYTES, Room, frames
from kvzero.strategies.packing import Frame, Packing, pack
from kvzero.strategies.reaches import Reach, draw_reach

Spread = Literal["close", "apart", "many", "endless"]
MAX_DISTANCE_BYTES = 2**41
"""From the first block to the last: far beyond 32 bits, whatever is counted."""
FAR_BYTES = 2**32
"""Beyond it lies every second distance: chance alone would seldom lead there."""
CLOSE_BYTES = 2**30
"""Below every limit of 32 bits: more than four close blocks end before it."""
TINY = Reach(Span(1, 3), Span(1, 17), Span(1, 1))
FEW_BLOCKS = 64
SPREADS: tuple[Spread, ...] = weighted(
    {"close": 11, "apart": 4, "many": 3, "endless": 3}
)
"""Blocks one behind the other, few of them far apart, as many as fill the memory
between, or as many with tiny pages.

All reach as far as the bytes that are drawn with them, so a fault that needs a
distance shrinks from many blocks to two that lie apart.
"""
EXTRAS: tuple[tuple[bool, bool], ...] = weighted(
    {(False, False): 9, (True, False): 2, (False, True): 4, (True, True): 1}
)
"""Whether allocations end in memory of nobody, and tiles are declared."""


@cache
def block_spans() -> tuple[Span, ...]:
    """Return the spans of the number of blocks: few, at times none."""
    few = (span for span in spans(FEW_BLOCKS) for _ in range(3))
    return (*few, Span(0, 0), Span(0, 0))


@cache
def distance_spans() -> tuple[Span, ...]:
    """Return the spans of the distance between the first block and the last."""
    anywhere = spans(MAX_DISTANCE_BYTES)
    far = Span(FAR_BYTES, MAX_DISTANCE_BYTES)
    return (*anywhere, *(far for _ in anywhere))


def draw_num_blocks(draw: st.DrawFn, min_blocks: int = 0) -> int:
    """Draw a number of blocks; shrinks towards 1, and an empty cache stays empty."""
    return max(draw_integer(draw, *draw_one(draw, block_spans())), min_blocks)


def draw_layout(draw: st.DrawFn, room: Room, reach: Reach) -> Layout:
    """Draw a layout; see `layouts`."""
    num_blocks = draw_num_blocks(draw, room.min_blocks)
    spread: Spread = draw_one(draw, SPREADS)
    distance = 0
    if spread != "close" and num_blocks:
        distance = draw_integer(draw, *draw_one(draw, distance_spans()))
        num_blocks = max(num_blocks, 2)
    tail, with_tiles = draw_one(draw, EXTRAS)
    if spread == "endless":
        reach = TINY
    found = _together(draw(frames(room, reach)), room)
    if not found:
        return Layout(num_blocks, (Allocation(room.alignment_bytes),), ())
    first, *others = found
    distance = min(distance, room.max_bytes // (8 * (first.count + 1)))
    if spread == "apart" and distance:
        window = distance // (num_blocks - 1) // first.kernel_blocks
        first = first.stretched(room.align(window))
    elif distance:
        widest = max(frame.stride_bytes for frame in found)
        num_blocks = max(num_blocks, distance // widest + 1)
    else:
        # Not far by themselves: far blocks are drawn as such, and shrink better so.
        num_blocks = min(num_blocks, max(CLOSE_BYTES // first.stride_bytes, 4))
    found = (first, *others)
    num_blocks = min(num_blocks, _most_blocks(found, room))
    overlaid = any(_share_address(frame) for frame in found)
    packing = pack(found, num_blocks, tail_bytes=room.alignment_bytes * tail)
    return Layout(
        num_blocks,
        packing.allocations,
        packing.runs,
        tiles=packing.tiles if with_tiles else (),
        widest_per_address=overlaid and draw_one(draw, (False, True)),
    )


@st.composite
def layouts(
    draw: st.DrawFn,
    *,
    alignment_bytes: int = 1,
    one_page_size: bool = False,
    max_bytes: int = MAX_POOL_BYTES,
    max_programs_hint: int | None = None,
) -> Layout:
    """Draw layouts: packed, layer by layer, separate, planes, overlaid, split blocks.

    Shrinks towards one block and one run of one page of `alignment_bytes`.

    Args:
        draw: Hypothesis's.
        alignment_bytes: Every address, stride and page size is a multiple of it.
        one_page_size: All pages have one size.
        max_bytes: Memory of the whole layout, guards included.
        max_programs_hint: About how many 4-KiB chunks the largest family may have.
    """
    room = Room(alignment_bytes, one_page_size, max_bytes)
    return draw_layout(draw, room, draw_reach(draw, max_programs_hint))


@st.composite
def packings(
    draw: st.DrawFn, *, num_blocks: int = 2, alignment_bytes: int = 1
) -> Packing:
    """Draw memory with its runs and tiles, for a number of blocks.

    Shrinks towards one allocation and one run of one page.

    Args:
        draw: Hypothesis's.
        num_blocks: Blocks of the cache, at most 4.
        alignment_bytes: Every address, stride and page size is a multiple of it.
    """
    room = Room(alignment_bytes)
    return pack(_together(draw(frames(room, draw_reach(draw))), room), num_blocks)


def runs(*, alignment_bytes: int = 1) -> st.SearchStrategy[tuple[Run, ...]]:
    """Draw the runs of two blocks; they shrink as `packings` do.

    Args:
        alignment_bytes: Every offset, stride and page size is a multiple of it.
    """
    return packings(alignment_bytes=alignment_bytes).map(lambda packing: packing.runs)


def _share_address(frame: Frame) -> bool:
    offsets = [piece.offset_bytes for piece in frame.pieces]
    return len(set(offsets)) < len(offsets)


def _together(found: tuple[Frame, ...], room: Room) -> tuple[Frame, ...]:
    """Return the frames, in one allocation where guards would take too much memory."""
    widest = max((frame.stride_bytes for frame in found), default=0)
    allocations = sum(frame.place(1).allocations for frame in found)
    if 2 * widest * allocations <= room.max_bytes // 4:
        return found
    return tuple(
        replace(frame, repeat="regions")
        if frame.repeat in ("allocations", "pairs")
        else frame
        for frame in found
    )


def _most_blocks(found: tuple[Frame, ...], room: Room) -> int:
    """Return how many blocks fit into a quarter of the memory, at least one."""
    per_block = sum((frame.count + 1) * frame.stride_bytes for frame in found)
    return max(room.max_bytes // 4 // per_block, 1)
