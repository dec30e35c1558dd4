"""One subject under the whole test, in one call: what the pytest fixture does.

Presets first, as they are, then random cases until a fault is found or enough were
drawn. A failing case is shrunk and saved as by `kvzero fuzz`, and told in one text.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvzero.campaign.confirming import confirm
from kvzero.campaign.failing import FoundFailure
from kvzero.campaign.fuzz import (
    CASE_SECONDS,
    MAX_PROGRAMS,
    Budget,
    Fuzzer,
    cases_for,
)
from kvzero.campaign.judging import Judge
from kvzero.campaign.known import Known
from kvzero.campaign.outcome import RunResult
from kvzero.campaign.saving import save_found_once
from kvzero.campaign.tally import EXIT_NOTHING_JUDGED, Tally
from kvzero.campaign.verify import preset_cases, verify
from kvzero.errors import PropertyFailure
from kvzero.executors import Executor, default_executor_name, executor_named
from kvzero.executors.isolated import Isolation, is_built_in, subject_for
from kvzero.subjects.protocol import Subject

MAX_EXAMPLES = 100
CASE_LIMITS = Isolation(CASE_SECONDS)


@dataclass(frozen=True)
class Check:
    """How a subject is checked.

    Attributes:
        max_examples: Random cases that are drawn; 0: none.
        seed: Every random choice follows from it.
        preset: A preset that is run before, ``"all"``, or None.
        executor: Name of the executor; None: device where there is a GPU, else
            footprint.
        strict_cost: A cost is a failure, too.
        regressions: Folder that failing cases are saved in.
        findings: Known findings, which do not count.
        limits: Of the worker process that a case of another package's subject runs in.
    """

    max_examples: int = MAX_EXAMPLES
    seed: int = 0
    preset: str | None = None
    executor: str | None = None
    strict_cost: bool = False
    regressions: Path = Path("regressions")
    findings: tuple[Known, ...] = ()
    limits: Isolation = CASE_LIMITS

    def __call__(self, subject: str | Subject) -> None:
        """Check a subject, known by name or given as it is.

        A subject of another package that is named runs in a worker process, which it
        may kill or hang; one that is given runs in this one.

        Raises:
            PropertyFailure: It broke a property; or nothing was judged, which is never
                green; or a known finding no longer fails.
        """
        for cases, run in self._runs():
            with self.judge(subject, cases) as judge:
                self._refuse(judge, run(judge))

    def _runs(self) -> Iterator[tuple[int | None, Callable[[Judge], Tally]]]:
        """Yield what is run, each with the most programs evaluated for one case."""
        preset = self.preset
        if preset is not None:
            yield None, lambda judge: verify(judge, preset_cases(preset), _quiet)
        if self.max_examples:
            yield MAX_PROGRAMS, self._fuzzed

    def _fuzzed(self, judge: Judge) -> Tally:
        budget = Budget(cases=self.max_examples)
        fuzzer = Fuzzer(judge, cases_for(judge), self.seed, budget, _quiet)
        tally = fuzzer.run()
        if fuzzer.interrupted:
            raise KeyboardInterrupt
        for found in tally.found.values():
            if judge.counts(found.violation):
                save_found_once(found, judge, self.regressions)
        return tally

    @contextmanager
    def judge(self, subject: str | Subject, cap: int | None) -> Iterator[Judge]:
        """Hold what judges a subject, with the processes and memory that this takes.

        Args:
            subject: Its name, or the subject.
            cap: Programs evaluated for one case at most; None: no limit.

        Raises:
            PropertyFailure: A known finding no longer fails.
        """
        name = self.executor or default_executor_name()
        is_foreign = isinstance(subject, str) and not is_built_in(subject)
        isolation = self.limits if is_foreign else None
        executor = executor_named(name, max_programs=cap, isolation=isolation)
        fallback = None
        if name == "device":
            fallback = executor_named(
                "footprint", max_programs=cap, isolation=isolation
            )
        try:
            if isinstance(subject, str):
                subject = subject_for(subject, executor)
            judge = Judge(subject, executor, fallback, self.strict_cost)
            self._refuse_stale(judge)
            yield judge
        finally:
            for each in (executor, fallback):
                _close(each)

    def _refuse_stale(self, judge: Judge) -> None:
        stale = [
            each.line
            for each in confirm(judge, self.findings)
            if each.state == "no longer fails"
        ]
        if stale:
            raise PropertyFailure("\n".join(stale))

    def _refuse(self, judge: Judge, tally: Tally) -> None:
        """Raise what a run found."""
        name, strict = judge.subject.name, self.strict_cost
        result = RunResult(name, judge.executor.name, tally, 0.0, strict)
        found = [each for each in result.found if judge.counts(each.violation)]
        if found:
            raise FoundFailure(found)
        if result.exit_code == EXIT_NOTHING_JUDGED:
            reasons = "; ".join(f"{what}: {why}" for what, why in tally.not_judged)
            raise PropertyFailure(f"nothing of {name} was judged: {reasons}")


def _close(executor: Executor | None) -> None:
    """Give back what an executor holds: memory of a GPU, a process."""
    close = getattr(executor, "close", None)
    if close is not None:
        close()


def _quiet(_tally: Tally) -> None:
    """Say nothing of the progress: pytest shows that of its tests."""
