"""Which windows of a case's memory a reader should see, and at what scale.

A picture is chosen once, and drawn as text in the terminal or as SVG in a report: whole
allocations where they fit, else where in the pool things happened, one block, and the
surroundings of the first wrong bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np

from kvzero.case import Case
from kvzero.layout import Int64Array, Layout
from kvzero.observation import Observation
from kvzero.oracle import zeroed_blocks
from kvzero.report.anatomy import alike_allocations, regions
from kvzero.report.anatomy_text import bytes_text
from kvzero.report.overview import whole_window
from kvzero.report.panel import (
    MISSED,
    ROW_COLUMNS,
    TOUCHED,
    Listing,
    Mark,
    Window,
)
from kvzero.report.wrong_bytes import Stage, stages

WHOLE_COLUMNS = 4 * ROW_COLUMNS
"""Columns in which an allocation is drawn whole."""
BLOCK_COLUMNS = 2 * ROW_COLUMNS
BLOCKS_DRAWN = 4
"""Blocks that are drawn where each has one page."""
MOST_DRAWN = 3
"""Kinds of allocations that are drawn."""
GUARD_COLUMNS = 8
BEFORE_WRONG_BYTES = 16
"""Bytes shown before the first wrong one."""


class Picture(NamedTuple):
    """A window to draw.

    Attributes:
        name: What it shows, such as ``"allocation 0, whole"``.
        window: What to draw.
        is_overview: It holds a whole allocation whose pages are too small to be drawn.
    """

    name: str
    window: Window
    is_overview: bool = False

    @property
    def title(self) -> str:
        """Return what it shows, and its scale."""
        return f"{self.name}; 1 column = {bytes_text(self.window.scale)}"


@dataclass(frozen=True)
class Pictures:
    """What to draw of a layout or a case.

    Attributes:
        layout: What lies where.
        pictures: Windows, those with wrong bytes first.
        listings: Calls whose listed blocks get a track.
        marks: Wrong bytes.
        kinds_left_out: Kinds of allocations that are not drawn.
    """

    layout: Layout
    pictures: tuple[Picture, ...]
    listings: tuple[Listing, ...] = ()
    marks: tuple[Mark, ...] = ()
    kinds_left_out: int = 0


def layout_pictures(layout: Layout) -> Pictures:
    """Return what to draw of a layout."""
    return _pictures(layout, (), ())


def case_pictures(case: Case, observation: Observation | None = None) -> Pictures:
    """Return what to draw of a case.

    Args:
        case: The case.
        observation: What was seen of it: wrong bytes are then marked.
    """
    wrong = (stage for stage in stages(observation) if _marks(stage))
    stage = next(wrong, None)
    return _pictures(case.layout, tuple(_listings(case, stage)), tuple(_marks(stage)))


def _pictures(
    layout: Layout, listings: tuple[Listing, ...], marks: tuple[Mark, ...]
) -> Pictures:
    kinds = _drawn(layout, marks)
    chosen = []
    for allocation in kinds[:MOST_DRAWN]:
        # Where an allocation is drawn in parts, its parts need a place in the whole.
        if _whole_scale(layout, allocation) is None and (listings or marks):
            window = whole_window(layout, allocation)
            name = f"allocation {allocation}, whole"
            chosen.append(Picture(name, window, is_overview=True))
        chosen += _windows(layout, allocation, marks)
    left_out = max(len(kinds) - MOST_DRAWN, 0)
    return Pictures(layout, tuple(chosen), listings, marks, left_out)


def _marks(stage: Stage | None) -> list[Mark]:
    """Return the wrong bytes of a moment that lie in the case's memory."""
    if stage is None:
        return []
    pairs = (
        (f"missed {stage.number}".rstrip(), MISSED, stage.missed.spans),
        (f"touched {stage.number}".rstrip(), TOUCHED, stage.touched.spans),
    )
    return [
        Mark(
            label,
            sign,
            span.allocation,
            span.offset_bytes,
            span.offset_bytes + span.length_bytes,
            span.seen,
        )
        for label, sign, spans in pairs
        for span in spans
        if span.allocation is not None
    ]


def _listings(case: Case, stage: Stage | None) -> list[Listing]:
    """Return the calls up to the moment that went wrong, the last three of them."""
    num_blocks = case.layout.num_blocks
    if stage is not None and stage.ids is not None:
        ids = np.unique(np.array(stage.ids, np.int64))
        return [Listing("replay", ids[(ids >= 0) & (ids < num_blocks)])]
    count = len(case.calls)
    if stage is not None and stage.number:
        count = int(stage.number)
    calls = list(enumerate(case.calls))[max(count - 3, 0) : count]
    return [
        Listing(f"call {index + 1}", zeroed_blocks(call, num_blocks))
        for index, call in calls
    ]


def _drawn(layout: Layout, marks: Sequence[Mark]) -> list[int]:
    """Return one allocation of each kind, those with wrong bytes first."""
    wrong = [mark.allocation for mark in marks]
    groups = (group.tolist() for group in alike_allocations(layout))
    chosen = [next((a for a in group if a in wrong), group[0]) for group in groups]
    return sorted(chosen, key=lambda allocation: allocation not in wrong)


def _windows(
    layout: Layout, allocation: int, marks: Sequence[Mark]
) -> Iterator[Picture]:
    """Yield what to draw of an allocation: all of it, or a block, and wrong bytes."""
    here = [mark for mark in marks if mark.allocation == allocation]
    scale = _whole_scale(layout, allocation)
    if scale is not None:
        size = int(layout.allocation_sizes[allocation])
        begin = -GUARD_COLUMNS * scale
        columns = -(-size // scale) + 2 * GUARD_COLUMNS
        window = Window(allocation, begin, columns, scale)
        yield Picture(f"allocation {allocation}", window)
    else:
        yield from _one_block(layout, allocation, here)
    if scale != 1:
        for label in dict.fromkeys(mark.label for mark in here):
            mark = next(m for m in here if m.label == label)
            first = mark.begin - BEFORE_WRONG_BYTES
            window = Window(allocation, first - first % 8, ROW_COLUMNS)
            what = _first_bytes(label)
            yield Picture(f"allocation {allocation}, around {what}", window)


def _first_bytes(label: str) -> str:
    """Return what a track marks first: ``the first bytes missed in call 1``."""
    what, _, number = label.partition(" ")
    return f"the first bytes {what}" + (f" in call {number}" if number else "")


def _whole_scale(layout: Layout, allocation: int) -> int | None:
    """Return the bytes of a column if an allocation can be drawn whole."""
    segments = np.flatnonzero(layout.table.allocation == allocation)
    size = int(layout.allocation_sizes[allocation])
    if size <= WHOLE_COLUMNS - 2 * GUARD_COLUMNS:
        return 1
    scale = _scale(layout, segments, size, WHOLE_COLUMNS - 2 * GUARD_COLUMNS)
    smallest = layout.table.page_bytes[segments].min(initial=size)
    return scale if scale <= smallest else None


def _scale(layout: Layout, segments: Int64Array, size: int, columns: int) -> int:
    """Return the bytes of a column that fits, if possible so that pages begin with one.

    Args:
        layout: The layout.
        segments: Segments to draw.
        size: Bytes to draw.
        columns: Columns that there are.
    """
    parts = (int(np.gcd.reduce(column[segments])) for column in layout.table[1:])
    step = gcd(*parts, size) or size
    if -(-size // step) > columns:
        return step * -(-size // (step * columns))
    finer = (k for k in range(step * columns // size, 0, -1) if step % k == 0)
    return step // next(finer, 1)


def _one_block(
    layout: Layout, allocation: int, here: Sequence[Mark]
) -> Iterator[Picture]:
    """Yield the begin of one block: one with wrong bytes if there is one, else 0."""
    found = [r for r in regions(layout, allocation) if r.stride_bytes]
    if not found:
        return
    byte = here[0].begin if here else found[0].begin
    region = next((r for r in found if r.begin <= byte < r.end), found[0])
    block = max(byte - region.begin, 0) // region.stride_bytes
    begin = region.begin + block * region.stride_bytes
    blocks = BLOCKS_DRAWN if len(region.segments) == 1 else 1
    size, columns = blocks * region.stride_bytes, BLOCK_COLUMNS
    scale = _scale(layout, region.segments, size, columns)
    # A block of many small pages does not fit, so its begin is drawn, page by page.
    scale = min(scale, int(layout.table.page_bytes[region.segments].min()))
    window = Window(allocation, begin, min(-(-size // scale), columns), scale)
    yield Picture(f"allocation {allocation}, from block {block:,}", window)
