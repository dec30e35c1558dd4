"""A whole allocation as one bar: which of its blocks are listed, and what went wrong.

Pages are too small to be seen in it; it shows where in the pool things happened.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element

from kvzero.report.anatomy import Region, regions
from kvzero.report.anatomy_text import bytes_text
from kvzero.report.html.drawing import (
    BAND,
    BLOCKS,
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
)
from kvzero.report.html.style import SEGMENT_COLOURS
from kvzero.report.overview import listed_stretches
from kvzero.report.panel import Window, segment_letters
from kvzero.report.pictures import Picture, Pictures

OVERVIEW_COLUMNS = 256
PARTS = {WIDE: 8, NARROW: 2}
MOST_LISTED_STRETCHES = 2**16


def overview(chosen: Pictures, picture: Picture, frame: Frame, key: str) -> Element:
    """Draw one bar for a whole allocation: its regions, what is listed, what is wrong.

    Args:
        chosen: All pictures of the case.
        picture: Which.
        frame: How long rows are.
        key: Prefix of its names.
    """
    allocation = picture.window.allocation
    size = int(chosen.layout.allocation_sizes[allocation])
    window = Window(allocation, 0, OVERVIEW_COLUMNS, -(-size // OVERVIEW_COLUMNS))
    px = frame.row_width / OVERVIEW_COLUMNS
    drawing = Drawing(chosen, window, frame, key, px)
    _overview_ruler(drawing, size)
    found = regions(chosen.layout, allocation)
    _ruler_of_blocks(drawing, found)
    drawing.label("memory", LANE)
    drawing.box(0, size, LANE, "soft", f"allocation {allocation}: {bytes_text(size)}")
    letters = segment_letters(chosen.layout.table)
    for index, region in enumerate(found[:MOST_PAGES]):
        first = int(region.segments[0])
        count = len(region.segments)
        title = f"bytes {region.begin:,} to {region.end - 1:,}: {count} segments"
        fill = f"segment-{index % SEGMENT_COLOURS}"
        x, width = drawing.box(region.begin, region.end, LANE, fill, title)
        name = f"segment {first}" if count == 1 else f"{count:,} segments"
        text = fitting(width - 6, name, letters[first].upper())
        drawing.text(x + 5, drawing.y + LANE / 2 + 4, text)
    drawing.y += LANE
    for listing in chosen.listings:
        if len(found) * len(listing.blocks) <= MOST_LISTED_STRETCHES:
            spans = list(_binned(window, listed_stretches(found, listing)))
            listed_track(drawing, listing.label, spans, BLOCKS)
    mark_tracks(drawing)
    return finished(drawing, picture, drawing.y + 4)


def _overview_ruler(drawing: Drawing, size: int) -> None:
    drawing.label("byte", RULER)
    parts = PARTS[drawing.frame]
    for part in range(parts):
        byte = size * part // parts
        x = drawing.x(byte)
        text = f"{byte / 2**30:.4g} GiB" if size > 2**32 else f"{byte:,}"
        drawing.line(x, drawing.y + 3, x, drawing.y + RULER, "line")
        drawing.text(x + 3, drawing.y + RULER - 4, text, "dim", 10)
    drawing.y += RULER


def _ruler_of_blocks(drawing: Drawing, found: Sequence[Region]) -> None:
    """Name the blocks at equal distances where one region holds all of them."""
    if len(found) != 1 or not found[0].stride_bytes:
        return
    region, parts = found[0], PARTS[drawing.frame]
    drawing.label("block", BAND)
    for part in range(parts):
        byte = region.begin + (region.end - region.begin) * part // parts
        block = (byte - region.begin) // region.stride_bytes
        x = drawing.x(byte)
        drawing.line(x, drawing.y + 3, x, drawing.y + BAND, "line")
        drawing.text(x + 3, drawing.y + BAND - 4, f"{block:,}", size=10)
    drawing.y += BAND


def _binned(
    window: Window, stretches: Iterator[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield stretches of whole columns that some bytes meet, neighbours joined."""
    columns = sorted(
        {
            column
            for begin, end in stretches
            for column in range(
                begin // window.scale, min((end - 1) // window.scale + 1, 4096)
            )
        }
    )
    for _, group in groupby(enumerate(columns), key=lambda pair: pair[1] - pair[0]):
        run = [column for _, column in group]
        yield run[0] * window.scale, (run[-1] + 1) * window.scale
