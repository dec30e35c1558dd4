"""The worker's loop in this process: the same cases, whatever happens to the worker."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvzero.campaign.coverage import Coverage
from kvzero.campaign.judging import Judge
from kvzero.campaign.position import Position, position_from_json
from kvzero.campaign.settings import Settings
from kvzero.campaign.shard import Shard
from kvzero.case import Case
from kvzero.casefile import encode_case, write_case_file
from kvzero.executors.journal import entries
from kvzero.observation import Death, Observation
from kvzero.properties.verdict import Identity
from kvzero.strategies.features import features

JudgeOf = Callable[[Callable[[Case], bool]], Judge]
Json = Any  # a JSON document
BATCH = 20
SEVERAL_BATCHES = 30


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a few cases make several batches."""
    monkeypatch.setattr("kvzero.campaign.shard.BATCH", BATCH)


class Worker:
    """A worker in this process, and what it reported."""

    def __init__(self, judge: Judge, folder: Path, **settings: Any) -> None:
        self.judge = judge
        self.folder = folder
        self.settings = Settings(**{"cases": SEVERAL_BATCHES, "seed": 5, **settings})
        self.reports: list[Json] = []

    def run(self, position: Position | None = None, *replay: Path) -> "Worker":
        arguments = {
            "index": 0,
            "position": (position or Position()).as_json(),
            "replay": [str(path) for path in replay],
            "database": str(self.folder / "hypothesis"),
            "coverage": Coverage().as_json(),
            "journal": str(self.folder / "journal.jsonl"),
        }
        shard = Shard(self.judge, self.settings, arguments, self._take, 60.0)
        shard.run()
        return self

    def _take(self, report: Json) -> float:
        self.reports.append(json.loads(json.dumps(report)))
        return 60.0

    @property
    def cases(self) -> int:
        return sum(report["counts"]["cases"] for report in self.reports)

    @property
    def position(self) -> Position:
        return position_from_json(self.reports[-1]["position"])

    @property
    def drawn(self) -> list[Case]:
        seen: list[Case] = self.judge.executor.seen  # type: ignore[attr-defined]  # the fake keeps them
        return seen


def never(_case: Case) -> bool:
    return False


def many_blocks(case: Case) -> bool:
    return case.layout.num_blocks > 4


def test_a_worker_draws_its_share_and_is_done(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    worker = Worker(judge_of(never), tmp_path).run()
    assert worker.cases == len(worker.drawn) == SEVERAL_BATCHES
    assert worker.position.stage == "done"


def test_a_worker_draws_the_same_cases_from_the_same_seed(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    first = Worker(judge_of(never), tmp_path / "a").run()
    same = Worker(judge_of(never), tmp_path / "b").run()
    other_seed = Worker(judge_of(never), tmp_path / "c", seed=6).run()
    other_worker = Worker(judge_of(never), tmp_path / "d", first_worker=1).run()
    assert first.drawn == same.drawn
    assert first.drawn != other_seed.drawn
    assert first.drawn != other_worker.drawn


@pytest.mark.parametrize("behind", [1, BATCH - 3])
def test_whoever_replaces_a_worker_goes_on_where_it_was(
    judge_of: JudgeOf, tmp_path: Path, behind: int
) -> None:
    whole = Worker(judge_of(never), tmp_path / "a").run()
    begin = Position("batches", 0, behind, skip=(behind + 2,))
    rest = Worker(judge_of(never), tmp_path / "b").run(begin)
    expected = whole.drawn[behind : behind + 2] + whole.drawn[behind + 3 :]
    assert rest.drawn == expected


def test_a_failure_is_told_once_with_its_smallest_case_and_counted(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    worker = Worker(judge_of(many_blocks), tmp_path).run()
    failing = [case for case in worker.drawn if many_blocks(case)]
    seen = [each for report in worker.reports for each in report["seen"]]
    identities = {Identity(*identity) for identity, _ in seen}
    assert {identity.property for identity in identities} == {
        "unlisted_bytes_are_untouched"
    }
    # Hypothesis shows one of them once more, which is not counted.
    assert sum(count for _, count in seen) <= len(failing)
    assert worker.cases == SEVERAL_BATCHES
    told = [each for report in worker.reports for each in report["violations"]]
    sizes = [len(repr(each["case"])) for each in told]
    assert len(told) < len(failing)
    assert sizes


def test_hypothesis_keeps_the_example_of_a_failure(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    first = Worker(judge_of(many_blocks), tmp_path, cases=BATCH).run()
    assert len(first.position.raised) == 1
    again = Worker(judge_of(many_blocks), tmp_path, cases=1, seed=9).run()
    assert many_blocks(again.drawn[0])
    assert not many_blocks(again.drawn[-1])


def test_passing_cases_that_bring_something_new_are_kept(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    worker = Worker(judge_of(many_blocks), tmp_path).run()
    kept = [each["case"] for report in worker.reports for each in report["kept"]]
    told = [each["case"] for report in worker.reports for each in report["violations"]]
    passing = [
        case
        for case in list(worker.drawn)  # judging adds to it
        if not worker.judge.failures(worker.judge(case))
    ]
    assert 0 < len(kept) < len(passing)
    assert not any(case in kept for case in told)
    covered = [features(case) for case in passing if encode_case(case) in kept]
    assert set().union(*covered) == set().union(*map(features, passing))


def test_cases_of_the_corpus_run_before_any_is_drawn(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    drawn = Worker(judge_of(never), tmp_path / "a", cases=3).run().drawn
    path = tmp_path / "case.json"
    write_case_file(path, drawn[-1])
    worker = Worker(judge_of(never), tmp_path / "b", cases=3).run(None, path)
    assert worker.drawn == [drawn[-1], *drawn]


def test_every_case_is_in_the_journal_with_its_end(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    worker = Worker(judge_of(never), tmp_path, cases=20).run()
    journaled = entries(tmp_path / "journal.jsonl")
    assert [each.case for each in journaled] == [encode_case(c) for c in worker.drawn]
    assert {each.outcome for each in journaled} == {"survived"}


def test_an_error_of_the_harness_costs_a_case_and_not_the_worker(
    judge_of: JudgeOf, tmp_path: Path
) -> None:
    def broken(case: Case) -> bool:
        if many_blocks(case):
            raise ZeroDivisionError
        return False

    worker = Worker(judge_of(broken), tmp_path).run()
    errors = [each for report in worker.reports for each in report["errors"]]
    assert worker.position.stage == "done"
    assert {each["type"] for each in errors} == {"ZeroDivisionError"}
    assert all("case" in each for each in errors)


def test_a_spoilt_process_is_told_and_left(
    judge_of: JudgeOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = judge_of(never)
    whole = judge.executor.run

    def die_third(subject: Any, case: Case) -> Observation:
        seen = whole(subject, case)
        if len(judge.executor.seen) < 3:  # type: ignore[attr-defined]  # the fake keeps them
            return seen
        died = Death("device-died", "device died")
        return Observation(seen.subject, seen.executor, "TTIR", "", died=died)

    monkeypatch.setattr(judge.executor, "run", die_third)
    worker = Worker(judge, tmp_path).run()
    assert worker.reports[-1]["retired"]
    assert worker.position == Position("batches", 0, 3, raised=worker.position.raised)
