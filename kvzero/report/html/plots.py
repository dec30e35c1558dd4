"""Plots as inline SVG: bars in a table's cells, and how a run went on over time."""

from collections.abc import Sequence
from itertools import pairwise
from xml.etree.ElementTree import Element

from kvzero.report.facts import Sample
from kvzero.report.html.elements import el
from kvzero.report.html.style import LIGHT

BAR_WIDTH = 200
WIDE_PX, NARROW_PX, HEIGHT_PX = 760, 330, 210
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 12, 34
TICKS = 4


def bar(value: float, most: float, kind: str = "accent") -> Element:
    """Return a bar for a table's cell; the number itself stands in another.

    Args:
        value: What it shows.
        most: What fills the cell.
        kind: Its colour.
    """
    width = BAR_WIDTH * value / most if most else 0
    rect = el(
        "rect",
        x=0,
        y=1,
        width=max(width, 1.5 if value else 0),
        height=10,
        fill=LIGHT[kind],
        class_=f"f-{kind}",
    )
    ground = el(
        "rect",
        x=0,
        y=1,
        width=BAR_WIDTH,
        height=10,
        fill=LIGHT["soft"],
        class_="f-soft",
    )
    return el(
        "span",
        el(
            "svg",
            ground,
            rect,
            viewBox=f"0 0 {BAR_WIDTH} 12",
            preserveAspectRatio="none",
            aria_hidden="true",
        ),
        class_="bar",
    )


def launches_over_time(samples: Sequence[Sample], key: str) -> list[Element]:
    """Return a plot of launches checked over time, for a desktop and for a phone.

    Args:
        samples: In order of time, at least two.
        key: Prefix of its names, unlike that of any other in the document.
    """
    return [
        _plot(samples, f"{key}-{name}", width, name)
        for name, width in (("wide", WIDE_PX), ("narrow", NARROW_PX))
    ]


def rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    """Return launches a second between samples, each at its end."""
    return [
        (after.seconds, (after.launches - before.launches) / elapsed)
        for before, after in pairwise(samples)
        if (elapsed := after.seconds - before.seconds) > 0
    ]


def round_up(value: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least a value."""
    power = 10.0 ** (len(str(max(int(value), 1))) - 1)
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)


def _plot(samples: Sequence[Sample], key: str, width: int, name: str) -> Element:
    points = rates(samples)
    until = samples[-1].seconds
    most = round_up(max((rate for _, rate in points), default=1))
    x_scale = (width - LEFT - RIGHT) / (until or 1)
    y_scale = (HEIGHT_PX - TOP - BOTTOM) / most
    ground = HEIGHT_PX - BOTTOM
    places = [(LEFT + at * x_scale, ground - rate * y_scale) for at, rate in points]
    first, last = samples[0], samples[-1]
    told = (
        f"{last.launches:,} launches in {last.seconds:.0f} s; between "
        f"{min((r for _, r in points), default=0):,.0f} and "
        f"{max((r for _, r in points), default=0):,.0f} a second."
    )
    begin = LEFT + first.seconds * x_scale
    return el(
        "svg",
        el("title", "Launches checked a second, over time", id=f"{key}-title"),
        el("desc", told, id=f"{key}-desc"),
        _grid(width, most, y_scale),
        _times(width, until, x_scale),
        el(
            "polyline",
            points=" ".join(f"{x:.1f},{y:.1f}" for x, y in _stairs(begin, places)),
            fill="none",
            stroke=LIGHT["accent"],
            stroke_width=2,
            class_="s-accent",
        ),
        class_=name,
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        viewBox=f"0 0 {width} {HEIGHT_PX}",
        width=width,
        height=HEIGHT_PX,
    )


def _stairs(
    begin: float, places: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return a line that keeps each rate for the time that it was measured over."""
    line = []
    for x, y in places:
        line += [(begin, y), (x, y)]
        begin = x
    return line


def _grid(width: int, most: float, y_scale: float) -> list[Element]:
    items = []
    for tick in range(TICKS + 1):
        value = most * tick / TICKS
        y = HEIGHT_PX - BOTTOM - value * y_scale
        items.append(
            el(
                "line",
                x1=LEFT,
                y1=y,
                x2=width - RIGHT,
                y2=y,
                stroke=LIGHT["line"],
                class_="s-line",
            )
        )
        items.append(_label(LEFT - 6, y + 4, f"{value:,.4g}", "end"))
    return items


def _times(width: int, until: float, x_scale: float) -> list[Element]:
    y = HEIGHT_PX - BOTTOM + 16
    count = TICKS if width == WIDE_PX else 2
    marks = [until * tick / count for tick in range(count + 1)]
    anchors = ["start", *["middle"] * (count - 1), "end"]
    return [
        *(
            _label(LEFT + at * x_scale, y, f"{at:.3g} s", anchor)
            for at, anchor in zip(marks, anchors)
        ),
        _label((LEFT + width) / 2, y + 14, "time of the run", "middle"),
    ]


def _label(x: float, y: float, text: str, anchor: str) -> Element:
    return el(
        "text",
        text,
        x=x,
        y=y,
        text_anchor=anchor,
        font_size=11,
        fill=LIGHT["muted"],
        class_="dim",
    )
