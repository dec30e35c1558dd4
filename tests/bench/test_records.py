"""Records: their fields, their file, what is read off them."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.bench.records import (
    MEMSET,
    Note,
    Record,
    Report,
    read_report,
    report_text,
)
from kvzero.errors import CaseError
from tests.bench.made import ORIGIN

ROW = Record("kvzero", "p", 4, 4_000_000, 16, 2.0, 0.5, 8, 0, 9.5)
FIELDS = (
    *("subject", "preset", "n_blocks", "bytes", "min_page_bytes", "time_us"),
    *("ratio_to_memset", "programs", "wasted_programs", "host_us"),
)
numbers = st.none() | st.floats(0.001, 1e9)
records = st.builds(
    Record,
    st.sampled_from(["kvzero", MEMSET, "masked-3d", "flat-1d"]),
    st.sampled_from(["p", "q"]),
    st.integers(1, 9),
    st.integers(1, 2**40),
    st.integers(1, 2**20),
    *[numbers] * 2,
    *[st.none() | st.integers(0, 2**40)] * 2,
    numbers,
)


def test_a_record_has_exactly_the_ten_fields() -> None:
    assert tuple(field.name for field in fields(Record)) == FIELDS


@settings(max_examples=40)
@given(st.lists(records, max_size=5))
def test_a_report_is_read_as_it_was_written(rows: list[Record]) -> None:
    report = Report(ORIGIN, rows, [Note("text", n_blocks=3)])
    document = json.loads(report_text(report))
    assert [tuple(row) for row in document["records"]] == [FIELDS] * len(rows)
    path = Path(__file__).parent / "never-written.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_, **__: report_text(report))
        assert read_report(path) == report


@settings(max_examples=40)
@given(st.lists(records, max_size=8))
def test_every_place_has_the_last_row_of_each_subject(rows: list[Record]) -> None:
    places = list(Report(ORIGIN, rows).places())
    keys = {(row.preset, row.n_blocks) for row in rows}
    assert {(place.preset, place.n_blocks) for place in places} == keys
    for place in places:
        for name, row in place.by_subject.items():
            assert (row.subject, row.preset, row.n_blocks) == (
                name,
                place.preset,
                place.n_blocks,
            )


def test_the_fastest_peer_is_neither_itself_nor_a_yardstick() -> None:
    rows = [
        Record(name, "p", 4, 1, 1, time)
        for name, time in [
            (MEMSET, 1.0),
            ("empty-kernel", 0.5),
            ("kvzero", 2.0),
            ("a", 3.0),
            ("b", 5.0),
            ("c", None),
        ]
    ]
    (place,) = Report(ORIGIN, rows).places()
    peer = place.fastest_peer("kvzero")
    assert peer is not None
    assert peer.subject == "a"
    assert place.times_faster("kvzero") == 1.5
    assert place.times_faster("kvzero", "b") == 2.5
    assert place.times_faster("a") == 2 / 3
    assert place.times_faster("c") is None
    assert place.times_faster("kvzero", "c") is None


def test_bandwidth_is_bytes_over_time() -> None:
    assert ROW.tb_per_s == 2.0
    assert Record("a", "p", 1, 1, 1).tb_per_s is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no report can be read"),
        ("[]", "list, but must be an object"),
        ("{}", "machine is missing, but must be there"),
        (
            report_text(Report(ORIGIN)).replace(
                '"records": []', '"records": [{"a": 1}]'
            ),
            r"records\[0\]=.*, but must have the fields bytes",
        ),
    ],
)
def test_a_file_that_holds_no_report_is_named(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CaseError, match=said) as raised:
        read_report(path)
    assert str(raised.value).startswith(str(path))


def test_equal_notes_are_one_line() -> None:
    report = Report(ORIGIN)
    report.note("of all")
    for n_blocks in (1, 2, 2, 1200):
        report.note("slow", "a", "p", n_blocks)
    assert list(report.note_lines()) == ["of all", "a: slow: p (1), p (2), p (1,200)"]
    for n_blocks in range(3, 9):
        report.note("slow", "a", "p", n_blocks)
    assert list(report.note_lines())[1] == "a: slow: 9 rows, the first p (1)"


def test_a_yardstick_is_no_rival() -> None:
    rows = [Record(name, "p", 4, 1, 1, 1.0) for name in (MEMSET, "kvzero")]
    (place,) = Report(ORIGIN, rows).places()
    assert place.times_faster(MEMSET) is None


def test_an_empty_kernel_has_no_bandwidth() -> None:
    assert Record("empty-kernel", "p", 4, 0, 1, 1.0).tb_per_s is None
