"""What pictures of memory are drawn with: rows, tracks, boxes, texts and patterns.

Bytes are placed exactly, to a fraction of a column. Each drawing has long rows for a
desktop or short ones for a phone. What a colour says, a letter, sign or text says too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree.ElementTree import Element

from kvzero.report.html.elements import el
from kvzero.report.html.style import LIGHT
from kvzero.report.panel import MISSED, Mark, Window
from kvzero.report.pictures import Picture, Pictures

CELL = 16
"""Width of a column; at byte scale two hex digits fit."""
CHARACTER = 6.1
"""Width of a character of the small text."""
LANE, TRACK, RULER, BAND = 24, 18, 16, 16
"""Heights of a lane of pages, a track of calls or marks, the ruler, and the blocks."""
MOST_PAGES = 512
"""Pages of one row that are drawn, or it would be paint upon paint."""


class Frame(NamedTuple):
    """How long rows are.

    Attributes:
        name: The class that the style sheet shows or hides.
        columns: Columns of a row.
        gutter: Width of the labels.
    """

    name: str
    columns: int
    gutter: int

    @property
    def row_width(self) -> int:
        """Return the width of a row."""
        return self.columns * CELL

    @property
    def width(self) -> int:
        """Return the width of a picture."""
        return self.gutter + self.row_width + 1


WIDE = Frame("wide", 64, 76)
NARROW = Frame("narrow", 16, 68)


@dataclass
class Drawing:
    """Rows of one picture, from top to bottom.

    Attributes:
        chosen: The case's pictures.
        window: The columns of the current row.
        frame: How long rows are.
        key: Prefix of the names of its patterns.
        px_per_column: Width of a column.
        y: Where the next track goes.
        items: What is drawn.
    """

    chosen: Pictures
    window: Window
    frame: Frame
    key: str
    px_per_column: float = CELL
    y: float = 4.0
    items: list[Element] = field(default_factory=list)

    def x(self, byte: int) -> float:
        """Return where a byte begins, held inside the row."""
        inside = min(max(byte, self.window.begin), self.window.end)
        columns = (inside - self.window.begin) / self.window.scale
        return self.frame.gutter + columns * self.px_per_column

    def label(self, text: str, height: float) -> None:
        """Name the current track."""
        self.text(0, self.y + height / 2 + 4, text, "dim")

    def text(
        self, x: float, y: float, text: str, kind: str = "ink", size: float = 11
    ) -> None:
        """Write a text."""
        fill = LIGHT["muted"] if kind == "dim" else LIGHT[kind]
        kind_class = None if kind == "ink" else kind
        self.items.append(
            el("text", text, x=x, y=y, class_=kind_class, fill=fill, font_size=size)
        )

    def box(
        self, begin: int, end: int, height: float, fill: str, title: str, pad: float = 1
    ) -> tuple[float, float]:
        """Draw a stretch of bytes; return where it begins and how wide it is."""
        x, until = self.x(begin), self.x(end)
        width = max(until - x, 1.5)
        is_pattern = fill.startswith("url(")
        self.items.append(
            el(
                "rect",
                el("title", title),
                x=x,
                y=self.y + pad,
                width=width,
                height=height - 2 * pad,
                fill=fill if is_pattern else LIGHT[fill],
                class_=None if is_pattern else f"f-{fill}",
            )
        )
        return x, width

    def line(self, x: float, y: float, x2: float, y2: float, kind: str) -> None:
        """Draw a line."""
        self.items.append(
            el("line", x1=x, y1=y, x2=x2, y2=y2, class_=f"s-{kind}", stroke=LIGHT[kind])
        )


def finished(drawing: Drawing, picture: Picture, height: float) -> Element:
    """Return the picture of a drawing, with its title and its words."""
    name, frame = drawing.key, drawing.frame
    return el(
        "svg",
        el("title", f"Memory map: {picture.title}", id=f"{name}-title"),
        el("desc", _description(drawing.chosen, picture), id=f"{name}-desc"),
        patterns(name),
        drawing.items,
        class_=frame.name,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {frame.width} {height:g}",
        width=frame.width,
        height=height,
    )


def _description(chosen: Pictures, picture: Picture) -> str:
    """Return a picture in words, for those who cannot see it."""
    window = picture.window
    stretch = f"Bytes {window.begin:,} to {window.end - 1:,}"
    here = [m for m in chosen.marks if m.allocation == window.allocation]
    seen = [m for m in here if m.begin < window.end and m.end > window.begin]
    told = "; ".join(f"{m.label}: bytes {m.begin:,} to {m.end - 1:,}" for m in seen)
    return f"{stretch} of allocation {window.allocation}. {told or 'No wrong bytes'}."


def patterns(key: str) -> Element:
    """Return the hatches of guards and the dots of padding."""
    ink = {"class_": "s-muted", "stroke": LIGHT["muted"]}
    guard = el(
        "pattern",
        el("path", d="M-2,2 l4,-4 M0,8 l8,-8 M6,10 l4,-4", stroke_width=1.4, **ink),
        id=f"{key}-guard",
        patternUnits="userSpaceOnUse",
        width=8,
        height=8,
    )
    dot = el("circle", cx=3, cy=3, r=1.1, class_="f-muted", fill=LIGHT["muted"])
    padding = el(
        "pattern",
        dot,
        id=f"{key}-padding",
        patternUnits="userSpaceOnUse",
        width=6,
        height=6,
    )
    return el("defs", guard, padding)


def fitting(width: float, *texts: str) -> str:
    """Return the first text that fits, or nothing."""
    fits = (text for text in texts if len(text) * CHARACTER + 3 <= width)
    return next(fits, "")


PAGES = ("lists these bytes: they must be zero after it", "must be zero", "zero", "=")
BLOCKS = ("lists blocks here: their pages must be zero after it", "listed blocks", "=")
"""What is said of stretches that a call lists: in full, then shorter and shorter."""


def listed_track(
    drawing: Drawing,
    label: str,
    stretches: Sequence[tuple[int, int]],
    words: Sequence[str] = PAGES,
) -> None:
    """Draw which stretches a call lists, in the words of `PAGES` or `BLOCKS`."""
    if not stretches:
        return
    drawing.label(label, TRACK)
    for begin, end in stretches:
        title = f"{label} {words[0]}"
        x, width = drawing.box(begin, end, TRACK, "listed", title, 3)
        text = fitting(width - 6, *words[1:])
        drawing.text(x + 5, drawing.y + TRACK / 2 + 3.5, text, "on-mark", 10)
    drawing.y += TRACK


def mark_tracks(drawing: Drawing) -> None:
    """Draw what went wrong, a track for each way."""
    window = drawing.window
    seen = [
        m
        for m in drawing.chosen.marks
        if m.allocation == window.allocation
        and m.begin < window.end
        and m.end > window.begin
    ]
    for label in dict.fromkeys(mark.label for mark in seen):
        drawing.label(label, TRACK)
        for mark in seen:
            if mark.label == label:
                _mark(drawing, mark)
        drawing.y += TRACK


def _mark(drawing: Drawing, mark: Mark) -> None:
    """Draw wrong bytes: at byte scale with what they hold, else with a word."""
    window = drawing.window
    fill, sign, word = ("touched", "X", "touched")
    if mark.sign == MISSED:
        fill, sign, word = ("missed", "!", "not zero")
    title = f"{mark.label}: bytes {mark.begin:,} to {mark.end - 1:,}"
    x, width = drawing.box(mark.begin, mark.end, TRACK, fill, title)
    baseline = drawing.y + TRACK / 2 + 3.5
    if window.scale > 1 or drawing.px_per_column != CELL:
        text = fitting(width, word, sign)
        drawing.text(x + 3, baseline, text, "on-mark", 10)
        return
    for byte in range(max(mark.begin, window.begin), min(mark.end, window.end)):
        at = byte - mark.begin
        text = f"{mark.seen[at]:02x}" if at < len(mark.seen) else sign
        shift = 2 if len(text) == 2 else 5
        drawing.text(drawing.x(byte) + shift, baseline, text, "on-mark", 10)
