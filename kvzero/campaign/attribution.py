"""Which case a dead worker died of, found by running its last cases again.

The case that was at work is run first, in a fresh process of its own: most deaths are
its own doing. Else one of the cases before has spoilt the process: each is run alone,
twice in one process, for what it has spoilt may show at the next run only. Where
nothing dies again, the death stands as it was seen, and is flaky.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.workers import worker_server
from kvzero.case import Case
from kvzero.executors.isolated import IsolatedExecutor, dead_observation
from kvzero.observation import Death
from kvzero.properties.registry import judge as judged_properties

EARLIER = 8
"""Cases before the last one that are suspected: what spoils a heap shows soon."""
_ALONE = "; not again when it is run alone"


def guilty(
    judge: Judge,
    cases: Sequence[Case],
    death: Death,
    is_over: Callable[[], bool],
) -> tuple[int, Judged]:
    """Return which case a worker died of, and what was seen of it.

    Args:
        judge: Runs cases in isolation.
        cases: What the worker ran, at least one case, in order.
        death: How it died.
        is_over: Whether to stop looking.
    """
    last = len(cases) - 1
    for index in range(last, max(last - EARLIER, 0) - 1, -1):
        for _ in range(1 if index == last else 2):
            if is_over():
                break
            seen = judge(cases[index])
            if seen.observation.died is not None:
                return index, seen
        afresh(judge)
    died = replace(death, text=death.text + _ALONE)
    return last, judged_death(judge, cases[last], died)


def judged_death(judge: Judge, case: Case, death: Death) -> Judged:
    """Return a case that a process died of, judged as it was seen."""
    name = judge.subject.name
    executor = judge.executor.name
    versions = worker_server(executor).versions
    seen = dead_observation(name, executor, death, versions)
    return Judged(case, seen, judged_properties(case, seen, judge.subject.contract))


def afresh(judge: Judge) -> None:
    """Let the next case have a process of its own."""
    for executor in (judge.executor, judge.fallback):
        if isinstance(executor, IsolatedExecutor):
            executor.close()
