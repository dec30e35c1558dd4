"""The harness itself under test: is each known fault caught, and how small is its case?

Every fault subject is fuzzed from one fixed seed until the violation that it declares
is seen and shrunk. Other violations do not count: a kill is the property and the kind
that the fault's docstring names. Shrinking is left to `polish`, which needs fewer runs
than Hypothesis and ends in the words a reader sees.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from statistics import median
from time import monotonic
from typing import Any

from hypothesis import Phase

from kvzero.campaign.fuzz import Budget, Fuzzer, cases_for
from kvzero.campaign.judging import Judge
from kvzero.campaign.tally import EXIT_FAULT, EXIT_NOTHING_JUDGED, EXIT_OK, Found, Tally
from kvzero.executors import Executor, executor_named
from kvzero.properties.verdict import Violation
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.faults.fault import Fault

SEED = 0
MAX_EXAMPLES = 4_000
"""Cases after which a fault has survived."""
SHRINK_SECONDS = 10.0
"""Time for shrinking one fault's case: launches of 2**31 programs would take longer."""
MAX_PROGRAMS = 20_000
"""Programs evaluated for one case at most: what a fault does to bytes shows in few, and
launches are judged at any size."""


class KillJudge(Judge):
    """Counts only the violation that a fault declares, a cost too."""

    def counts(self, violation: Violation) -> bool:
        """Return whether a violation is the fault's kill."""
        subject = self.subject
        return isinstance(subject, Fault) and (
            (violation.property, violation.what) == (subject.breaks, subject.what)
        )


@dataclass(frozen=True)
class Kill:
    """What one seed's fuzzing made of one fault.

    Attributes:
        fault: The fault.
        executor: What judged it.
        seed: The seed.
        cases: Cases until it was caught, or all that were drawn.
        seconds: Time for finding and shrinking.
        found: The violation with its shrunk case, if it was caught.
    """

    fault: Fault
    executor: str
    seed: int
    cases: int = 0
    seconds: float = 0.0
    found: Found | None = None

    @property
    def killed(self) -> bool:
        """Return whether the declared violation was seen, and again when repeated."""
        return self.found is not None and not self.found.flaky

    @property
    def runs(self) -> int | None:
        """Return the runs of the shrunk case."""
        return len(self.found.judged.case.layout.runs) if self.found else None

    @property
    def blocks(self) -> int | None:
        """Return the blocks of the shrunk case."""
        return self.found.judged.case.layout.num_blocks if self.found else None


def kill(
    fault: Fault,
    seed: int,
    max_examples: int,
    executor: Executor,
    *,
    shrink_seconds: float = SHRINK_SECONDS,
) -> Kill:
    """Return what fuzzing makes of a fault.

    Args:
        fault: The fault.
        seed: Every random choice follows from it.
        max_examples: Cases after which it has survived.
        executor: What judges it.
        shrink_seconds: Time for shrinking.
    """
    judge = KillJudge(fault, executor)
    budget = Budget(cases=max_examples)
    fuzzer = Fuzzer(
        judge,
        cases_for(judge),
        seed,
        budget,
        _say_nothing,
        phases=(Phase.generate,),
        shrink_seconds=shrink_seconds,
    )
    tally = fuzzer.run()
    kills = [found for found in tally.found.values() if judge.counts(found.violation)]
    found = min(kills, key=lambda kill: kill.flaky, default=None)
    seconds = budget.elapsed()
    return Kill(fault, executor.name, seed, tally.cases, seconds, found)


def _say_nothing(_tally: Tally) -> None:
    """Take the progress of a run that is over in seconds."""


@dataclass(frozen=True)
class Row:
    """One fault of the kill matrix: what each seed made of it.

    Attributes:
        fault: The fault.
        kills: One entry a seed; empty where nothing here can judge it.
    """

    fault: Fault
    kills: tuple[Kill, ...] = ()

    @property
    def killed(self) -> bool:
        """Return whether every seed caught it: never so where none was run."""
        return bool(self.kills) and all(kill.killed for kill in self.kills)

    @property
    def verdict(self) -> str:
        """Return the verdict in a word or two."""
        if not self.kills:
            return "needs a GPU"
        return "killed" if self.killed else "SURVIVED"

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the row as plain data; the largest shrunk case where seeds differ."""
        fault, kills = self.fault, self.kills
        return {
            "name": fault.name,
            "kind": fault.kind,
            "area": fault.area,
            "killed": self.killed,
            "needs_gpu": fault.needs_gpu,
            "property": fault.breaks,
            "what": fault.what,
            "executor": kills[0].executor if kills else None,
            "cases": sum(kill.cases for kill in kills),
            "seconds": round(sum(kill.seconds for kill in kills), 3),
            "runs": _largest(kill.runs for kill in kills),
            "blocks": _largest(kill.blocks for kill in kills),
            "survived_seeds": [kill.seed for kill in kills if not kill.killed],
        }


def _largest(sizes: Iterable[int | None]) -> int | None:
    return max((size for size in sizes if size is not None), default=None)


@dataclass(frozen=True)
class Matrix:
    """The kill matrix: every fault, whether it was caught, and how soon.

    Attributes:
        rows: One a fault, in order of their names.
        seeds: The seeds that were run.
        seconds: Wall-clock time.
    """

    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    seconds: float

    @property
    def survivors(self) -> tuple[str, ...]:
        """Return the faults that were judged and not caught by every seed."""
        return tuple(r.fault.name for r in self.rows if r.kills and not r.killed)

    @property
    def exit_code(self) -> int:
        """Return 1 if a fault survived, 5 if none was judged, else 0."""
        if not any(row.kills for row in self.rows):
            return EXIT_NOTHING_JUDGED
        return EXIT_FAULT if self.survivors else EXIT_OK

    def median_of(self, size: Callable[[Kill], int | None]) -> float | None:
        """Return the median of a size of all shrunk cases."""
        sizes = [size(kill) for row in self.rows for kill in row.kills]
        known = [each for each in sizes if each is not None]
        return median(known) if known else None

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the matrix as plain data."""
        return {
            "exit_code": self.exit_code,
            "seeds": list(self.seeds),
            "seconds": round(self.seconds, 3),
            "survivors": list(self.survivors),
            "median_runs": self.median_of(lambda kill: kill.runs),
            "median_blocks": self.median_of(lambda kill: kill.blocks),
            "faults": [row.as_json() for row in self.rows],
        }


def kill_matrix(
    *,
    seeds: int = 1,
    max_examples: int = MAX_EXAMPLES,
    workers: int = 1,
    faults: Sequence[Fault] | None = None,
    on_kill: Callable[[Kill], None] = lambda _kill: None,
) -> Matrix:
    """Fuzz every fault that this machine can judge.

    Args:
        seeds: How many seeds, the fixed one first.
        max_examples: Cases after which a fault has survived.
        workers: Processes that share the faults.
        faults: The faults; by default all.
        on_kill: Called after each, for progress.
    """
    started = monotonic()
    faults = fault_subjects() if faults is None else faults
    chosen = tuple(range(SEED, SEED + seeds))
    judgeable = [fault for fault in faults if _executor_name(fault)]
    jobs = [(fault, seed, max_examples) for fault in judgeable for seed in chosen]
    kills: dict[str, list[Kill]] = {}
    for done in _done(jobs, workers):
        on_kill(done)
        kills.setdefault(done.fault.name, []).append(done)
    rows = (Row(fault, tuple(kills.get(fault.name, ()))) for fault in faults)
    return Matrix(tuple(rows), chosen, monotonic() - started)


Job = tuple[Fault, int, int]


def _done(jobs: Sequence[Job], workers: int) -> Iterator[Kill]:
    """Yield what became of each job, in order."""
    if workers == 1:
        yield from map(_run_job, jobs)
        return
    # Spawned: a process that has run torch or Triton must not be forked.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(_run_job, jobs)


def _run_job(job: Job) -> Kill:
    fault, seed, max_examples = job
    return kill(fault, seed, max_examples, _executor(_executor_name(fault)))


@cache
def _executor(name: str) -> Executor:
    """Return the executor of a process, with everything that it has compiled."""
    return executor_named(name, max_programs=MAX_PROGRAMS)


def _executor_name(fault: Fault) -> str:
    """Return what judges a fault here; empty if nothing can."""
    if not fault.needs_gpu:
        return "footprint"
    from kvzero.executors.device import device_available

    return "device" if device_available() else ""
