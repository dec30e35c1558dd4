"""Named survivors are read with their reasons, and totals count them as survivors."""

from pathlib import Path

import pytest

from tests.mutation.identity import Identity, changed_lines
from tests.mutation.survivors import named_survivors, reason_of
from tests.mutation.totals import GroupTotals, Result, stale

MUTANT = Identity("a.py", "f", "AddNot", "if x:", "if not x:")


def result(end: str) -> Result:
    return Result(MUTANT, 3, end, "Fuzzing", "", 1.0, 1.0)


def file_of(folder: Path, text: str) -> Path:
    file = folder / "survivors.toml"
    file.write_text(f'[[survivor]]\nmodule = "a.py"\ndefinition = "f"\n{text}')
    return file


def test_a_named_survivor_has_its_reason_and_still_counts(tmp_path: Path) -> None:
    text = 'before = "if x:"\nafter = ["if not x:"]\nreason = "x is unused"\n'
    named = named_survivors(file_of(tmp_path, text))
    assert reason_of(MUTANT, named) == "x is unused"
    totals = GroupTotals("a", 20, results=[result("survived")])
    assert totals.unnamed(named) == []
    assert totals.score == 0.0
    assert not totals.is_good(named)
    killed = GroupTotals("a", 20, results=[result("killed")])
    assert killed.is_good(())
    assert stale([killed], named) == ["a.py:3 if not x:"]


def test_a_survivor_without_a_reason_is_refused(tmp_path: Path) -> None:
    text = 'before = "if x:"\nafter = ["if not x:"]\nreason = " "\n'
    with pytest.raises(ValueError, match=r"survivor\[0\] of survivors.toml has"):
        named_survivors(file_of(tmp_path, text))


def test_the_committed_survivors_can_be_read() -> None:
    assert all(each.after for each in named_survivors())


def test_a_mutant_is_named_by_the_lines_that_change() -> None:
    before = "a\n  b = 1\nb = 1\nc\n"
    assert changed_lines(before, before.replace("  b = 1", "  b = 2")) == (
        "b = 1",
        "b = 2",
    )
