"""The end of a run: what is saved, and what is said of it as data."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvzero.campaign.confirming import Confirmed
from kvzero.campaign.coverage import Coverage, total_features
from kvzero.campaign.known import Known
from kvzero.campaign.pace import Pace
from kvzero.campaign.tally import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    VERDICTS,
    Found,
    Tally,
)
from kvzero.casefile import Finding, case_file_name, write_case_file
from kvzero.report.facts import Sample
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
        known: The subject's known findings, and whether they still fail.
        pace: How fast a fuzzing run was.
        coverage: What a campaign's cases had in them, else None.
        samples: How the run went on over time.
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
    known: tuple[Confirmed, ...] = ()
    pace: Pace | None = None
    coverage: Coverage | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def stale(self) -> list[Confirmed]:
        """Return the known findings that no longer fail."""
        return [each for each in self.known if each.state == "no longer fails"]

    @property
    def exit_code(self) -> int:
        """Return the exit code of the run."""
        if self.stale:
            return EXIT_FAULT
        code = self.tally.exit_code(strict_cost=self.strict_cost)
        return EXIT_INTERRUPTED if self.interrupted and code != EXIT_FAULT else code

    @property
    def verdict(self) -> str:
        """Return the word of the verdict."""
        if self.stale and not any(v.violation.kind != "cost" for v in self.found):
            return "known finding no longer fails"
        if self.exit_code == EXIT_OK and any(
            f.known for f in self.tally.found.values()
        ):
            return "no new fault found"
        return VERDICTS[self.exit_code]

    @property
    def found(self) -> list[Found]:
        """Return the distinct violations, faults first, the most frequent first.

        Known findings are not among them.
        """
        order = ("fault", "refusal", "cost")
        return sorted(
            (found for found in self.tally.found.values() if found.known is None),
            key=lambda f: (order.index(f.violation.kind), -f.count),
        )

    def times_seen(self, known: Known) -> int:
        """Return in how many cases of the run a known finding showed."""
        return sum(f.count for f in self.tally.found.values() if f.known == known)

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the result as plain data."""
        tally = self.tally
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "subject": self.subject,
            "executor": self.executor,
            "workers": self.workers,
            "seed": self.seed,
            "cases": tally.cases,
            "launches": tally.launches,
            "programs": tally.programs,
            "idle_programs": tally.idle_programs,
            "narrowest_store_bytes": tally.narrowest_store_bytes,
            "judged": dict(sorted(tally.judged.items())),
            "not_judged": [
                {"property": name, "reason": reason, "n": n}
                for (name, reason), n in sorted(tally.not_judged.items())
            ],
            "violations": [_found_json(found) for found in self.found],
            "known": [
                {
                    **asdict(each.known),
                    "case": str(each.known.case),
                    "state": each.state,
                    "n": self.times_seen(each.known),
                }
                for each in self.known
            ],
            "environments": [
                {"executor": executor, "semantics": semantics, "versions": text, "n": n}
                for (executor, semantics, text), n in tally.environments.items()
            ],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
            "speed": self.pace.as_json() if self.pace else None,
            "features": _features_json(self.coverage) if self.coverage else None,
        }


def _features_json(coverage: Coverage) -> dict[str, Any]:  # Any: a JSON document
    return {
        "met": coverage.features,
        "of": total_features(),
        "pairs": coverage.num_pairs,
        "names": coverage.names,
        "nearest_limits": dict(coverage.nearest),
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
