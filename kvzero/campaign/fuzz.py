"""Fuzzing: Hypothesis draws cases until the time or the number of cases is up.

Facts of Hypothesis that shape this loop: a private `BaseException` leaves generation
and shrinking cleanly, so it ends the budget; one exception class a fault keeps two
faults apart; memory grows with cases, so a run is a row of batches with seeds of their
own. The smallest failing case of each fault is kept here, since shrinking may be cut
short, and polished at the end.
"""

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from time import monotonic

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.errors import Flaky
from hypothesis.strategies import SearchStrategy

from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.pace import Pace
from kvzero.campaign.polish import polish
from kvzero.campaign.tally import Found, Tally
from kvzero.case import Case
from kvzero.casefile import encode_case
from kvzero.errors import PropertyFailure
from kvzero.properties.verdict import Identity, Violation
from kvzero.strategies import cases
from kvzero.strategies.cases import PLATFORMS

BATCH = 10_000
"""Cases that one Hypothesis run draws at most: its memory grows with them."""
MAX_PROGRAMS = 70_000
"""Programs evaluated for one drawn case at most; `verify` has no cap. A launch just
beyond 65,535 programs, where y and z end on CUDA, is still evaluated."""
CASE_SECONDS = 30.0
"""Time of one drawn case in a worker process: it runs in milliseconds, but what it runs
may have to be compiled first, by a machine that is busy. Interpreting takes longer."""
SHRINK_SECONDS = 60.0
"""Time for shrinking, beyond the budget for finding."""
NEW_OBJECTS = 50_000
"""Objects made, less those freed, from which on the collector looks for cycles."""
RETRIES = 2
"""Runs of a failing case that must fail again, or it is flaky."""


DEVICE_POOL_BYTES = 2**26
"""Most memory of a case drawn for a GPU or the host, which is filled and compared byte
by byte; the footprint draws pools of any size."""
DEVICE_CHUNKS = 2**22
"""About how many 4-KiB chunks a case drawn for a GPU may have to zero: what is beyond
takes seconds there, and the footprint judges launches of any size."""


def cases_for(judge: Judge, target: str | None = None) -> SearchStrategy[Case]:
    """Return the strategy of cases for a subject and an executor.

    Args:
        judge: Both.
        target: The only platform of the cases; None: one of those that are known.
    """
    contract = judge.subject.contract
    if judge.executor.name == "device":
        return cases(
            contract=contract,
            max_bytes=DEVICE_POOL_BYTES,
            max_programs_hint=DEVICE_CHUNKS,
        )
    platforms = PLATFORMS if target is None else (target,)
    if judge.executor.name == "host":
        return cases(
            contract=contract, platforms=platforms, max_bytes=DEVICE_POOL_BYTES
        )
    return cases(contract=contract, platforms=platforms)


class _BudgetIsUp(BaseException):
    """Leaves Hypothesis from inside the test body."""


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let the garbage collector pass over less, and less often.

    Modules, Triton's caches and built kernels are many objects that stay, and a case
    leaves few cycles behind.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@dataclass
class Budget:
    """How long to look.

    Attributes:
        seconds: Time for finding, or None.
        cases: Number of cases, or None.
    """

    seconds: float | None = None
    cases: int | None = None
    started: float = field(default_factory=monotonic)

    def elapsed(self) -> float:
        """Return seconds since the start."""
        return monotonic() - self.started

    def is_up(self, cases: int) -> bool:
        """Return whether time or cases are used up."""
        late = self.seconds is not None and self.elapsed() >= self.seconds
        return late or (self.cases is not None and cases >= self.cases)


@cache
def failure_class(identity: Identity) -> type[PropertyFailure]:
    """Return the exception class of one fault."""
    return type("Failure", (PropertyFailure,), {"identity": identity})


def batch_seed(seed: int, batch: int) -> int:
    """Return the seed of a batch: every random choice follows from the run's seed."""
    digest = blake2b(f"{seed}/{batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def case_size(case: Case) -> tuple[int, int, str]:
    """Return a sort key that puts the simpler of two cases first."""
    text = repr(encode_case(case))
    return len(case.layout.runs) + len(case.calls), len(text), text


@dataclass
class Fuzzer:
    """One run of fuzzing.

    Attributes:
        judge: Subject and executors.
        cases: Strategy of cases.
        seed: Everything random follows from it.
        budget: When to stop looking.
        on_case: Called after every case, for progress.
        interrupted: Somebody pressed Ctrl-C: what was found until then is kept.
        phases: What Hypothesis does; without shrinking, `polish` does all of it.
        shrink_seconds: Time for shrinking.
        tally: What was judged.
        pace: How fast.
    """

    judge: Judge
    cases: SearchStrategy[Case]
    seed: int
    budget: Budget
    on_case: Callable[[Tally], None]
    phases: tuple[Phase, ...] = (Phase.generate, Phase.shrink)
    shrink_seconds: float = SHRINK_SECONDS
    tally: Tally = field(default_factory=Tally)
    pace: Pace = field(default_factory=Pace)
    interrupted: bool = False
    _smallest: dict[Identity, Found] = field(default_factory=dict)
    _shrink_until: float | None = None

    def run(self) -> Tally:
        """Draw and judge cases until the budget is up or a fault was found."""
        with _rare_collections():
            return self._run()

    def _run(self) -> Tally:
        batch = 0
        while not self._is_over():
            self._run_batch(batch)
            batch += 1
        until = monotonic() + self.shrink_seconds
        for identity, found in self._smallest.items():
            # How often it was drawn; the searches of the shrinkers do not count.
            seen = self.tally.found.get(identity)
            found.count = seen.count if seen else 1
            self.tally.found[identity] = found
            if not self.interrupted:
                self._finish(found, until)
        return self.tally

    def _run_batch(self, batch: int) -> None:
        test = hypothesis.given(self.cases)(self._body)
        test = hypothesis.settings(
            max_examples=self._batch_size(),
            database=None,
            deadline=None,
            derandomize=False,
            phases=self.phases,
            suppress_health_check=list(HealthCheck),
            verbosity=hypothesis.Verbosity.quiet,
            print_blob=False,
        )(hypothesis.seed(batch_seed(self.seed, batch))(test))
        self.pace.resume()
        try:
            test()
        except KeyboardInterrupt:
            self.interrupted = True
        except (_BudgetIsUp, PropertyFailure, BaseExceptionGroup, Flaky):
            if not self._is_over():
                raise

    def _is_over(self) -> bool:
        over = self.interrupted or bool(self._smallest)
        return over or self.budget.is_up(self.tally.cases)

    def _batch_size(self) -> int:
        if self.budget.cases is None:
            return BATCH
        return max(1, min(BATCH, self.budget.cases - self.tally.cases))

    def _body(self, case: Case) -> None:
        """Judge one case; what Hypothesis calls."""
        if self._shrink_until is not None:
            if monotonic() >= self._shrink_until:
                raise _BudgetIsUp
        elif self.budget.is_up(self.tally.cases):
            raise _BudgetIsUp
        judged = self._judged(case) if self._shrink_until else self._drawn(case)
        failures = self.judge.failures(judged)
        if failures:
            self._keep(failures, judged)
            raise failure_class(failures[0].identity)(failures[0].headline)

    def _drawn(self, case: Case) -> Judged:
        """Judge and count a case that was drawn to find something."""
        with self.pace.checking():
            judged = self._judged(case)
            self.tally.add(judged)
            self.pace.count(judged.observation)
        self.on_case(self.tally)
        return judged

    def _judged(self, case: Case) -> Judged:
        """Judge a case; an error of the harness names the case that showed it."""
        try:
            return self.judge(case)
        except Exception as error:  # any: it is raised again
            error.add_note(f"The case: {json.dumps(encode_case(case))}")
            raise

    def _keep(self, failures: tuple[Violation, ...], judged: Judged) -> None:
        if self._shrink_until is None:
            self._shrink_until = monotonic() + self.shrink_seconds
        for violation in failures:
            known = self._smallest.get(violation.identity)
            if known is None:
                self._smallest[violation.identity] = Found(violation, judged)
            elif case_size(judged.case) < case_size(known.judged.case):
                known.judged, known.violation = judged, violation

    def _finish(self, found: Found, until: float) -> None:
        """Polish the case of a fault, or mark it flaky; an interrupt leaves it."""
        try:
            self._polish(found, until)
        except KeyboardInterrupt:
            self.interrupted = True

    def _polish(self, found: Found, until: float) -> None:
        identity = found.violation.identity
        if not all(self._shows(identity, found.judged.case) for _ in range(RETRIES)):
            found.flaky = True
            return
        smallest = polish(
            found.judged.case,
            lambda case: self._shows(identity, case),
            lambda: monotonic() >= until,
        )
        judged = self.judge(smallest)
        shown = [v for v in judged.violations if v.identity == identity]
        if not shown:  # it died at random: what was seen stands, and may not repeat
            found.flaky = True
            return
        found.judged, found.violation = judged, shown[0]

    def _shows(self, identity: Identity, case: Case) -> bool:
        return any(v.identity == identity for v in self.judge(case).violations)
