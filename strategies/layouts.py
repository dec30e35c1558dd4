"""Layouts: frames one behind the other, and a number of blocks that still fits.

The number of blocks is drawn log-uniformly and cut to the memory that the frames leave,
so layouts have few blocks far apart as well as many close together.
"""

from dataclasses import replace
from functools import cache
from typing import Literal

from hypothesis import strategies as st

from kvzero.layout import Allocation, Layout
from kvzero.strategies.counts import (
    Span,
    draw_count,
    draw_integer,
    draw_one,
    spans,
    weighted,
)
from kvzero.strategies.frames import MAX_POOL_BYTES, Room, frames
from kvzero.strategies.reaches import Reach, draw_reach
from kvzero.strategies.runs import Frame, pack

Spread = Literal["close", "apart", "many", "endless"]
MAX_DISTANCE_BYTES = 2**41
"""From the first block to the last: far beyond 32 bits, whatever is counted."""
FAR_BYTES = 2**32
"""Added at times: chance alone would seldom lead beyond 32 bits."""
FEW_BLOCKS = 64
SPREADS: tuple[Spread, ...] = weighted(
    {"close": 11, "apart": 4, "many": 3, "endless": 3}
)
"""Blocks one behind the other, few of them far apart, as many as fill the memory
between, or as many as there are bytes, where there is memory for them.

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


def draw_num_blocks(draw: st.DrawFn) -> int:
    """Draw a number of blocks; shrinks towards 1, and an empty cache stays empty."""
    return draw_integer(draw, *draw_one(draw, block_spans()))


def draw_layout(draw: st.DrawFn, room: Room, reach: Reach) -> Layout:
    """Draw a layout; see `layouts`."""
    num_blocks = draw_num_blocks(draw)
    spread: Spread = draw_one(draw, SPREADS)
    distance = 0
    if spread != "close" and num_blocks:
        distance = draw_count(draw, MAX_DISTANCE_BYTES)
        distance += draw_one(draw, (0, FAR_BYTES))
        num_blocks = max(num_blocks, 2)
    tail, with_tiles = draw_one(draw, EXTRAS)
    found = _together(draw(frames(room, reach)), room)
    if not found:
        return Layout(num_blocks, (Allocation(room.alignment_bytes),), ())
    first, *others = found
    distance = min(distance, room.max_bytes // (4 * (first.count + 1)))
    if spread == "apart" and distance:
        first = first.stretched(room.align(distance // (num_blocks - 1)))
    elif spread == "many" and distance:
        num_blocks = max(num_blocks, distance // first.stride_bytes + 1)
    elif distance:
        num_blocks = max(num_blocks, distance + 1)
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


def _share_address(frame: Frame) -> bool:
    offsets = [piece.offset_bytes for piece in frame.pieces]
    return len(set(offsets)) < len(offsets)


def _together(found: tuple[Frame, ...], room: Room) -> tuple[Frame, ...]:
    """Return the frames, in one allocation where guards would take too much memory."""
    widest = max((frame.stride_bytes for frame in found), default=0)
    allocations = sum(frame.place(1).allocations for frame in found)
    if 2 * widest * allocations <= room.max_bytes // 2:
        return found
    return tuple(
        replace(frame, repeat="regions")
        if frame.repeat in ("allocations", "pairs")
        else frame
        for frame in found
    )


def _most_blocks(found: tuple[Frame, ...], room: Room) -> int:
    """Return how many blocks fit into half of the memory, at least one."""
    per_block = sum((frame.count + 1) * frame.stride_bytes for frame in found)
    return max(room.max_bytes // 2 // per_block, 1)
