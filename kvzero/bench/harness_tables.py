"""The harness's speed as tables: for a terminal and, as Markdown, for a page."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kvzero.bench.tables import Row, markdown, number, origin_text

Document = dict[str, Any]  # Any: one record of JSON, as `HarnessRecord.as_json`


def _speed_rows(record: Document) -> Iterator[Row]:
    values = (
        *("cases", "seconds", "cases_per_s", "launches", "to_the_byte"),
        *("launches_per_s", "launches_per_s_checking"),
    )
    for speed in record["speeds"]:
        yield speed["executor"], *(number(speed[name]) for name in values)


def _preset_rows(record: Document) -> Iterator[Row]:
    for told in record["presets"]:
        numbers = number(told["programs"]), number(told["seconds"])
        yield told["preset"], told["executor"], *numbers


def _kill_rows(record: Document) -> Iterator[Row]:
    for kill in record["kills"]:
        killed = "yes" if kill["killed"] else "NO"
        numbers = number(kill["cases"]), number(kill["seconds"])
        yield kill["fault"], kill["executor"], killed, *numbers


class HarnessTable(NamedTuple):
    """One table: its title, the names of its columns, and what makes its rows."""

    title: str
    columns: Row
    rows: Callable[[Document], Iterator[Row]]


HARNESS_TABLES = (
    HarnessTable(
        "checked launches, one process",
        (
            *("executor", "cases", "seconds", "cases/s", "launches", "to the byte"),
            *("launches/s", "without drawing"),
        ),
        _speed_rows,
    ),
    HarnessTable(
        "presets at full size",
        ("preset", "executor", "programs", "seconds"),
        _preset_rows,
    ),
    HarnessTable(
        "time to kill each fault",
        ("fault", "executor", "killed", "cases", "seconds"),
        _kill_rows,
    ),
)
_MARKS = ("harness-speeds", "harness-presets", "harness-kills")
_WORDS = ("executor", "preset", "fault", "killed")


def harness_tables(record: Document) -> dict[str, str]:
    """Return the tables of a record, by the name that a page marks them with."""
    found = {"harness-origin": origin_text(record)}
    for mark, table in zip(_MARKS, HARNESS_TABLES):
        sides = "".join("l" if name in _WORDS else "r" for name in table.columns)
        found[mark] = markdown(table.columns, sides, table.rows(record))
    return found
