"""The tables of docs/benchmarks.md, made from records so that no number is typed.

A page holds pairs of marks, ``<!-- table: NAME -->`` and ``<!-- end -->``; what stands
between them is replaced. The goals are those that kvzero was built to.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from kvzero.bench.layouts import LIST_SIZES, MADE_LAYOUTS, PACKED
from kvzero.bench.records import EMPTY, MEMSET, Place, Record, Report
from kvzero.errors import CaseError

OURS = "kvzero"
UPSTREAM = "masked-3d"
FEW = (1, 4, 16)
_NOBODY = Record("", "", 0, 0, 0)
_MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Row = Sequence[str]


@dataclass(frozen=True)
class Goal:
    """A bound on the geometric mean of a number over a group of places.

    Attributes:
        group: Which places, in words.
        what: Which number.
        rule: The bound, in words.
        holds: Whether a mean meets it.
        belongs: Whether a place is of the group.
        value: Returns the number at a place, if it was measured, for a report.
    """

    group: str
    what: str
    rule: str
    holds: Callable[[float], bool]
    belongs: Callable[[Place], bool]
    value: Callable[[Report], "Value"]

    def values(self, report: Report) -> list[float]:
        """Return the numbers of all places that belong to the group."""
        number_at = self.value(report)
        found = (number_at(place) for place in report.places() if self.belongs(place))
        return [value for value in found if value is not None]

    def row(self, report: Report) -> Row:
        """Return the line of the table: mean, worst and best."""
        values = self.values(report)
        if not values:
            return self.group, self.what, "0", "", "", self.rule, "not measured"
        mean = geometric_mean(values)
        spread = f"{min(values):.3g} to {max(values):.3g}"
        verdict = "met" if self.holds(mean) else "not met"
        count = str(len(values))
        return self.group, self.what, count, f"{mean:.3g}", spread, self.rule, verdict


Value = Callable[[Place], float | None]


def _ratio(_report: Report) -> Value:
    def value(place: Place) -> float | None:
        ours = place.by_subject.get(OURS)
        return ours.ratio_to_memset if ours else None

    return value


def _faster(_report: Report) -> Value:
    return lambda place: place.times_faster(OURS, UPSTREAM)


def _slower(_report: Report) -> Value:
    return lambda place: place.times_faster(UPSTREAM, OURS)


def _host(_report: Report) -> Value:
    """Return a place's host time in times of upstream's path.

    That is a pinned tensor, its copy and the launch: see `ElementTableZeroer`.
    """

    def value(place: Place) -> float | None:
        ours, upstream = (
            place.by_subject.get(name, _NOBODY).host_us for name in (OURS, UPSTREAM)
        )
        return ours / upstream if ours and upstream else None

    return value


def _over_least(report: Report) -> Value:
    """Return a place's time in times of an empty kernel and its bytes at memset speed.

    The speed is that of the longest memset of the run: no cache holds its bytes.
    """
    timed = [r for r in report.records if r.subject == MEMSET and r.tb_per_s]
    longest = max(timed, key=lambda record: record.bytes, default=None)
    speed = longest and longest.tb_per_s

    def value(place: Place) -> float | None:
        ours, empty = place.by_subject.get(OURS), place.by_subject.get(EMPTY)
        if not (speed and ours and ours.time_us and empty and empty.time_us):
            return None
        return ours.time_us / (empty.time_us + ours.bytes / speed / 1e6)

    return value


def _is_big(place: Place) -> bool:
    """Return whether pages have 4 KiB and more, 64 MiB and more in all."""
    return place.min_page_bytes >= 4096 and place.bytes >= 2**26


def _at(preset: str, n_blocks: int) -> Callable[[Place], bool]:
    return lambda place: (place.preset, place.n_blocks) == (preset, n_blocks)


def _is_few_of_a_model(place: Place) -> bool:
    return place.n_blocks in FEW and place.preset not in MADE_LAYOUTS


def _at_least(bound: float) -> tuple[str, Callable[[float], bool]]:
    return f"at least {bound:g}", lambda value: value >= bound


def _at_most(bound: float) -> tuple[str, Callable[[float], bool]]:
    return f"at most {bound:g}", lambda value: value <= bound


_SEPARATE, _PACKED = _at("mixed181-separate", 512), _at(PACKED, 512)
_OF_MEMSET, _OF_UPSTREAM = "speed of memset", f"speed of {UPSTREAM}"

GOALS = (
    Goal(
        "pages of 4 KiB and more, 64 MiB and more in all",
        _OF_MEMSET,
        *_at_least(0.95),
        _is_big,
        _ratio,
    ),
    Goal("mixed181-separate, 512", _OF_MEMSET, *_at_least(0.92), _SEPARATE, _ratio),
    Goal("mixed181-packed, 512", _OF_MEMSET, *_at_least(0.95), _PACKED, _ratio),
    Goal("mixed181-separate, 512", _OF_UPSTREAM, *_at_least(1.35), _SEPARATE, _faster),
    Goal("mixed181-packed, 512", _OF_UPSTREAM, *_at_least(1.35), _PACKED, _faster),
    Goal(
        "wide1-narrow180, 23,000",
        _OF_UPSTREAM,
        *_at_least(100),
        _at("wide1-narrow180", 23_000),
        _faster,
    ),
    Goal(
        "25 presets, 1, 4 and 16 blocks",
        f"time, in times of {UPSTREAM}",
        *_at_most(1.05),
        _is_few_of_a_model,
        _slower,
    ),
    Goal(
        "25 presets, 1, 4 and 16 blocks",
        "time, in times of an empty kernel and the bytes at memset speed",
        *_at_most(1.25),
        _is_few_of_a_model,
        _over_least,
    ),
    *(
        Goal(
            f"{PACKED}, a list of {size:,}",
            f"host time, in times of {UPSTREAM}",
            *_at_most(0.5),
            _at(PACKED, size),
            _host,
        )
        for size in LIST_SIZES
    ),
)


def goals_table(report: Report) -> str:
    """Return the goals with what was measured, as Markdown."""
    head = ("group", "number", "rows", "geometric mean", "range", "goal", "verdict")
    return markdown(head, "llrrrll", (goal.row(report) for goal in GOALS))


def all_places_table(report: Report) -> str:
    """Return a line for each layout and length of list, as Markdown."""
    head = (
        *("layout", "blocks", "bytes", "memset us", "kvzero us", "TB/s", "of memset"),
        *("of fastest peer", "fastest peer", "programs", "wasted", "of masked-3d"),
        *("host us", "of masked-3d"),
    )
    return markdown(head, "lrrrrrrrlrrrrr", map(_place_row, report.places()))


def _place_row(place: Place) -> Row:
    ours, upstream, memset = (
        place.by_subject.get(name, _NOBODY) for name in (OURS, UPSTREAM, MEMSET)
    )
    peer = place.fastest_peer(OURS)
    return (
        place.preset,
        f"{place.n_blocks:,}",
        f"{place.bytes:,}",
        number(memset.time_us),
        number(ours.time_us),
        number(ours.tb_per_s),
        number(ours.ratio_to_memset),
        number(place.times_faster(OURS)),
        peer.subject if peer else "",
        number(ours.programs),
        number(ours.wasted_programs),
        number(upstream.programs),
        number(ours.host_us),
        number(upstream.host_us),
    )


def notes_list(report: Report) -> str:
    """Return the notes, as a list in Markdown."""
    return "".join(f"- {line}\n" for line in report.note_lines())


def origin_text(document: Mapping[str, Any]) -> str:  # Any: JSON, `Origin.as_json`
    """Return machine, versions and command of a record, in a paragraph."""
    machine, versions = (
        ", ".join(f"{name} {told}" for name, told in document[part].items())
        for part in ("machine", "versions")
    )
    return f"`{document['command']}`, {document['when']} UTC; {machine}; {versions}.\n"


def markdown(head: Row, sides: str, rows: Iterable[Row]) -> str:
    """Return a table.

    Args:
        head: Names of the columns.
        sides: ``l`` or ``r`` for each.
        rows: Their cells.
    """
    rules = ["---:" if side == "r" else "---" for side in sides]
    lines = [_line(cells) for cells in (head, rules, *rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """Return a number as a table shows it, empty where it was not measured."""
    if value is None:
        return ""
    if isinstance(value, int) or value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


TABLES: dict[str, Callable[[Report], str]] = {
    "origin": lambda report: origin_text(report.origin.as_json()),
    "goals": goals_table,
    "all": all_places_table,
    "notes": notes_list,
}


def rendered(page: str, tables: dict[str, str]) -> str:
    """Return a page with the tables of the given names put in anew.

    Raises:
        CaseError: The page marks no table of one of the names.
    """
    marked = {match[2] for match in _MARKED.finditer(page)}
    lost = [name for name in tables if name not in marked]
    if lost:
        raise CaseError(
            f"<!-- table: {lost[0]} --> is missing, but must be in the page, with "
            f"<!-- end --> after it"
        )

    def replaced(match: re.Match[str]) -> str:
        if match[2] not in tables:
            return match[0]
        return f"{match[1]}{tables[match[2]]}{match[3]}"

    return _MARKED.sub(replaced, page)
