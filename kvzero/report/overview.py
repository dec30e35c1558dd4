"""One row for a whole allocation: which of its blocks are listed, and what went wrong.

A row of 64 columns for 100 GB shows no page, but where in the pool things happened.
"""

from collections.abc import Iterator, Sequence

from kvzero.layout import Layout
from kvzero.report.anatomy import Region
from kvzero.report.panel import (
    LISTED,
    ROW_COLUMNS,
    Listing,
    Mark,
    Window,
    filled,
    track_line,
)

MOST_LISTED_STRETCHES = 2**20
MOST_NAMED_REGIONS = 16
_LABEL_COLUMNS = 16


def whole_window(layout: Layout, allocation: int) -> Window:
    """Return a window of one row that holds a whole allocation."""
    size = int(layout.allocation_sizes[allocation])
    scale = -(-size // ROW_COLUMNS)
    return Window(allocation, 0, -(-size // scale), scale)


def draw_whole(
    window: Window,
    found: Sequence[Region],
    listings: Sequence[Listing],
    marks: Sequence[Mark],
) -> list[str]:
    """Return a row for an allocation that is too large to be drawn page by page.

    Args:
        window: The whole allocation, as `whole_window` returns it.
        found: Its regions.
        listings: Calls whose listed blocks get a track.
        marks: Wrong bytes.
    """
    lines = [track_line("byte", _labels(window, _sizes(window)))]
    if len(found) == 1 and found[0].stride_bytes:
        lines.append(track_line("block", _labels(window, _blocks(window, found[0]))))
    elif len(found) <= MOST_NAMED_REGIONS:
        names = ((r.begin, f"|{r.segments[0]}") for r in found)
        lines.append(track_line("segment", _labels(window, names)))
    for listing in listings:
        if len(found) * len(listing.blocks) <= MOST_LISTED_STRETCHES:
            text = filled(window, listed_stretches(found, listing), LISTED)
            lines.append(track_line(listing.label, text))
    for label in dict.fromkeys(mark.label for mark in marks):
        here = [m for m in marks if m.label == label]
        spans = ((m.begin, m.end) for m in here if m.allocation == window.allocation)
        lines.append(track_line(label, filled(window, spans, here[0].sign)))
    return lines


def _sizes(window: Window) -> Iterator[tuple[int, str]]:
    for column in range(0, window.columns, _LABEL_COLUMNS):
        byte = column * window.scale
        yield byte, f"{byte / 2**30:.4g} GiB" if window.scale > 2**22 else f"{byte:,}"


def _blocks(window: Window, region: Region) -> Iterator[tuple[int, str]]:
    for column in range(0, window.columns, _LABEL_COLUMNS):
        byte = column * window.scale
        block = max(byte - region.begin, 0) // region.stride_bytes
        yield byte, f"|{block:,}"


def _labels(window: Window, labels: Iterator[tuple[int, str]]) -> str:
    """Return labels at their columns, those left out that have no room."""
    text = ""
    for byte, label in labels:
        column = byte // window.scale
        if column > len(text) or not text:
            text = text.ljust(column) + label
    return text[:ROW_COLUMNS]


def listed_stretches(
    found: Sequence[Region], listing: Listing
) -> Iterator[tuple[int, int]]:
    """Yield where the listed blocks of each region lie."""
    for region in found:
        begins = region.begin + listing.blocks * region.stride_bytes
        for begin in begins.tolist() if region.stride_bytes else ():
            yield begin, begin + region.stride_bytes
