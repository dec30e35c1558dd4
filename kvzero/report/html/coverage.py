"""What the cases of a run had in them: features, pairs of features, and limits neared.

A feature alone is met by any case in some dozens; faults need two at once, so the plot
is of pairs, and a gap in it is something that the run did not try.
"""

from collections.abc import Iterator
from itertools import groupby
from xml.etree.ElementTree import Element

from kvzero.properties.wording import counted
from kvzero.report.facts import FeatureCoverage, SubjectRun
from kvzero.report.html.elements import el, heading, table
from kvzero.report.html.plots import bar
from kvzero.report.html.style import LIGHT

CELL = 7
"""Side of one pair of features in the plot."""
NAMES = {"wide": 11, "narrow": 24}
"""Size of the names of groups: on a phone the plot is drawn at half its size."""


def coverage_section(runs: tuple[SubjectRun, ...]) -> Iterator[Element]:
    """Yield what each run's cases had in them, where that was counted."""
    told = [(run, run.coverage) for run in runs if run.coverage is not None]
    if told:
        yield heading(2, "Feature coverage", "coverage")
    for index, (run, coverage) in enumerate(told, 1):
        yield el(
            "section",
            heading(3, run.subject),
            el("p", _summary(coverage)),
            _pairs_figure(coverage, f"coverage-{index}"),
            *_nearest(coverage),
            _features(coverage),
            class_="card",
        )


def _summary(coverage: FeatureCoverage) -> str:
    names = coverage.names
    total = len(names) * (len(names) - 1) // 2
    return (
        f"{len(coverage.together)} of {counted(len(names), 'feature')} met, and "
        f"{coverage.pairs:,} of {total:,} pairs of them; some pairs exclude each other."
    )


def _pairs_figure(coverage: FeatureCoverage, key: str) -> Element:
    """Return the plot of pairs: row and column are features, a square says met."""
    drawn = [_pairs(coverage, name, f"{key}-{name}") for name in NAMES]
    caption = (
        "Pairs of features, rows and columns in the order of the list below: a filled "
        "square says that some case had both"
    )
    return el("figure", el("figcaption", caption), drawn)


def _pairs(coverage: FeatureCoverage, frame: str, key: str) -> Element:
    """Draw the plot, with names of a size for a desktop or for a phone."""
    size = NAMES[frame]
    side = len(coverage.names) * CELL
    gutter = (max(map(len, coverage.groups)) + 1) * size * 0.62
    return el(
        "svg",
        el("title", "Pairs of features that some case had", id=f"{key}-title"),
        el("desc", _summary(coverage), id=f"{key}-desc"),
        _names(coverage, -gutter, size),
        _ground(side),
        el("path", d=_met_path(coverage), fill=LIGHT["accent"], class_="f-accent"),
        _borders(coverage, side),
        class_=frame,
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        viewBox=f"{-gutter:g} 0 {side + gutter:g} {side}",
        width=side + gutter,
        height=side,
    )


def _names(coverage: FeatureCoverage, x: float, size: int) -> Iterator[Element]:
    """Yield the name of each group at its first row."""
    at = 0
    for name, group in coverage.groups.items():
        fill = {"fill": LIGHT["muted"], "class_": "dim"}
        yield el("text", name, x=x, y=at + size, font_size=size, **fill)
        at += len(group) * CELL


def _ground(side: int) -> Element:
    return el("rect", width=side, height=side, fill=LIGHT["soft"], class_="f-soft")


def _met_path(coverage: FeatureCoverage) -> str:
    """Return all squares of pairs that were met; neighbours in a row are one shape."""
    names = coverage.names
    parts = []
    for row, name in enumerate(names):
        met = coverage.together.get(name, frozenset())
        columns = [at for at, other in enumerate(names) if other in met]
        for _, group in groupby(enumerate(columns), key=lambda pair: pair[1] - pair[0]):
            run = [column for _, column in group]
            width = len(run) * CELL
            parts.append(f"M{run[0] * CELL} {row * CELL}h{width}v{CELL - 1}h-{width}z")
    return "".join(parts)


def _borders(coverage: FeatureCoverage, side: int) -> Iterator[Element]:
    """Yield lines between the groups of features."""
    at = 0
    for group in list(coverage.groups.values())[:-1]:
        at += len(group) * CELL
        for ends in ((at, 0, at, side), (0, at, side, at)):
            places = dict(zip(("x1", "y1", "x2", "y2"), ends))
            yield el("line", stroke=LIGHT["ink"], class_="s-ink", **places)


def _nearest(coverage: FeatureCoverage) -> Iterator[Element]:
    if not coverage.nearest:
        return
    yield heading(4, "How near launches came to a limit without crossing it")
    rows = [
        (
            each.limit,
            f"2**{each.bits - 1}" if each.bits else "none",
            f"2**{each.most_bits}",
            bar(each.bits, each.most_bits),
        )
        for each in coverage.nearest
    ]
    yield table(("limit of", "largest, at least", "limit", "in powers of two"), rows)


def _features(coverage: FeatureCoverage) -> Element:
    """Return of each feature how many others it was met with, folded."""
    parts = []
    for group, names in coverage.groups.items():
        rows = [_feature_row(coverage, name) for name in names]
        parts.append(el("div", table((group, "met", "with others"), rows)))
    missing = [name for name in coverage.names if name not in coverage.together]
    title = f"Every feature, and with how many others it was met ({len(missing)} never)"
    grid = el("div", parts, class_="grid")
    return el("details", el("summary", title), grid)


def _feature_row(coverage: FeatureCoverage, name: str) -> tuple[str | Element, ...]:
    met = coverage.together.get(name)
    others = len(met) - 1 if met else 0
    most = len(coverage.names) - 1
    return name, f"✓ {others}" if met else "never", bar(others, most)
