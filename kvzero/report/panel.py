"""A window of memory as rows of characters: blocks, segments, calls and wrong bytes.

Every track has the same columns, so that what belongs together stands one above the
other. A column is one byte, or as many as the panel says.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

from kvzero.layout import Int64Array, Layout, SegmentTable
from kvzero.report.anatomy import tiles

ROW_COLUMNS = 64
"""Columns of one row: with its label it fits 80 characters."""
LABEL_COLUMNS = 10
MOST_LANES = 4
_MOST_LANE_PAGES = 4096

MISSED, TOUCHED, LISTED = "!", "X", "="
NO_PAGE, IN_TILE, OUTSIDE, SEVERAL = "-", ".", ":", "#"


class Window(NamedTuple):
    """A stretch of one allocation, or of its guards.

    Attributes:
        allocation: Which.
        begin: Its first byte, from the allocation's base.
        columns: How many.
        scale: Bytes of a column.
    """

    allocation: int
    begin: int
    columns: int
    scale: int = 1

    @property
    def end(self) -> int:
        """Return the byte after its last."""
        return self.begin + self.columns * self.scale


class Mark(NamedTuple):
    """A stretch of bytes to mark in a track of its own.

    Attributes:
        label: Its track's.
        sign: How it is marked.
        allocation: Whose bytes or guards they are.
        begin: Its first byte.
        end: The byte after its last.
        seen: What its first bytes hold, where that is known.
    """

    label: str
    sign: str
    allocation: int
    begin: int
    end: int
    seen: bytes = b""


@dataclass(frozen=True)
class Listing:
    """The blocks that a call lists, for a track of its own."""

    label: str
    blocks: Int64Array


class Pages(NamedTuple):
    """Pages that lie in a window, one array a column, in the order of memory."""

    begin: Int64Array
    end: Int64Array
    segment: Int64Array
    block: Int64Array


def segment_letters(table: SegmentTable) -> str:
    """Return the letter of each segment.

    Up to 26 segments have a letter each. Beyond, segments of equal page and stride
    share one, and all kinds after the 25th share ``z``.
    """
    if len(table) <= len(ascii_lowercase):
        return ascii_lowercase[: len(table)]
    _, page = np.unique(table.page_bytes, return_inverse=True)
    _, stride = np.unique(table.stride_bytes, return_inverse=True)
    kinds = page * (int(stride.max()) + 1) + stride
    _, first, kind = np.unique(kinds, return_index=True, return_inverse=True)
    rank = np.minimum(np.argsort(np.argsort(first)), len(ascii_lowercase) - 1)
    letters = np.frombuffer(ascii_lowercase.encode(), np.uint8)[rank[kind]]
    return letters.tobytes().decode()


def draw(
    layout: Layout,
    window: Window,
    listings: Sequence[Listing] = (),
    marks: Sequence[Mark] = (),
) -> list[str]:
    """Return a window as text, a group of lines a row.

    Args:
        layout: The layout.
        window: What to draw.
        listings: Calls whose listed pages get a track.
        marks: Wrong bytes; those of one label share a track.
    """
    pages = pages_in(layout, window)
    tracks = [("block", _block_track(window, pages))]
    found = lanes(pages)
    empty = _empty_cells(layout, window, pages)
    for index, lane in enumerate(found[:MOST_LANES]):
        label = "segment" if index == 0 else "over it"
        cells = empty if index == 0 else [" "] * window.columns
        tracks.append((label, _segment_track(layout, window, lane, cells)))
    for listing in listings:
        listed = np.isin(pages.block, listing.blocks)
        pairs = zip(pages.begin[listed].tolist(), pages.end[listed].tolist())
        tracks.append((listing.label, filled(window, pairs, LISTED)))
    for label in dict.fromkeys(mark.label for mark in marks):
        here = [m for m in marks if m.label == label]
        spans = ((m.begin, m.end) for m in here if m.allocation == window.allocation)
        tracks.append((label, filled(window, spans, here[0].sign)))
    lines = _rows(window, tracks)
    if len(found) > MOST_LANES:
        lines.append(f"  {len(found) - MOST_LANES} more pages lie over these")
    return lines


def _rows(window: Window, tracks: Sequence[tuple[str, str]]) -> list[str]:
    lines = []
    for first in range(0, window.columns, ROW_COLUMNS):
        if first:
            lines.append("")
        width = min(ROW_COLUMNS, window.columns - first)
        lines.append(track_line("byte", _ruler(window, first, width)))
        for label, text in tracks:
            part = text[first : first + width].rstrip()
            if part or label in ("block", "segment"):
                lines.append(track_line(label, part))
    return lines


def track_line(label: str, text: str) -> str:
    """Return a track's row with its label."""
    return f"  {label:<{LABEL_COLUMNS}}{text}".rstrip()


def _ruler(window: Window, first: int, width: int) -> str:
    """Return the offsets of a row, as many as have room."""
    last = window.begin + (first + width) * window.scale
    room = max(len(f"{last:,}"), len(f"{window.begin:,}")) + 1
    step = next((n for n in (8, 16, 32) if n > room), ROW_COLUMNS)
    offsets = (
        window.begin + (first + at) * window.scale for at in range(0, width, step)
    )
    return "".join(f"{offset:<{step},}" for offset in offsets).rstrip()


def pages_in(layout: Layout, window: Window) -> Pages:
    """Return the pages of a window."""
    table = layout.table
    here = np.flatnonzero(table.allocation == window.allocation)
    offset, stride, page = (column[here] for column in table[1:])
    first = np.maximum(-((offset + page - 1 - window.begin) // stride), 0)
    last = np.minimum((window.end - 1 - offset) // stride, layout.num_blocks - 1)
    counts = np.maximum(last - first + 1, 0)
    which = np.repeat(np.arange(len(here)), counts)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    block = first[which] + np.arange(len(which)) - before
    begin = offset[which] + block * stride[which]
    order = np.argsort(begin, kind="stable")
    found = Pages(begin, begin + page[which], here[which], block)
    return Pages(*(column[order] for column in found))


def lanes(pages: Pages) -> list[Pages]:
    """Return pages in lanes in which none lies over another."""
    reach = np.maximum.accumulate(pages.end)
    disjoint = bool((pages.begin[1:] >= reach[:-1]).all())
    if disjoint or len(pages.begin) > _MOST_LANE_PAGES:
        return [pages]
    ends: list[int] = []
    lane_of = []
    for begin, end in zip(pages.begin.tolist(), pages.end.tolist()):
        free = [lane for lane, until in enumerate(ends) if until <= begin]
        lane = free[0] if free else len(ends)
        ends[lane : lane + 1] = [end]
        lane_of.append(lane)
    chosen = np.array(lane_of)
    return [
        Pages(*(column[chosen == lane] for column in pages))
        for lane in range(len(ends))
    ]


def _columns(window: Window, begin: int, end: int) -> range:
    """Return the columns that a stretch of bytes meets."""
    first = max(begin - window.begin, 0) // window.scale
    last = (min(end, window.end) - 1 - window.begin) // window.scale
    return range(first, last + 1)


def filled(window: Window, spans: Iterable[tuple[int, int]], sign: str) -> str:
    """Return a track with a sign in every column that some bytes meet."""
    cells = [" "] * window.columns
    for begin, end in spans:
        for column in _columns(window, begin, end):
            cells[column] = sign
    return "".join(cells)


def _segment_track(
    layout: Layout, window: Window, pages: Pages, cells: list[str]
) -> str:
    """Return letters of pages over some cells, the first of each in upper case."""
    letters = segment_letters(layout.table)
    taken = [False] * window.columns
    for begin, end, segment in zip(*(column.tolist() for column in pages[:3])):
        for column in _columns(window, begin, end):
            starts = column == (begin - window.begin) // window.scale
            letter = letters[segment].upper() if starts else letters[segment]
            cells[column] = SEVERAL if taken[column] else letter
            taken[column] = True
    return "".join(cells)


def _empty_cells(layout: Layout, window: Window, pages: Pages) -> list[str]:
    """Return what a window holds where there is no page, and blanks where there is."""
    size = int(layout.allocation_sizes[window.allocation])
    cells = [OUTSIDE] * window.columns
    for column in _columns(window, 0, size):
        cells[column] = NO_PAGE
    for begin, end in tiles(layout, window.allocation):
        for column in _columns(window, begin, min(end, size)):
            cells[column] = IN_TILE
    for begin, end in zip(pages.begin.tolist(), pages.end.tolist()):
        for column in _columns(window, begin, end):
            cells[column] = " "
    return cells


def _block_track(window: Window, pages: Pages) -> str:
    """Return a ruler of blocks: each named where its first page in a row begins."""
    cells = [" "] * window.columns
    last, free = -1, 0
    for begin, block in zip(pages.begin.tolist(), pages.block.tolist()):
        column = max(begin - window.begin, 0) // window.scale
        if block == last or column < free:
            continue
        label = f"|{block}"[: window.columns - column]
        cells[column : column + len(label)] = label
        last, free = block, column + len(label)
    return "".join(cells)
