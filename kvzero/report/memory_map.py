"""A memory map as text: what lies where, which call lists it, and what went wrong.

It tells the layout twice: exactly, as a list in which repeats are collapsed, and as a
picture at a scale that fits. All of it fits 80 columns and needs no colour.
"""

import textwrap
from collections.abc import Iterator, Sequence

from kvzero.case import Case
from kvzero.layout import Layout
from kvzero.memory import place
from kvzero.observation import Observation
from kvzero.properties.wording import arrival_text, counted, ids_text
from kvzero.report.anatomy import alike_allocations, regions
from kvzero.report.anatomy_text import allocation_lines, bytes_text, more
from kvzero.report.overview import draw_whole
from kvzero.report.panel import (
    IN_TILE,
    LISTED,
    MISSED,
    NO_PAGE,
    OUTSIDE,
    SEVERAL,
    TOUCHED,
    draw,
)
from kvzero.report.pictures import Pictures, case_pictures, layout_pictures
from kvzero.report.wrong_bytes import Stretch, wrong_bytes

WIDTH = 80
MOST_KINDS = 12
"""Kinds of allocations that are told."""
MOST_CALLS = 8

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
    return [
        _summary(layout),
        *_allocations(layout),
        *_drawings(layout_pictures(layout)),
    ]


def case_map(case: Case, observation: Observation | None = None) -> list[str]:
    """Return the map of a case, a line an item.

    Args:
        case: The case.
        observation: What was seen of it: wrong bytes are then marked.
    """
    words = [
        _summary(case.layout),
        _placement(case),
        *_calls(case),
        *_wrong_bytes(case, observation),
    ]
    return [
        *(part for line in words for part in _wrapped(line)),
        *_allocations(case.layout),
        *_drawings(case_pictures(case, observation)),
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
    """Return where the wrong bytes of each moment are."""
    lines: list[str] = []
    for wrong in wrong_bytes(case, observation):
        count = counted(wrong.total, "byte")
        lines.append(f"  {wrong.when} {wrong.label} {count}")
        for stretch in wrong.stretches:
            lines += _stretch_lines(stretch)
        lines += more(wrong.untold, "bytes")
    return ["", "wrong bytes", *lines] if lines else []


def _stretch_lines(stretch: Stretch) -> Iterator[str]:
    if stretch.whose == "outside the case":
        yield f"    {stretch.where}, outside the case"
    else:
        yield f"    {stretch.where}: {stretch.whose}"
    if stretch.now:
        yield f"      now {stretch.now}"
    if stretch.writer:
        yield f"      stored by {stretch.writer}"


def _allocations(layout: Layout) -> list[str]:
    """Return what the allocations hold; those alike once."""
    groups = alike_allocations(layout)
    lines = []
    for group in groups[:MOST_KINDS]:
        lines += ["", *allocation_lines(layout, group)]
    return lines + more(len(groups) - MOST_KINDS, "kinds of allocations")


def _drawings(chosen: Pictures) -> list[str]:
    """Return one or more panels of each kind of allocation, and their legend."""
    layout, listings, marks = chosen.layout, chosen.listings, chosen.marks
    lines, panels = [], []
    for picture in chosen.pictures:
        window = picture.window
        if picture.is_overview:
            found = regions(layout, window.allocation)
            lines += ["", picture.title, *draw_whole(window, found, listings, marks)]
            continue
        panel = draw(layout, window, listings, marks)
        lines += ["", picture.title, *panel]
        panels += panel
    lines += more(chosen.kinds_left_out, "kinds of allocations are not drawn")
    return [*lines, "", *_legend(panels)]


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
