"""Pictures of memory as SVG: the windows of `kvzero.report.pictures`, drawn to scale.

Each picture is drawn twice, with long rows for a desktop and short ones for a phone;
the style sheet shows one of them. What a colour says, a letter, sign or text says too.
"""

from itertools import groupby
from xml.etree.ElementTree import Element

from kvzero.properties.wording import counted
from kvzero.report.anatomy import tiles
from kvzero.report.anatomy_text import bytes_text
from kvzero.report.html.drawing import (
    BAND,
    CHARACTER,
    LANE,
    MOST_PAGES,
    NARROW,
    RULER,
    WIDE,
    Drawing,
    Frame,
    finished,
    fitting,
    listed_track,
    mark_tracks,
    patterns,
)
from kvzero.report.html.elements import el
from kvzero.report.html.overview_svg import overview
from kvzero.report.html.style import LIGHT, SEGMENT_COLOURS
from kvzero.report.panel import (
    MISSED,
    MOST_LANES,
    TOUCHED,
    Pages,
    Window,
    lanes,
    pages_in,
    segment_letters,
)
from kvzero.report.pictures import Picture, Pictures

FRAMES = (WIDE, NARROW)


def memory_figure(chosen: Pictures, picture: Picture, key: str) -> Element:
    """Return one picture with its caption.

    Args:
        chosen: All pictures of the case.
        picture: Which.
        key: Prefix of its names, unlike that of any other in the document.
    """
    draw = overview if picture.is_overview else _rows
    drawn = (draw(chosen, picture, frame, f"{key}-{frame.name}") for frame in FRAMES)
    caption = picture.title
    if picture.is_overview:
        size = int(chosen.layout.allocation_sizes[picture.window.allocation])
        caption = f"{picture.name}: {bytes_text(size)}"
    return el("figure", el("figcaption", caption), drawn)


def _rows(chosen: Pictures, picture: Picture, frame: Frame, key: str) -> Element:
    """Draw a window page by page, row under row."""
    window = picture.window
    # A column that is one byte has room for its digits; others can be narrower.
    row_columns = frame.columns if window.scale == 1 else WIDE.columns
    px_per_column = frame.row_width / row_columns
    drawing = Drawing(chosen, window, frame, key, px_per_column)
    for first in range(0, window.columns, row_columns):
        columns = min(row_columns, window.columns - first)
        begin = window.begin + first * window.scale
        drawing.window = Window(window.allocation, begin, columns, window.scale)
        _row(drawing)
    return finished(drawing, picture, drawing.y)


def _row(drawing: Drawing) -> None:
    pages = pages_in(drawing.chosen.layout, drawing.window)
    _ruler(drawing)
    if len(pages.begin):
        _band_of_blocks(drawing, pages)
    found = lanes(pages) if len(pages.begin) else [pages]
    for index, lane in enumerate(found[:MOST_LANES]):
        drawing.label("segment" if index == 0 else "over it", LANE)
        if index == 0:
            _ground(drawing)
        _lane(drawing, lane)
        drawing.y += LANE
    if len(found) > MOST_LANES:
        drawing.y += RULER
        told = f"{counted(len(found) - MOST_LANES, 'more page')} over these"
        drawing.text(drawing.frame.gutter, drawing.y - 5, told, "dim")
    _call_tracks(drawing, pages)
    mark_tracks(drawing)
    drawing.y += 12


def _ruler(drawing: Drawing) -> None:
    """Draw offsets at equal distances, as many as have room."""
    window = drawing.window
    longest = max(len(f"{window.end:,}"), len(f"{window.begin:,}"))
    room = (longest + 1) * CHARACTER / drawing.px_per_column
    step = next((n for n in (4, 8, 16, 32) if n > room), 64)
    drawing.label("byte", RULER)
    for column in range(0, window.columns, step):
        byte = window.begin + column * window.scale
        x = drawing.x(byte)
        drawing.line(x, drawing.y + 3, x, drawing.y + RULER, "line")
        drawing.text(x + 3, drawing.y + RULER - 4, f"{byte:,}", "dim", 10)
    drawing.y += RULER


def _band_of_blocks(drawing: Drawing, pages: Pages) -> None:
    """Draw a bracket over the pages of each block that follow each other."""
    drawing.label("block", BAND)
    rows = list(zip(*(column[:MOST_PAGES].tolist() for column in pages)))
    for block, group in groupby(rows, key=lambda page: page[3]):
        here = list(group)
        x = drawing.x(here[0][0]) + 1
        until = drawing.x(max(end for _, end, _, _ in here)) - 1
        if until <= x:
            continue
        drawing.line(x, drawing.y + BAND - 2, until, drawing.y + BAND - 2, "ink")
        text = fitting(until - x, f"block {block:,}", f"{block:,}")
        drawing.text(x + 1, drawing.y + BAND - 5, text, size=10)
    drawing.y += BAND


def _ground(drawing: Drawing) -> None:
    """Draw what lies under pages: allocation, padding of tiles, guards."""
    window, layout = drawing.window, drawing.chosen.layout
    size = int(layout.allocation_sizes[window.allocation])
    inside = max(window.begin, 0), min(window.end, size)
    if inside[0] < inside[1]:
        title = "bytes in no page and no tile"
        drawing.box(*inside, LANE, "soft", title)
    for begin, end in tiles(layout, window.allocation):
        if begin < window.end and end > window.begin:
            hatch = f"url(#{drawing.key}-padding)"
            drawing.box(begin, min(end, size), LANE, hatch, "padding of a tile")
    for begin, end in ((window.begin, 0), (size, window.end)):
        if begin < end and end > window.begin and begin < window.end:
            hatch = f"url(#{drawing.key}-guard)"
            drawing.box(begin, end, LANE, hatch, "guard, outside the allocation")


def _lane(drawing: Drawing, pages: Pages) -> None:
    letters = segment_letters(drawing.chosen.layout.table)
    for begin, end, segment, block in zip(
        *(column[:MOST_PAGES].tolist() for column in pages)
    ):
        letter = letters[segment].upper()
        title = f"block {block:,}, segment {segment}: bytes {begin:,} to {end - 1:,}"
        fill = f"segment-{(ord(letter) - ord('A')) % SEGMENT_COLOURS}"
        x, width = drawing.box(begin, end, LANE, fill, title)
        if begin >= drawing.window.begin:
            drawing.line(x, drawing.y + 1, x, drawing.y + LANE - 1, "ink")
        text = fitting(width, f"{letter} segment {segment}", letter)
        drawing.text(x + 4, drawing.y + LANE / 2 + 4, text)


def _call_tracks(drawing: Drawing, pages: Pages) -> None:
    """Draw which of the pages each call lists."""
    for listing in drawing.chosen.listings:
        blocks = set(listing.blocks.tolist()) & set(pages.block.tolist())
        rows = zip(*(column[:MOST_PAGES].tolist() for column in pages))
        listed = [(begin, end) for begin, end, _, block in rows if block in blocks]
        listed_track(drawing, listing.label, listed)


_LEGEND = (
    ("segment-0", "a page: the letter is its segment's"),
    ("padding", "padding of a block's tile"),
    ("guard", "guard: poisoned bytes outside the allocation"),
    ("soft", "bytes in no page and no tile"),
    ("listed", "= listed: must be zero after the call"),
    ("missed", "! missed: listed, but not zero; digits are what a byte holds"),
    ("touched", "X touched: not listed, but stored or changed"),
)


def legend(chosen: Pictures, key: str) -> Element:
    """Return what colours, patterns and signs stand for, those that may be met.

    Args:
        chosen: The pictures that it is for.
        key: Prefix of its names, unlike that of any other in the document.
    """
    signs = {mark.sign for mark in chosen.marks}
    met = {
        "padding": bool(chosen.layout.tiles),
        "listed": bool(chosen.listings),
        "missed": MISSED in signs,
        "touched": TOUCHED in signs,
    }
    items = []
    for name, text in (each for each in _LEGEND if met.get(each[0], True)):
        is_pattern = name in ("padding", "guard")
        fill = f"url(#{key}-{name}-{name})" if is_pattern else LIGHT[name]
        swatch = el(
            "rect",
            x=0.5,
            y=0.5,
            width=21,
            height=13,
            fill=fill,
            class_="s-line" if is_pattern else f"f-{name} s-line",
            stroke=LIGHT["line"],
        )
        defs = patterns(f"{key}-{name}") if is_pattern else None
        icon = el("svg", defs, swatch, width=22, height=14, aria_hidden="true")
        items.append(el("li", icon, el("span", text)))
    return el("ul", items, class_="legend")
