"""The tables of a page: goals, rows, and marks between which they stand."""

from pathlib import Path

import pytest

from kvzero.bench.harness_tables import harness_tables
from kvzero.bench.records import EMPTY, MEMSET, Note, Record, Report, read_report
from kvzero.bench.tables import GOALS, TABLES, number, rendered
from kvzero.errors import CaseError
from tests.bench.made import ORIGIN

NO_HARNESS = {**ORIGIN.as_json(), "speeds": [], "presets": [], "kills": []}
DOCS = Path(__file__).parents[2] / "docs"


def report(preset: str, n_blocks: int, size: int, page: int, **us: float) -> Report:
    memset = us.get("memset")
    return Report(
        ORIGIN,
        [
            Record(
                {"memset": MEMSET, "empty": EMPTY, "masked": "masked-3d"}.get(
                    name, name
                ),
                preset,
                n_blocks,
                size,
                page,
                time,
                memset / time if memset else None,
            )
            for name, time in us.items()
        ],
    )


def verdicts(found: Report) -> list[tuple[str, str, str]]:
    """Return mean, rule and verdict of all goals that were measured."""
    rows = (goal.row(found) for goal in GOALS)
    return [(row[3], row[5], row[6]) for row in rows if row[6] != "not measured"]


def test_the_mixed_layouts_must_come_near_memset_and_beat_upstream() -> None:
    near = report(
        "mixed181-separate", 512, 10**9, 1168, memset=93, kvzero=100, masked=140
    )
    assert verdicts(near) == [
        ("0.93", "at least 0.92", "met"),
        ("1.4", "at least 1.35", "met"),
    ]
    far = report("mixed181-packed", 512, 10**9, 1168, memset=94, kvzero=100, masked=130)
    assert verdicts(far) == [
        ("0.94", "at least 0.95", "not met"),
        ("1.3", "at least 1.35", "not met"),
    ]


def test_one_wide_page_among_narrow_ones_must_be_100_times_faster() -> None:
    found = report("wide1-narrow180", 23_000, 10**9, 1024, kvzero=10, masked=999)
    assert verdicts(found) == [("99.9", "at least 100", "not met")]


def test_few_blocks_of_a_model_must_cost_little_more_than_nothing() -> None:
    found = report("p", 4, 10**6, 100, memset=1.0, empty=2.0, kvzero=3.0, masked=2.9)
    assert verdicts(found) == [
        ("1.03", "at most 1.05", "met"),
        ("1", "at most 1.25", "met"),
    ]


def test_big_pages_count_from_64_mib_in_all() -> None:
    for size, page in ((2**26, 4096), (2**26 - 1, 4096), (2**26, 4095)):
        found = report("p", 512, size, page, memset=96, kvzero=100)
        assert bool(verdicts(found)) == ((size, page) == (2**26, 4096))


def test_a_mean_is_geometric_over_the_rows_of_its_group() -> None:
    first = report("p", 512, 2**26, 4096, memset=50, kvzero=100)
    second = report("q", 512, 2**26, 4096, memset=200, kvzero=100)
    both = Report(ORIGIN, first.records + second.records)
    row = GOALS[0].row(both)
    assert row[2:5] == ("2", "1", "0.5 to 2")


def test_numbers_have_three_digits_or_all_that_they_are() -> None:
    told = {
        None: "",
        0: "0",
        1234567: "1,234,567",
        0.123456: "0.123",
        45.67: "45.7",
        1234.5: "1,234",
    }
    assert {value: number(value) for value in told} == told


def test_only_what_stands_between_marks_is_replaced() -> None:
    page = (
        "a\n<!-- table: x -->\nold\n<!-- end -->\nb\n<!-- table: y -->\n<!-- end -->\n"
    )
    expected = page.replace("old\n", "| new |\n")
    assert rendered(page, {"x": "| new |\n"}) == expected
    assert rendered(expected, {"x": "| new |\n"}) == expected


def test_a_page_without_a_mark_is_refused() -> None:
    with pytest.raises(CaseError, match="<!-- table: x --> is missing"):
        rendered("<!-- table: y -->\n<!-- end -->", {"x": "", "y": ""})


def test_notes_are_a_list() -> None:
    assert TABLES["notes"](Report(ORIGIN, notes=[Note("t", "a")])) == "- a: t\n"


def test_every_row_of_a_table_has_its_columns() -> None:
    found = report("p", 4, 10**6, 100, memset=1.0, empty=2.0, kvzero=3.0, masked=2.9)
    for name in ("goals", "all"):
        lines = TABLES[name](found).splitlines()
        assert len({line.count("|") for line in lines}) == 1
        assert len(lines) > 2


def test_the_documented_tables_are_those_of_the_records() -> None:
    records = DOCS / "benchmarks" / "h200.json"
    if not records.exists():
        pytest.skip("no records of an H200 in this checkout")
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    found = read_report(records)
    tables = {name: table(found) for name, table in TABLES.items()}
    assert rendered(page, tables) == page


def test_the_page_marks_every_table() -> None:
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    for name in (*TABLES, *harness_tables(NO_HARNESS)):
        assert page.count(f"<!-- table: {name} -->\n") == 1
    tables = {name: table(Report(ORIGIN)) for name, table in TABLES.items()}
    assert rendered(page, tables).count("<!-- end -->") == page.count("<!-- end -->")
