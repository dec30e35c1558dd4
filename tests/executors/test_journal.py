"""The journal: which case was running when a process died."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.errors import CaseError
from kvzero.executors.journal import Entry, Journal, entries, unfinished

CASE = {"seed": 7}
OUTCOMES = st.sampled_from(["survived", "killed-by-sigsegv", "error"])


def write(path: Path, outcomes: list[str], *, last_ends: bool) -> None:
    journal = Journal(path)
    for index, outcome in enumerate(outcomes):
        number = journal.begin("footprint", "kvzero", CASE)
        if last_ends or index < len(outcomes) - 1:
            journal.end(number, outcome)
    journal.close()


@given(st.lists(OUTCOMES, max_size=5), st.booleans())
def test_a_journal_reads_back_as_written(outcomes: list[str], last_ends: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        write(path, outcomes, last_ends=last_ends)
        read = entries(path)
        told: list[str | None] = list(outcomes)
        if not last_ends and told:
            told[-1] = None
        assert read == [
            Entry(index, "footprint", "kvzero", CASE, outcome)
            for index, outcome in enumerate(told)
        ]


@given(st.lists(OUTCOMES, min_size=1, max_size=4), st.data())
@example(["survived"], None)
def test_a_torn_journal_is_what_was_written_before(
    outcomes: list[str], data: st.DataObject | None
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        write(path, outcomes, last_ends=True)
        content = path.read_bytes()
        keep = data.draw(st.integers(0, len(content))) if data else len(content) - 1
        path.write_bytes(content[:keep])
        whole = content[:keep].count(b"\n")
        assert len(entries(path)) == (whole + 1) // 2
        assert len(unfinished(path)) == whole % 2


def test_a_journal_begins_anew_when_it_is_long(tmp_path: Path) -> None:
    path = tmp_path / "journals" / "journal.jsonl"
    journal = Journal(path, most_bytes=200)
    for _ in range(50):
        journal.end(journal.begin("host", "kvzero", CASE), "survived")
    begun = journal.begin("host", "kvzero", CASE)
    journal.close()
    assert path.stat().st_size < 500
    assert [entry.number for entry in unfinished(path)] == [begun] == [50]


@pytest.mark.parametrize("line", ["{", "3", '{"end": 5}', '{"begin": 1}', "[]"])
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(CaseError, match="line 1, but must be a begin or an end"):
        entries(path)
