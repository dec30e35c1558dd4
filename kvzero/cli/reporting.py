"""``--report``: the results of a verb as files for people and for CI.

The one place that knows both what a run leaves and what a report says.
"""

import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TextIO

import typer

from kvzero.campaign.confirming import Confirmed
from kvzero.campaign.coverage import LIMITED, Coverage
from kvzero.campaign.faults import Matrix, Row
from kvzero.campaign.outcome import RunResult
from kvzero.campaign.pace import Pace
from kvzero.campaign.tally import Found
from kvzero.errors import ReportError
from kvzero.properties.wording import counted, launch_text
from kvzero.report.doctor import machine_facts
from kvzero.report.facts import (
    FeatureCoverage,
    JudgedBy,
    KillMatrix,
    KillRow,
    KnownLine,
    Nearness,
    Report,
    ReportedFinding,
    Speed,
    SubjectRun,
    Unjudged,
)
from kvzero.report.files import FILES, write_files
from kvzero.report.github import annotation_lines, job_summary
from kvzero.strategies.features import FEATURE_GROUPS

FORMS = (*FILES, "github")
DEFAULT_FOLDER = Path("kvzero-report")
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"


def parse_forms(text: str | None) -> tuple[str, ...]:
    """Return the forms that a comma-separated list names, each once.

    Raises:
        typer.BadParameter: One of them is not known.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name not in FORMS:
            raise typer.BadParameter(
                f"report={name!r}, but must be some of {', '.join(FORMS)}"
            )
    return tuple(dict.fromkeys(names))


def _checked(text: str | None) -> str | None:
    parse_forms(text)
    return text


ReportOption = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FORMS",
        callback=_checked,
        help="Write the results as html, junit, json or github, or several: html,junit "
        "(github: annotations in the output, and the job's summary).",
    ),
]
ReportDirOption = Annotated[
    Path, typer.Option("--report-dir", help="Where --report writes files.")
]


@dataclass(frozen=True)
class Reporting:
    """What a command was asked to report.

    Attributes:
        verb: The verb that runs.
        forms: Forms of `FORMS`.
        folder: Where files go.
    """

    verb: str
    forms: tuple[str, ...]
    folder: Path

    @classmethod
    def asked(cls, verb: str, forms: str | None, folder: Path) -> "Reporting":
        """Return what options ask for; a folder that cannot be is known at once.

        Raises:
            ReportError: The folder cannot be made or written to.
        """
        made = cls(verb, parse_forms(forms), folder)
        if set(made.forms) & set(FILES):
            _check_folder(folder)
        return made

    def of_results(
        self, results: Sequence[RunResult], exit_code: int, *, as_json: bool
    ) -> None:
        """Report runs of subjects; annotations leave a JSON document alone."""
        if self.forms:
            runs = tuple(_subject_run(result) for result in results)
            documents = tuple(result.as_json() for result in results)
            self._write(self._report(exit_code, documents, runs=runs), as_json=as_json)

    def of_matrix(self, matrix: Matrix, *, as_json: bool) -> None:
        """Report the kill matrix."""
        if self.forms:
            rows = tuple(_kill_row(row) for row in matrix.rows)
            told = KillMatrix(rows, matrix.seeds, matrix.seconds)
            report = self._report(
                matrix.exit_code, (matrix.as_json(),), kill_matrix=told
            )
            self._write(report, as_json=as_json)

    def _report(
        self,
        exit_code: int,
        documents: tuple[dict[str, object], ...],
        runs: tuple[SubjectRun, ...] = (),
        kill_matrix: KillMatrix | None = None,
    ) -> Report:
        return Report(
            self.verb,
            shlex.join(["kvzero", *sys.argv[1:]]),
            exit_code,
            datetime.now(UTC).isoformat(timespec="seconds"),
            machine_facts() | {"host": platform.node()},
            runs,
            kill_matrix,
            documents,
        )

    def _write(self, report: Report, *, as_json: bool) -> None:
        for path in write_files(report, self.forms, self.folder):
            sys.stderr.write(f"report: {path}\n")
        if "github" in self.forms:
            # The runner reads both; a JSON document must stay one.
            _annotate(report, sys.stderr if as_json else sys.stdout)


def _check_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
        raise ReportError(f"report-dir={folder} cannot be made: {reason}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ReportError(f"report-dir={folder}, but must be a folder to write to")


def _annotate(report: Report, stream: TextIO) -> None:
    stream.writelines(f"{line}\n" for line in annotation_lines(report))
    stream.flush()
    summary = os.environ.get(SUMMARY_VARIABLE)
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(job_summary(report))
        except OSError as error:
            reason = f"{SUMMARY_VARIABLE}={summary} cannot be written"
            raise ReportError(f"{reason}: {error.strerror}") from error


def _subject_run(result: RunResult) -> SubjectRun:
    """Return a run as a report tells it."""
    tally = result.tally
    return SubjectRun(
        subject=result.subject,
        executor=result.executor,
        verdict=result.verdict,
        exit_code=result.exit_code,
        seconds=result.seconds,
        cases=tally.cases,
        launches=tally.launches,
        programs=tally.programs,
        judged=dict(sorted(tally.judged.items())),
        not_judged=tuple(
            Unjudged(name, reason, cases)
            for (name, reason), cases in sorted(tally.not_judged.items())
        ),
        findings=tuple(_finding(result, found) for found in result.found),
        known=tuple(_known_line(result, each) for each in result.known),
        judged_by=tuple(
            JudgedBy(*named, cases) for named, cases in tally.environments.items()
        ),
        seed=result.seed,
        workers=result.workers,
        largest=launch_text(tally.largest) if tally.largest else "",
        coverage=_coverage(result.coverage) if result.coverage else None,
        samples=result.samples,
        speed=_speed(result.pace) if result.pace else None,
        notes=result.notes,
    )


def _finding(result: RunResult, found: Found) -> ReportedFinding:
    return ReportedFinding(
        violation=found.violation,
        case=found.judged.case,
        observation=found.judged.observation,
        count=found.count,
        is_failure=found.violation.kind != "cost" or result.strict_cost,
        flaky=found.flaky,
        file=found.file,
        replay=found.replay,
    )


def _known_line(result: RunResult, each: Confirmed) -> KnownLine:
    known = each.known
    if each.state == "no longer fails":
        return KnownLine(known.property, each.line, is_stale=True)
    told = f"{known.kind}: {known.what}"
    if each.state == "not judged":
        return KnownLine(known.property, f"{told}: not judged here ({each.why})")
    seen = counted(result.times_seen(known), "case")
    return KnownLine(known.property, f"{told}: seen in {seen} ({known.reason})")


def _coverage(coverage: Coverage) -> FeatureCoverage:
    nearest = tuple(
        Nearness(name, coverage.nearest.get(name, 0), most.bit_length())
        for name, most in LIMITED.items()
    )
    groups = {name: tuple(table) for name, table in FEATURE_GROUPS.items()}
    return FeatureCoverage(groups, coverage.together, nearest)


def _speed(pace: Pace) -> Speed:
    return Speed(
        pace.per_second,
        pace.per_second_of_checking,
        pace.checking_seconds,
        pace.drawing_seconds,
    )


def _kill_row(row: Row) -> KillRow:
    fault, told = row.fault, row.as_json()
    return KillRow(
        fault=fault.name,
        area=fault.area,
        kind=fault.kind,
        breaks=f"{fault.breaks}: {fault.what}",
        verdict=row.verdict,
        is_killed=row.killed if row.kills else None,
        cases=told["cases"],
        seconds=told["seconds"],
        runs=told["runs"],
        blocks=told["blocks"],
    )
