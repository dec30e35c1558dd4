"""What a campaign's threads share: sums of whole reports, reasons to stop, places."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.campaign.counts import add_counts, counts_to_json
from kvzero.campaign.coverage import Coverage, coverage_of
from kvzero.campaign.folder import Folder
from kvzero.campaign.gpus import chosen_gpus
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.known import Known
from kvzero.campaign.minimizing import Brings, superfluous
from kvzero.campaign.position import Position
from kvzero.campaign.settings import known_from_json, known_to_json
from kvzero.campaign.slot import (
    GROWTH_BYTES,
    WARM_CASES,
    CutShortError,
    CuttableJudge,
    Growth,
)
from kvzero.campaign.tally import Tally
from kvzero.case import Case
from kvzero.casefile import CaseFile, encode_case
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.transcript import to_json
from kvzero.properties.verdict import Violation

from .conftest import SUBJECT, FakeExecutor
from .test_folder import a_board, a_case, an_entry

Json = Any  # a JSON document
JudgeOf = Callable[[Callable[[Case], bool]], Judge]
PACE = {"launches": 2, "to_the_byte": 1, "checking_seconds": 0.5, "drawing_seconds": 1}


def report(judged: Judged, position: Position) -> Json:
    """Return what a worker tells of one case."""
    tally = Tally()
    tally.add(judged)
    told = {
        "position": position.as_json(),
        "begun": 1,
        "counts": counts_to_json(tally),
        "pace": PACE,
        "seen": [[list(identity), f.count] for identity, f in tally.found.items()],
        "violations": [
            {
                "violation": asdict(found.violation),
                "case": encode_case(judged.case),
                "observation": to_json(judged.observation),
            }
            for found in tally.found.values()
        ],
        "met": coverage_of(judged.case, ()).as_json(),
        "kept": [],
        "errors": [],
        "fell_back": 0,
        "retired": False,
    }
    return json.loads(json.dumps(told))


def of_blocks(case: Case) -> bool:
    return case.layout.num_blocks > 4


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.data())
def test_counts_of_parts_are_the_counts_of_the_whole(
    blocks: list[int], data: st.DataObject
) -> None:
    judge = Judge(SUBJECT, FakeExecutor(of_blocks))
    judgeds = [judge(a_case(each)) for each in blocks]
    cut = data.draw(st.integers(0, len(blocks)), label="cut")
    whole, parts = Tally(), Tally()
    for judged in judgeds:
        whole.add(judged)
    for part in (judgeds[:cut], judgeds[cut:]):
        some = Tally()
        for judged in part:
            some.add(judged)
        add_counts(parts, json.loads(json.dumps(counts_to_json(some))))
    assert replace(parts, found={}, largest=None) == replace(
        whole, found={}, largest=None
    )


def test_a_board_goes_on_from_what_it_wrote(tmp_path: Path, judge_of: JudgeOf) -> None:
    folder = Folder(tmp_path / "corpus")
    board = a_board(folder, tmp_path, cases=10, workers=2)
    judge = judge_of(of_blocks)
    for blocks in (2, 7, 9, 6):
        board.take(1, report(judge(a_case(blocks)), Position("batches", 3, 5)))
    again = a_board(folder, tmp_path, cases=10, workers=2)
    again.restore(json.loads(json.dumps(board.as_json())), "campaign.json")
    assert again.tally == board.tally
    assert again.met == board.met
    assert again.met.features > 0
    assert again.coverage.features == 0
    assert again.pace.launches == board.pace.launches == 8
    assert again.position(1) == Position("batches", 3, 5)
    assert again.elapsed() > board.spent
    (entry,) = again.findings
    assert entry.count == 3
    assert entry.judged.case.layout.num_blocks == 6
    assert entry.state == "new"


def test_a_worker_that_was_done_goes_on_where_more_is_asked_for(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "corpus")
    board = a_board(folder, tmp_path, cases=10)
    board.positions[0] = Position("done", 1, 0, drawn=10)
    more, same = (
        a_board(folder, tmp_path, cases=25),
        a_board(folder, tmp_path, cases=10),
    )
    for each in (more, same):
        each.restore(board.as_json(), "campaign.json")
    assert more.position(0) == Position("batches", 1, 0, drawn=10)
    assert same.is_over(0)


def test_enough_failures_stop_a_campaign(tmp_path: Path) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path, max_failures=2)
    for what, over in (("one", False), ("one", False), ("two", True)):
        entry = an_entry(what)
        board.see(0, entry.violation, entry.judged)
        assert board.is_over(0) is over
    assert board.why == "enough failures"
    assert board.may_shrink()


def test_costs_and_known_findings_fail_nothing(tmp_path: Path) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path, max_failures=1)
    entry = an_entry("usual")
    known = Known("fake", entry.violation.property, "fault", "usual", Path("c"), "why")
    assert known_from_json(known_to_json(known)) == known
    board.judge.known = (known,)
    cost = Violation("work_is_bounded", "cost", "too-many-programs", "is much")
    for violation in (entry.violation, cost):
        board.see(0, violation, entry.judged)
    assert [each.known for each in board.findings] == [known, None]
    assert board.findings.failures == []
    assert not board.is_over(0)
    assert not (tmp_path / "found").exists()


def test_time_that_is_up_stops_drawing_and_leaves_time_to_shrink(
    tmp_path: Path,
) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path, seconds=5.0)
    assert not board.is_over(0)
    board.spent = 5.0
    assert board.is_over(0)
    assert board.may_shrink()
    board.shrink_until = 0.0
    assert not board.may_shrink()


def test_an_error_stops_everything(tmp_path: Path) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path)
    first = EnvironmentMissingError("full")
    board.fail(first)
    board.fail(ValueError())
    assert board.error is first
    assert not board.may_shrink()
    judge = CuttableJudge(SUBJECT, FakeExecutor(of_blocks), cut=board.cut)
    with pytest.raises(CutShortError):
        judge(a_case())


def test_judges_of_several_threads_leave_the_streams_alone(tmp_path: Path) -> None:
    before = sys.stdout
    board = a_board(Folder(tmp_path / "corpus"), tmp_path)
    inside = Event()

    def see(case: Case) -> bool:
        assert sys.stdout is before
        inside.set()
        return of_blocks(case)

    judge = CuttableJudge(SUBJECT, FakeExecutor(see), cut=board.cut)
    assert judge(a_case(9)).violations
    assert inside.is_set()


@pytest.mark.parametrize("count", [0, 3])
def test_a_death_is_counted_and_its_case_is_behind(tmp_path: Path, count: int) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path)
    judged = Judge(SUBJECT, FakeExecutor(of_blocks))(a_case(9))
    for _ in range(count):
        board.take_death(0, judged, Position("batches", 0, 0, skip=(4,)))
    assert board.tally.cases == count
    assert sum(each.count for each in board.findings) == count


covered = st.lists(st.sets(st.integers(0, 12)), max_size=8)


@given(covered)
def test_a_smaller_corpus_brings_as_much(cases: list[set[int]]) -> None:
    brings = [
        Brings(
            CaseFile(Path(f"{index}.json"), a_case(index + 1)),
            Coverage(sum(1 << bit for bit in bits)),
        )
        for index, bits in enumerate(cases)
    ]
    gone = superfluous(brings)
    kept = [each for each in brings if each.file not in gone]
    together = set().union(*cases)
    for left_out in (None, *kept):
        rest = [each for each in kept if each is not left_out]
        bits = Coverage()
        for each in rest:
            assert each.coverage is not None
            bits.add(each.coverage)
        all_there = bits.pairs == sum(1 << bit for bit in together)
        assert all_there is (left_out is None)


def test_what_fails_or_cannot_be_judged_stays_in_a_corpus() -> None:
    file = CaseFile(Path("a.json"), a_case())
    assert superfluous([Brings(file, None), Brings(file, None)]) == []


@pytest.mark.parametrize(
    ("visible", "asked", "expected"),
    [
        (None, "all", ("0", "1", "2")),
        (None, "2,0", ("2", "0")),
        ("5, GPU-abc,7", "all", ("5", "GPU-abc", "7")),
        ("5,GPU-abc,7", "1", ("GPU-abc",)),
    ],
)
def test_gpus_are_entries_of_what_the_caller_may_use(
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    asked: str,
    expected: tuple[str, ...],
) -> None:
    three_gpus(monkeypatch, visible)
    assert chosen_gpus(asked) == expected


@pytest.mark.parametrize("asked", ["3", "-1", "x", ""])
def test_a_gpu_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    three_gpus(monkeypatch, None)
    with pytest.raises(EnvironmentMissingError, match="but must be all or indexes"):
        chosen_gpus(asked)


def three_gpus(monkeypatch: pytest.MonkeyPatch, visible: str | None) -> None:
    class Child:
        def ask(self, _message: str, **_limits: float) -> int:
            return 3

        def stop(self) -> None:
            pass

    class Server:
        def fork(self, _target: str, _arguments: None) -> Child:
            return Child()

    monkeypatch.setattr("kvzero.campaign.gpus.worker_server", lambda _name: Server())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)


@given(st.lists(st.integers(0, 2**34), max_size=8), st.integers(0, 2**33))
def test_a_worker_grows_from_what_it_takes_when_it_is_warm(
    cold: list[int], usual: int
) -> None:
    growth = Growth()
    assert not any(growth.is_too_much(taken, WARM_CASES - 1) for taken in cold)
    assert not growth.is_too_much(usual, WARM_CASES)
    assert not growth.is_too_much(usual + GROWTH_BYTES, WARM_CASES + 1)
    assert growth.is_too_much(usual + GROWTH_BYTES + 1, WARM_CASES + 2)
