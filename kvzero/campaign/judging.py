"""One case through subject, executor and properties: what every verb repeats."""

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cached_property

from kvzero.campaign.known import Known
from kvzero.case import Case
from kvzero.executors import Executor
from kvzero.observation import Observation
from kvzero.properties.registry import judge
from kvzero.properties.verdict import (
    Broken,
    Identity,
    NotJudged,
    Result,
    Violation,
)
from kvzero.subjects.protocol import Subject


@dataclass(frozen=True)
class Judged:
    """A case with what was seen and what it means.

    Attributes:
        known: Which of the violations are known findings, and which.
    """

    case: Case
    observation: Observation
    results: tuple[Result, ...]
    known: Mapping[Identity, Known] = field(default_factory=dict)

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Return all violations, those of the first broken property first."""
        broken = (result for result in self.results if isinstance(result, Broken))
        return tuple(violation for result in broken for violation in result.violations)

    def says_of(self, name: str | None) -> bool:
        """Return whether a property was judged."""
        judged = (r for r in self.results if not isinstance(r, NotJudged))
        return any(result.property == name for result in judged)


@dataclass
class Judge:
    """A subject with the executors that run it.

    Attributes:
        subject: What is under test.
        executor: Runs every case whose memory it can have.
        fallback: Runs the others.
        strict_cost: A cost counts as a failure.
        known: The subject's known findings, which do not count.
        seek: The only kind of violation that counts, by its short word, if set.
    """

    subject: Subject
    executor: Executor
    fallback: Executor | None = None
    strict_cost: bool = False
    known: tuple[Known, ...] = ()
    seek: str | None = None
    fell_back: int = field(default=0, init=False)

    def __call__(self, case: Case) -> Judged:
        """Run a case and judge what was seen."""
        executor = self.executor
        if self.fallback is not None and not executor.fits(case):
            executor = self.fallback
            self.fell_back += 1
        observation = self.observed(executor, case)
        results = judge(case, observation, self.subject.contract)
        judged = Judged(case, observation, tuple(results))
        if not self.known:
            return judged
        pairs = ((v.identity, self.known_as(v)) for v in judged.violations)
        return replace(judged, known={i: found for i, found in pairs if found})

    def observed(self, executor: Executor, case: Case) -> Observation:
        """Run a case; what a subject prints must not get into a verdict on stdout."""
        with redirect_stdout(sys.stderr):
            return executor.run(self.subject, case)

    def known_as(self, violation: Violation) -> Known | None:
        """Return the known finding that a violation is, if it is one."""
        return next((k for k in self.known if k.covers(violation)), None)

    def counts(self, violation: Violation) -> bool:
        """Return whether a violation makes the run fail."""
        if self.seek is not None:
            return violation.what == self.seek
        counts = self.strict_cost or violation.kind != "cost"
        return counts and self.known_as(violation) is None

    def failures(self, judged: Judged) -> tuple[Violation, ...]:
        """Return the violations of a case that make the run fail."""
        return tuple(v for v in judged.violations if self.counts(v))
