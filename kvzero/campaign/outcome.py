"""The end of a run: what is saved, and what is said of it as data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvzero.campaign.tally import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    VERDICTS,
    Found,
    Tally,
)
from kvzero.casefile import Finding, case_file_name, write_case_file
from kvzero.report.text import failure_text


@dataclass(frozen=True)
class RunResult:
    """One subject's run.

    Attributes:
        subject: Its name.
        executor: The executor that was asked for.
        tally: What was judged.
        seconds: Wall-clock time.
        strict_cost: A cost counts as a failure.
        seed: Seed of a fuzzing run, else None.
        notes: What a reader of the verdict must know besides.
        interrupted: Somebody stopped it.
    """

    subject: str
    executor: str
    tally: Tally
    seconds: float
    strict_cost: bool = False
    seed: int | None = None
    workers: int = 1
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """Return the exit code of the run."""
        code = self.tally.exit_code(strict_cost=self.strict_cost)
        return EXIT_INTERRUPTED if self.interrupted and code != EXIT_FAULT else code

    @property
    def found(self) -> list[Found]:
        """Return the distinct violations, faults first, the most frequent first."""
        order = ("fault", "refusal", "cost")
        return sorted(
            self.tally.found.values(),
            key=lambda f: (order.index(f.violation.kind), -f.count),
        )

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the result as plain data."""
        tally = self.tally
        return {
            "verdict": VERDICTS[self.exit_code],
            "exit_code": self.exit_code,
            "subject": self.subject,
            "executor": self.executor,
            "workers": self.workers,
            "seed": self.seed,
            "cases": tally.cases,
            "launches": tally.launches,
            "programs": tally.programs,
            "judged": dict(sorted(tally.judged.items())),
            "not_judged": [
                {"property": name, "reason": reason, "n": n}
                for (name, reason), n in sorted(tally.not_judged.items())
            ],
            "violations": [_found_json(found) for found in self.found],
            "environments": [
                {"executor": executor, "semantics": semantics, "versions": text, "n": n}
                for (executor, semantics, text), n in tally.environments.items()
            ],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def _found_json(found: Found) -> dict[str, Any]:  # Any: a JSON document
    violation = found.violation
    return {
        "property": violation.property,
        "kind": violation.kind,
        "what": violation.what,
        "place": violation.place,
        "headline": violation.headline,
        "n": found.count,
        "flaky": found.flaky,
        "file": found.file,
        "runs": len(found.judged.case.layout.runs),
        "blocks": found.judged.case.layout.num_blocks,
        "text": found_text(found),
    }


def found_text(found: Found) -> str:
    """Return the located explanation of a violation that was found."""
    return failure_text(found.violation, found.judged.observation, found.replay)


def save_found(found: Found, folder: Path) -> None:
    """Save the case of a violation, under a name derived from its content."""
    violation, seen = found.violation, found.judged.observation
    name = case_file_name(found.judged.case, violation.what)
    path = folder / violation.property / name
    path.parent.mkdir(parents=True, exist_ok=True)
    record = Finding(
        property=violation.property,
        kind=violation.kind,
        what=violation.what,
        subject=seen.subject,
        executor=seen.executor,
        flaky=found.flaky,
        failure=violation.lines()[0],
    )
    write_case_file(path, found.judged.case, record)
    found.file = str(path)
    found.replay = f"kvzero replay {path}"
