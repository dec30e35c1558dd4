"""What ships, and what is known to have failed, is all within the footprint's reach.

Beyond the cap on programs nothing may be left unjudged by the executor. `CASES` of each
subject here; more by `python -m tests.meta.test_unjudged --cases 500`.
"""

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass, field

import pytest

from kvzero.campaign.faults import MAX_PROGRAMS
from kvzero.campaign.fuzz import Budget, Fuzzer, cases_for
from kvzero.campaign.judging import Judge
from kvzero.campaign.tally import Tally
from kvzero.case import Case
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.footprint import FootprintExecutor
from kvzero.observation import Observation
from kvzero.properties.verdict import Violation
from kvzero.subjects.protocol import Contract, MadeSubject, Subject
from kvzero.subjects.registry import BUILT_INS, find_subject, subject_names
from tests.executors.footprint import subjects

CASES = 25
CAPS = re.compile(
    r"a call's programs exceed the cap of |"
    r"a loop at \S+ makes more turns than the cap of |"
    r"(torch operations on the case's memory: )?"
    r"a write at \S+ of more stretches than the cap of |"
    r"stores overlap in more than "
)
"""How reasons begin that are a matter of size: docs/evaluator.md lists the limits."""


class Looking(Judge):
    """Lets a run go on whatever it finds."""

    def counts(self, violation: Violation) -> bool:
        """Return False: faults are not what is looked for."""
        del violation
        return False


@dataclass
class Listing(FootprintExecutor):
    """The footprint, with a list of what it did not judge."""

    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin as the executor does."""
        super().__init__(max_programs=MAX_PROGRAMS)

    def run(self, subject: Subject, case: Case) -> Observation:
        """Run the case and note what is not judged of it."""
        seen = super().run(subject, case)
        self.reasons.update(
            (name, reason)
            for name, reason in seen.not_judged
            if CAPS.match(reason) is None
        )
        return seen


def unjudged(subject: Subject, cases: int) -> Counter[tuple[str, str]]:
    """Return what the footprint did not judge of drawn cases, and how often."""
    executor = Listing()
    judge = Looking(subject, executor)
    fuzzer = Fuzzer(judge, cases_for(judge), 5, Budget(cases=cases), quiet)
    assert fuzzer.run().cases == cases
    return executor.reasons


def quiet(_tally: Tally) -> None:
    """Say nothing of the progress."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BUILT_INS))
def test_built_in_subject_is_judged_whatever_it_does(name: str) -> None:
    try:
        subject = find_subject(name)
    except EnvironmentMissingError as missing:
        pytest.skip(str(missing))
    assert unjudged(subject, CASES) == {}


@pytest.mark.slow
def test_what_is_not_judged_is_listed() -> None:
    # sanity check
    hidden = MadeSubject("hidden", Contract(), subjects.HiddenTableZeroer)
    reasons = unjudged(hidden, 8)
    assert any("unregistered memory" in reason for _, reason in reasons)


def main() -> None:
    """Draw cases for every subject that is known, and print what was not judged."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--cases", type=int, default=CASES)
    count = parser.parse_args().cases
    total = 0
    for name in subject_names():
        try:
            reasons = unjudged(find_subject(name), count)
        except EnvironmentMissingError as missing:
            sys.stdout.write(f"{name}: {missing}\n")
            continue
        total += sum(reasons.values())
        for (what, reason), times in reasons.items():
            sys.stdout.write(f"{name}: {what}: {reason} ({times} times)\n")
    sys.stdout.write(f"{len(subject_names())} subjects, {total} not judged\n")
    sys.exit(int(total > 0))


if __name__ == "__main__":
    main()
