"""Files of known findings, and what they do to a run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kvzero.campaign.confirming import confirm
from kvzero.campaign.fuzz import Budget, Fuzzer
from kvzero.campaign.judging import Judge
from kvzero.campaign.known import FIELDS, Known, read_known_file
from kvzero.campaign.outcome import RunResult
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.errors import KnownFileError
from kvzero.layout import Allocation, Layout, Run
from kvzero.properties.verdict import Violation
from kvzero.strategies import cases

JudgeOf = Callable[[Callable[[Case], bool]], Judge]
CASE = Case(Layout(4, (Allocation(256),), (Run(20, 64),)), (Call((IdRun(1),)),))
ENTRY = {
    "subject": "fake",
    "property": "unlisted_bytes_are_untouched",
    "kind": "fault",
    "what": "unlisted-byte-stored",
    "case": "cases/small.json",
    "reason": "https://example.org/17: writes one byte before",
}


def written(folder: Path, **changes: str | int | None) -> Path:
    """Return a file with one entry, some of whose fields are changed or left out."""
    write_case_file(folder / "cases" / "small.json", CASE)
    fields = {k: v for k, v in {**ENTRY, **changes}.items() if v is not None}
    lines = [f"{key} = {value!r}" for key, value in fields.items()]
    path = folder / "known.toml"
    path.write_text("\n".join(["[[known]]", *lines, ""]), encoding="utf-8")
    return path


def test_known_file_names_its_cases_from_its_own_folder(tmp_path: Path) -> None:
    (known,) = read_known_file(written(tmp_path))
    assert known.case == tmp_path / "cases" / "small.json"
    assert known.read_case() == CASE
    assert known.entry == f"{tmp_path}/known.toml: known[0]"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"subject": None}, "known[0].subject is missing, but must be given"),
        ({"reason": None}, "known[0].reason is missing, but must be given"),
        ({"case": None}, "known[0].case is missing, but must be given"),
        ({"reason": ""}, "known[0].reason='', but must be a text"),
        ({"what": 3}, "known[0].what=3, but must be a text"),
        ({"kind": "faults"}, "known[0].kind='faults', but must be one of fault, re"),
        ({"property": "promises"}, "did you mean promises_hold?"),
        ({"reasons": "x"}, f"known[0].reasons, but must be one of {', '.join(FIELDS)}"),
        ({"case": "no.json"}, "known[0].case: "),
    ],
)
def test_wrong_entry_is_refused_with_file_and_field(
    tmp_path: Path, changes: dict[str, str | int | None], told: str
) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(KnownFileError) as refused:
        read_known_file(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ")
    assert told in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "known, but must be at least one [[known]]"),
        ("known = []", "known, but must be at least one [[known]]"),
        ("known = [1]", "known[0]=1, but must be a table"),
        ("[[knwon]]\n", "knwon, but must be [[known]] tables alone"),
        ("[[known]\n", "must be TOML: "),
        ("#" * 2**21, "over 1048576 B, but must be less"),
    ],
)
def test_wrong_file_is_refused_with_its_name(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KnownFileError, match=r"known\.toml") as refused:
        read_known_file(path)
    assert told in str(refused.value)


def test_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(KnownFileError, match=r"none\.toml cannot be read: No such"):
        read_known_file(tmp_path / "none.toml")


def known(**changes: str) -> Known:
    fields = {k: v for k, v in ENTRY.items() if k != "case"}
    return Known(**{**fields, **changes}, case=Path("case.json"))


@pytest.mark.parametrize(
    ("changes", "covers"),
    [
        ({}, True),
        ({"place": "kernel.py:7"}, True),
        ({"place": "kernel.py:8"}, False),
        ({"kind": "cost"}, False),
        ({"what": "listed-byte-not-zero"}, False),
        ({"property": "listed_pages_are_zero"}, False),
    ],
)
def test_entry_covers_one_violation_and_no_other(
    changes: dict[str, str], covers: bool
) -> None:
    violation = Violation(
        "unlisted_bytes_are_untouched", "fault", ENTRY["what"], "", "kernel.py:7"
    )
    assert known(**changes).covers(violation) is covers


def run_result(judge: Judge, path: Path, examples: int = 60) -> RunResult:
    confirmed = confirm(judge, read_known_file(path))
    budget = Budget(cases=examples)
    fuzzer = Fuzzer(judge, cases(), 0, budget, lambda _tally: None)
    return RunResult("fake", "footprint", fuzzer.run(), 0.0, known=confirmed)


def test_fuzzing_goes_on_past_known_findings(tmp_path: Path, judge_of: JudgeOf) -> None:
    result = run_result(judge_of(lambda _: True), written(tmp_path))
    (each,) = result.known
    assert each.state == "fails"
    assert result.exit_code == 0
    assert result.verdict == "no new fault found"
    assert result.tally.cases == 60
    assert result.times_seen(each.known) > 30
    assert result.found == []
    assert result.as_json()["known"][0]["n"] == result.times_seen(each.known)


def test_entry_that_no_longer_fails_makes_the_run_fail(
    tmp_path: Path, judge_of: JudgeOf
) -> None:
    result = run_result(judge_of(lambda _: False), written(tmp_path))
    assert result.exit_code == 1
    assert result.verdict == "known finding no longer fails"
    (stale,) = result.stale
    assert stale.line == (
        f"{tmp_path}/known.toml: known[0]: fake on {tmp_path}/cases/small.json no "
        f"longer breaks unlisted_bytes_are_untouched (fault: unlisted-byte-stored), "
        f"but must: remove the entry"
    )


def test_entry_of_another_kind_hides_nothing(tmp_path: Path, judge_of: JudgeOf) -> None:
    judge = judge_of(lambda case: bool(case.layout.allocations) and case != CASE)
    result = run_result(judge, written(tmp_path, kind="cost"))
    assert result.exit_code == 1
    assert [found.violation.kind for found in result.found] == ["fault"]
    assert len(result.stale) == 1


def test_entry_of_another_subject_is_not_replayed(
    tmp_path: Path, judge_of: JudgeOf
) -> None:
    judge = judge_of(lambda _: False)
    assert confirm(judge, read_known_file(written(tmp_path, subject="other"))) == ()
    assert judge.known == ()


def test_entry_that_cannot_be_judged_here_is_neither_stale_nor_confirmed(
    tmp_path: Path, judge_of: JudgeOf
) -> None:
    judge = judge_of(lambda _: False)
    path = written(tmp_path, property="promises_hold", what="false-promise")
    (each,) = confirm(judge, read_known_file(path))
    assert (each.state, each.why) == ("not judged", "no call launched a program")
