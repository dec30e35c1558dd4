"""A memory map as text: what lies where, which call lists it, and what went wrong.

It tells the layout twice: exactly, as a list in which repeats are collapsed, and as a
picture at a scale that fits. All of it fits 80 columns and needs no colour.
"""

import textwrap
from collections.abc import Iterator, Sequence
from math import gcd

import numpy as np

from kvzero.case import Case
from kvzero.layout import Int64Array, Layout
from kvzero.memory import place
from kvzero.observation import ByteSpan, Observation
from kvzero.oracle import zeroed_blocks
from kvzero.properties.location import locate
from kvzero.properties.wording import arrival_text, counted, ids_text
from kvzero.report.anatomy import alike_allocations, regions
from kvzero.report.anatomy_text import allocation_lines, bytes_text, more
from kvzero.report.overview import draw_whole, whole_window
from kvzero.report.panel import (
    IN_TILE,
    LISTED,
    MISSED,
    NO_PAGE,
    OUTSIDE,
    ROW_COLUMNS,
    SEVERAL,
    TOUCHED,
    Listing,
    Mark,
    Window,
    draw,
)

WIDTH = 80
WHOLE_COLUMNS = 4 * ROW_COLUMNS
"""Columns in which an allocation is drawn whole."""
BLOCK_COLUMNS = 2 * ROW_COLUMNS
BLOCKS_DRAWN = 4
"""Blocks that are drawn where each has one page."""
MOST_KINDS = 12
"""Kinds of allocations that are told."""
MOST_DRAWN = 3
"""Kinds of allocations that are drawn."""
MOST_CALLS = 8
GUARD_COLUMNS = 8
BEFORE_WRONG_BYTES = 16
"""Bytes shown before the first wrong one."""

_LEGEND = (
    (IN_TILE, "padding: bytes of a block's tile in no page"),
    (NO_PAGE, "bytes in no page and no tile"),
    (OUTSIDE, "guard, outside the allocation"),
    (SEVERAL, "several pages in one column"),
    (LISTED, "pages of listed blocks: must be zero after the call"),
    (MISSED, "missed: listed, but not zero after the call"),
    (TOUCHED, "touched: not listed, but stored or changed"),
)


def layout_map(layout: Layout) -> list[str]:
    """Return the map of a layout, a line an item."""
    return [_summary(layout), *_allocations(layout), *_pictures(layout, [], [])]


def case_map(case: Case, observation: Observation | None = None) -> list[str]:
    """Return the map of a case, a line an item.

    Args:
        case: The case.
        observation: What was seen of it: wrong bytes are then marked.
    """
    marks = _marks(observation)
    words = [
        _summary(case.layout),
        _placement(case),
        *_calls(case),
        *_wrong_bytes(case, observation),
    ]
    return [
        *(part for line in words for part in _wrapped(line)),
        *_allocations(case.layout),
        *_pictures(case.layout, _listings(case, marks), marks),
    ]


def _wrapped(line: str) -> list[str]:
    """Return a line in parts that fit, the later ones indented further."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent) or [""]


def _summary(layout: Layout) -> str:
    total = bytes_text(int(layout.allocation_sizes.sum()))
    return (
        f"{counted(len(layout.table), 'segment')}, "
        f"{counted(layout.num_blocks, 'block')}, "
        f"{counted(layout.num_allocations, 'allocation')}, {total}"
    )


def _placement(case: Case) -> str:
    guard = f"guards of {place(case).guard_bytes:,} B around each allocation"
    shifts = ", ".join(map(str, case.placement.misalignments_bytes))
    padding = "may be zeroed too" if case.padding_may_be_touched else "must stay"
    tiles = f"; padding {padding}" if case.layout.tiles else ""
    return f"{guard}; bytes past a 512 B boundary: {shifts}{tiles}"


def _calls(case: Case) -> list[str]:
    lines = ["", "calls"]
    for index, call in enumerate(case.calls[:MOST_CALLS]):
        refused = call.must_be_refused(case.layout.num_blocks)
        note = ": holds bad ids" if refused else ""
        lines.append(
            f"  {index + 1:<3} zero({ids_text(call)}), {arrival_text(call)}{note}"
        )
    return lines + more(len(case.calls) - MOST_CALLS, "calls")


def _wrong_bytes(case: Case, observation: Observation | None) -> list[str]:
    """Return where the wrong bytes of each call are."""
    lines: list[str] = []
    for index, seen in enumerate(observation.calls if observation else ()):
        for label, wrong in (("missed", seen.missed), ("touched", seen.touched)):
            if not wrong.count:
                continue
            lines.append(f"  call {index + 1} {label} {counted(wrong.count, 'byte')}")
            for span in wrong.spans:
                lines += _span_lines(case, span)
            shown = sum(span.length_bytes for span in wrong.spans)
            lines += more(wrong.count - shown, "bytes")
    return ["", "wrong bytes", *lines] if lines else []


def _span_lines(case: Case, span: ByteSpan) -> list[str]:
    last = span.offset_bytes + span.length_bytes - 1
    if span.allocation is None:
        lines = [f"    addresses {span.offset_bytes:#x} to {last:#x}, outside the case"]
    else:
        stretch = f"{span.offset_bytes:,} to {last:,} of allocation {span.allocation}"
        lines = [f"    bytes {stretch}: {_stretch_text(case, span, last)}"]
    if span.seen:
        lines.append(f"      now {span.seen.hex(' ')}")
    if span.writer is not None:
        program = ", ".join(map(str, span.writer.program))
        lines.append(f"      stored by program ({program}) at {span.writer.place}")
    return lines


def _stretch_text(case: Case, span: ByteSpan, last: int) -> str:
    """Return whose bytes a stretch is."""
    first = locate(case.layout, span.allocation, span.offset_bytes)
    end = locate(case.layout, span.allocation, last)
    page = "" if first.segment is None else f" in segment {first.segment}"
    if (first.owner, first.segment) == (end.owner, end.segment):
        return f"{first.owner}{page}, bytes {first.byte:,} to {end.byte:,}"
    end_page = "" if end.segment is None else f" in segment {end.segment}"
    return f"from {first}{page}, to {end}{end_page}"


def _allocations(layout: Layout) -> list[str]:
    """Return what the allocations hold; those alike once."""
    groups = alike_allocations(layout)
    lines = []
    for group in groups[:MOST_KINDS]:
        lines += ["", *allocation_lines(layout, group)]
    return lines + more(len(groups) - MOST_KINDS, "kinds of allocations")


def _marks(observation: Observation | None) -> list[Mark]:
    """Return the wrong bytes of the first call that has some."""
    for index, seen in enumerate(observation.calls if observation else ()):
        pairs = (
            (f"missed {index + 1}", MISSED, seen.missed.spans),
            (f"touched {index + 1}", TOUCHED, seen.touched.spans),
        )
        marks = [
            Mark(
                label,
                sign,
                span.allocation,
                span.offset_bytes,
                span.offset_bytes + span.length_bytes,
            )
            for label, sign, spans in pairs
            for span in spans
            if span.allocation is not None
        ]
        if marks:
            return marks
    return []


def _listings(case: Case, marks: Sequence[Mark]) -> list[Listing]:
    """Return the calls up to the first that went wrong, the last three of them."""
    count = int(marks[0].label.split()[1]) if marks else len(case.calls)
    calls = list(enumerate(case.calls))[max(count - 3, 0) : count]
    return [
        Listing(f"call {index + 1}", zeroed_blocks(call, case.layout.num_blocks))
        for index, call in calls
    ]


def _pictures(
    layout: Layout, listings: Sequence[Listing], marks: Sequence[Mark]
) -> list[str]:
    """Return one or more panels of each kind of allocation, and their legend."""
    drawn = _drawn(layout, marks)
    lines, panels = [], []
    for allocation in drawn[:MOST_DRAWN]:
        lines += _whole(layout, allocation, listings, marks)
        for title, window in _windows(layout, allocation, marks):
            panel = draw(layout, window, listings, marks)
            lines += ["", title, *panel]
            panels += panel
    lines += more(len(drawn) - MOST_DRAWN, "kinds of allocations are not drawn")
    return [*lines, "", *_legend(panels)]


def _whole(
    layout: Layout,
    allocation: int,
    listings: Sequence[Listing],
    marks: Sequence[Mark],
) -> list[str]:
    """Return one row for an allocation that is drawn in parts, if there is a case."""
    if _whole_scale(layout, allocation) is not None or not (listings or marks):
        return []
    title, window = _titled(
        f"allocation {allocation}, whole", whole_window(layout, allocation)
    )
    found = regions(layout, allocation)
    return ["", title, *draw_whole(window, found, listings, marks)]


def _drawn(layout: Layout, marks: Sequence[Mark]) -> list[int]:
    """Return one allocation of each kind, those with wrong bytes first."""
    wrong = [mark.allocation for mark in marks]
    groups = (group.tolist() for group in alike_allocations(layout))
    chosen = [next((a for a in group if a in wrong), group[0]) for group in groups]
    return sorted(chosen, key=lambda allocation: allocation not in wrong)


def _windows(
    layout: Layout, allocation: int, marks: Sequence[Mark]
) -> Iterator[tuple[str, Window]]:
    """Yield what to draw of an allocation: all of it, or a block, and wrong bytes."""
    here = [mark for mark in marks if mark.allocation == allocation]
    scale = _whole_scale(layout, allocation)
    if scale is not None:
        size = int(layout.allocation_sizes[allocation])
        begin = -GUARD_COLUMNS * scale
        columns = -(-size // scale) + 2 * GUARD_COLUMNS
        yield _titled(
            f"allocation {allocation}", Window(allocation, begin, columns, scale)
        )
    else:
        yield from _one_block(layout, allocation, here)
    if scale != 1:
        for label in dict.fromkeys(mark.label for mark in here):
            mark = next(m for m in here if m.label == label)
            first = mark.begin - BEFORE_WRONG_BYTES
            window = Window(allocation, first - first % 8, ROW_COLUMNS)
            yield _titled(f"allocation {allocation}, around what was {label}", window)


def _titled(name: str, window: Window) -> tuple[str, Window]:
    return f"{name}; 1 column = {bytes_text(window.scale)}", window


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
) -> Iterator[tuple[str, Window]]:
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
    yield _titled(f"allocation {allocation}, from block {block:,}", window)


def _legend(panels: Sequence[str]) -> list[str]:
    """Return what the signs in some panels stand for."""
    tracks = [line for line in panels if not line.startswith(("  byte", "  block"))]
    used = set("".join(line[12:] for line in tracks))
    lines = ["legend"]
    if used & set("ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
        lines.append(
            "  Aaa  a page, by its segment's letter; upper case where it begins"
        )
        lines.append("  |7   block 7 from here on")
    lines += [f"  {sign}    {text}" for sign, text in _LEGEND if sign in used]
    return lines if len(lines) > 1 else []
