"""Many cases of one subject, in batches of their own seeds, on many processes.

`python -m tests.meta.long_run --subject kvzero --cases 300000 --workers 16`. What a
subject does beyond a launch limit that it does not look at is left out by
`--inside-limits`: such cases are counted, and not held against it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from kvzero.campaign.fuzz import (
    MAX_PROGRAMS,
    Budget,
    Fuzzer,
    batch_seed,
    cases_for,
)
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.outcome import found_text, save_found
from kvzero.campaign.tally import Tally
from kvzero.executors import executor_named
from kvzero.limits import broken_limits
from kvzero.properties.verdict import Identity, Violation
from kvzero.subjects.registry import find_subject

BATCH = 2_000
"""Cases of one batch: Hypothesis draws from its seed, and keeps what it has drawn."""


@dataclass
class InsideLimits(Judge):
    """Holds a violation against a subject only where its launches fit.

    Attributes:
        inside_limits: Whether launches beyond a limit excuse a case.
        outside: Cases that they excused.
        failed: What was held against it.
    """

    inside_limits: bool = False
    outside: int = 0
    failed: set[Identity] = field(default_factory=set)

    def failures(self, judged: Judged) -> tuple[Violation, ...]:
        """Return the violations of a case that make the run fail."""
        launches = judged.observation.launches
        if self.inside_limits and any(broken_limits(each.shape) for each in launches):
            self.outside += 1
            return ()
        found = super().failures(judged)
        self.failed.update(violation.identity for violation in found)
        return found


@dataclass(frozen=True)
class Batch:
    """Cases that one process draws and judges."""

    subject: str
    seed: int
    cases: int
    inside_limits: bool
    regressions: Path


@dataclass
class Totals:
    """What batches have seen together.

    Attributes:
        cases: Cases.
        outside: Those that were excused.
        launches: Launches.
        to_the_byte: Those whose bytes were judged.
        judged: How often each property was judged.
        failures: Texts of what was found, with the command that runs it again.
    """

    cases: int = 0
    outside: int = 0
    launches: int = 0
    to_the_byte: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Totals") -> None:
        """Add a batch."""
        self.cases += other.cases
        self.outside += other.outside
        self.launches += other.launches
        self.to_the_byte += other.to_the_byte
        self.judged += other.judged
        self.failures += other.failures

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        for name, count in sorted(self.judged.items()):
            yield f"  judged {name}: {count:,}"
        yield (
            f"{self.cases:,} cases ({self.outside:,} beyond a limit), "
            f"{self.launches:,} launches ({self.to_the_byte:,} to the byte), "
            f"{len(self.failures)} violations"
        )


def run_batch(batch: Batch) -> Totals:
    """Return what one batch has seen; a failing case is shrunk and saved."""
    executor = executor_named("footprint", max_programs=MAX_PROGRAMS)
    judge = InsideLimits(
        find_subject(batch.subject), executor, inside_limits=batch.inside_limits
    )
    budget = Budget(cases=batch.cases)
    fuzzer = Fuzzer(judge, cases_for(judge), batch.seed, budget, _quiet)
    tally = fuzzer.run()
    found = [tally.found[each] for each in judge.failed if each in tally.found]
    for each in found:
        save_found(each, batch.regressions)
    return Totals(
        tally.cases,
        judge.outside,
        fuzzer.pace.launches,
        fuzzer.pace.to_the_byte,
        Counter(tally.judged),
        [found_text(each) for each in found],
    )


def _quiet(_tally: Tally) -> None:
    """Say nothing of the progress."""


def run(batches: list[Batch], workers: int) -> Iterator[Totals]:
    """Yield the totals after each batch."""
    totals = Totals()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run_batch, batch) for batch in batches]):
            totals.add(done.result())
            yield totals


def main() -> None:
    """Draw and judge many cases; exits 1 if there is a violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--subject", default="kvzero")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--inside-limits", action="store_true")
    parser.add_argument("--regressions", type=Path, default=Path("regressions"))
    parsed = parser.parse_args()
    batches = [
        Batch(
            parsed.subject,
            batch_seed(parsed.seed, first),
            min(BATCH, parsed.cases - first),
            parsed.inside_limits,
            parsed.regressions,
        )
        for first in range(0, parsed.cases, BATCH)
    ]
    begin, totals = time.perf_counter(), Totals()
    for totals in run(batches, parsed.workers):
        sys.stdout.write(f"\r{totals.cases:,} cases")
        sys.stdout.flush()
    spent = time.perf_counter() - begin
    lines = ["", *totals.failures, *totals.lines()]
    lines.append(f"{spent:.0f} s, {totals.launches / spent:,.0f} launches a second")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.exit(int(bool(totals.failures)))


if __name__ == "__main__":
    main()
