"""Whose doing a death was, told from runs of the last cases again."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kvzero.campaign.attribution import EARLIER, guilty
from kvzero.campaign.judging import Judge
from kvzero.campaign.shrinking import shrunk
from kvzero.campaign.tally import Found
from kvzero.case import Case
from kvzero.observation import Death, Observation

from .conftest import SUBJECT, FakeExecutor
from .test_folder import a_case

DEATH = Death("killed-by-sigsegv", "process died: signal 11 (SIGSEGV)")
CASES = [a_case(blocks) for blocks in range(1, 20)]


@dataclass
class Dies(FakeExecutor):
    """Dies of some cases: at once, or when the process runs on."""

    deadly: Callable[[int], bool] = lambda _blocks: False
    spoiling: Callable[[int], bool] = lambda _blocks: False
    ran: list[int] = field(default_factory=list)

    def run(self, subject: Any, case: Case) -> Observation:
        blocks = case.layout.num_blocks
        spoilt = any(self.spoiling(each) for each in self.ran)
        self.ran.append(blocks)
        seen = super().run(subject, case)
        return replace(seen, died=DEATH) if spoilt or self.deadly(blocks) else seen


@pytest.fixture(autouse=True)
def fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the fake executor forget where a worker would be replaced."""

    def afresh(judge: Judge) -> None:
        assert isinstance(judge.executor, Dies)
        judge.executor.ran.clear()

    monkeypatch.setattr("kvzero.campaign.attribution.afresh", afresh)


def never() -> bool:
    return False


def dies(
    deadly: Callable[[int], bool] = lambda _blocks: False,
    spoiling: Callable[[int], bool] = lambda _blocks: False,
) -> Judge:
    executor = Dies(lambda _case: False, deadly=deadly, spoiling=spoiling)
    return Judge(SUBJECT, executor)


def test_the_case_at_work_is_guilty_where_it_kills_alone() -> None:
    index, judged = guilty(dies(lambda blocks: blocks > 3), CASES, DEATH, never)
    assert index == len(CASES) - 1
    assert judged.violations[0].what == DEATH.what


@pytest.mark.parametrize("before", [1, EARLIER])
def test_a_case_that_spoils_its_process_is_guilty_of_a_later_death(before: int) -> None:
    spoiler = len(CASES) - before
    judge = dies(spoiling=lambda blocks: blocks == spoiler)
    index, judged = guilty(judge, CASES, DEATH, never)
    assert CASES[index].layout.num_blocks == spoiler
    assert judged.violations[0].property == "the_process_survives"


def test_a_death_that_does_not_come_again_stands_as_it_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Server:
        versions = "triton 9"

    monkeypatch.setattr(
        "kvzero.campaign.attribution.worker_server", lambda _executor: Server
    )
    index, judged = guilty(dies(), CASES, DEATH, never)
    assert index == len(CASES) - 1
    (violation,) = judged.violations
    assert violation.what == DEATH.what
    assert "not again when it is run alone" in violation.claim


def found_by(judge: Judge, case: Case) -> Found:
    judged = judge(case)
    return Found(judged.violations[0], judged)


def test_a_death_is_shrunk_to_its_threshold() -> None:
    judge = dies(lambda blocks: blocks >= 5)
    found = shrunk(found_by(judge, a_case(900)), judge, (), never)
    assert found.judged.case.layout.num_blocks == 5
    assert not found.flaky


def test_a_quicker_judge_shrinks_and_the_other_has_the_last_word() -> None:
    judge, quicker = dies(lambda blocks: blocks >= 5), dies(lambda b: b >= 3)
    found = shrunk(found_by(judge, a_case(900)), judge, (quicker,), never)
    assert found.judged.case.layout.num_blocks == 5  # 3 shows nothing to the other
    agreeing = dies(lambda blocks: blocks >= 5)
    found = shrunk(found_by(judge, a_case(900)), judge, (agreeing,), never)
    assert found.judged.case.layout.num_blocks == 5


def test_a_quicker_judge_that_sees_nothing_shrinks_nothing() -> None:
    judge = dies(lambda blocks: blocks >= 5)
    found = shrunk(found_by(judge, a_case(900)), judge, (dies(),), never)
    assert found.judged.case.layout.num_blocks == 5


def test_what_does_not_show_again_is_flaky_and_keeps_its_case() -> None:
    once = dies(lambda blocks: blocks >= 5)
    found = shrunk(found_by(once, a_case(900)), dies(), (), never)
    assert found.flaky
    assert found.judged.case.layout.num_blocks == 900
