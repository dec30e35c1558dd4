from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.campaign.fuzz import Budget, Fuzzer, batch_seed, cases_for
from kvzero.campaign.judging import Judge
from kvzero.campaign.tally import Tally
from kvzero.case import Case
from kvzero.executors.host import HostExecutor
from kvzero.strategies import cases

from .conftest import SUBJECT

JudgeOf = Callable[[Callable[[Case], bool]], Judge]


def quiet(_tally: Tally) -> None:
    """Say nothing of the progress."""


def fuzz(judge: Judge, *, seed: int = 0, examples: int = 300) -> Tally:
    return Fuzzer(judge, cases(), seed, Budget(cases=examples), quiet).run()


def segments(case: Case) -> int:
    return len(case.layout.table)


def test_fuzz_judges_as_many_cases_as_asked(judge_of: JudgeOf) -> None:
    tally = fuzz(judge_of(lambda _: False), examples=50)
    assert tally.cases == 50
    assert tally.found == {}


@given(st.data())
def test_cases_for_the_host_fit_it(data: st.DataObject) -> None:
    host = HostExecutor()
    case = data.draw(cases_for(Judge(SUBJECT, host)))
    assert host.fits(case)


def test_fuzz_stops_when_the_time_is_up(
    judge_of: JudgeOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = count()  # the time is how often it was looked at, whatever else runs here
    monkeypatch.setattr("kvzero.campaign.fuzz.monotonic", lambda: next(ticks))
    judge = judge_of(lambda _: False)
    budget = Budget(seconds=100, started=0.0)
    tally = Fuzzer(judge, cases(), 0, budget, quiet).run()
    assert 0 < tally.cases < 100


@pytest.mark.slow
def test_fuzz_shrinks_a_fault_exactly_to_its_threshold(judge_of: JudgeOf) -> None:
    tally = fuzz(judge_of(lambda case: segments(case) > 100), examples=2000)
    (found,) = tally.found.values()
    case = found.judged.case
    assert segments(case) == 101
    assert len(case.layout.runs) == 1
    assert case.layout.num_blocks <= 1
    assert not found.flaky


def test_fuzz_keeps_a_failure_that_does_not_repeat_as_flaky(judge_of: JudgeOf) -> None:
    seen: list[Case] = []

    def once(case: Case) -> bool:
        seen.append(case)
        return len(seen) == 20

    tally = fuzz(judge_of(once))
    (found,) = tally.found.values()
    assert found.flaky
    assert found.judged.case == seen[19]


def test_fuzz_draws_the_same_cases_from_the_same_seed(judge_of: JudgeOf) -> None:
    first, second, third = (judge_of(lambda _: False) for _ in range(3))
    fuzz(first, seed=7, examples=40)
    fuzz(second, seed=7, examples=40)
    fuzz(third, seed=8, examples=40)
    drawn = [judge.executor.seen for judge in (first, second, third)]  # type: ignore[attr-defined]  # the fake keeps them
    assert drawn[0] == drawn[1] != drawn[2]


def test_fuzz_lets_an_error_of_the_harness_out(judge_of: JudgeOf) -> None:
    def broken(_case: Case) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fuzz(judge_of(broken))
    assert any('"layout"' in note for note in caught.value.__notes__)


def test_batch_seeds_differ_between_batches_and_seeds() -> None:
    assert len({batch_seed(s, b) for s in range(9) for b in range(9)}) == 81


def test_an_interrupt_keeps_what_was_judged(judge_of: JudgeOf) -> None:
    seen: list[Case] = []

    def interrupted(case: Case) -> bool:
        seen.append(case)
        if len(seen) == 30:
            raise KeyboardInterrupt
        return False

    fuzzer = Fuzzer(judge_of(interrupted), cases(), 0, Budget(cases=300), quiet)
    tally = fuzzer.run()
    assert fuzzer.interrupted
    assert tally.cases == 29
