"""A report for GitHub Actions: annotations on a pull request, and the job's summary.

Annotations are lines that the runner reads from a job's output; what they hold is
escaped, so that no name under test can speak to the runner.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

from kvzero.properties.wording import counted
from kvzero.report.facts import KillMatrix, Report, ReportedFinding, SubjectRun
from kvzero.report.visible import one_line, visible

MOST_ANNOTATIONS = 10
"""GitHub shows ten of a kind a step, so the last one counts the rest."""
MOST_SUMMARY_BYTES = 2**20 - 2**14
"""GitHub refuses a summary of over 1 MiB as a whole."""
_FENCES = re.compile(r"`{3,}")


def annotation_lines(report: Report) -> list[str]:
    """Return a report as workflow commands, a line an item."""
    found = [*_run_annotations(report), *_matrix_annotations(report)]
    return [
        line
        for level in ("error", "warning")
        for line in _capped(level, [line for kind, line in found if kind == level])
    ]


def _run_annotations(report: Report) -> Iterator[tuple[str, str]]:
    for run in report.runs:
        for finding in run.findings:
            yield _finding_annotation(run, finding)
        for each in run.known:
            if each.is_stale:
                title = f"{run.subject}: known finding no longer fails"
                yield "error", _annotation("error", title, each.text)
        if run.exit_code not in (0, 1):
            text = f"{run.verdict} (exit code {run.exit_code})"
            yield "error", _annotation("error", f"kvzero: {run.subject}", text)


def _matrix_annotations(report: Report) -> Iterator[tuple[str, str]]:
    for row in report.matrix.rows if report.matrix else ():
        if row.is_killed is False:
            title = f"kvzero faults: {row.fault} survived"
            yield "error", _annotation("error", title, f"must break {row.breaks}")


def _finding_annotation(run: SubjectRun, finding: ReportedFinding) -> tuple[str, str]:
    level = "error" if finding.is_failure else "warning"
    title = f"{run.subject}: {finding.violation.property} ({finding.kind_word})"
    return level, _annotation(level, title, finding.text, finding.file)


def _annotation(level: str, title: str, text: str, file: str | None = None) -> str:
    """Return a workflow command; a file is named only where GitHub can show it."""
    parameters = [f"title={_parameter(title)}"]
    if file and _is_inside(file):
        parameters.insert(0, f"file={_parameter(file)}")
    return f"::{level} {','.join(parameters)}::{_message(text)}"


def _is_inside(file: str) -> bool:
    path = PurePath(file)
    return not path.is_absolute() and ".." not in path.parts


def _message(text: str) -> str:
    return "%0A".join(one_line(line).replace("%", "%25") for line in text.split("\n"))


def _parameter(text: str) -> str:
    escaped = one_line(text).replace("%", "%25")
    return escaped.replace(":", "%3A").replace(",", "%2C")


def _capped(level: str, lines: list[str]) -> list[str]:
    if len(lines) <= MOST_ANNOTATIONS:
        return lines
    more = len(lines) - MOST_ANNOTATIONS + 1
    told = f"{counted(more, 'more annotation')}: see the job's summary"
    return [*lines[: MOST_ANNOTATIONS - 1], _annotation(level, "kvzero", told)]


def job_summary(report: Report) -> str:
    """Return a report as Markdown for the page of a job, short enough for GitHub."""
    parts = [f"## kvzero {_cell(report.verb)}\n\n{_fenced(report.command)}"]
    if report.runs:
        parts.append(_runs_table(report))
    parts += [
        _finding_part(run, finding) for run in report.runs for finding in run.findings
    ]
    if report.matrix is not None:
        parts.append(_matrix_part(report.matrix))
    return _within(parts, MOST_SUMMARY_BYTES)


def _within(parts: list[str], most_bytes: int) -> str:
    """Return as many parts as there is room for, and how many were left out."""
    text = ""
    for index, part in enumerate(parts):
        if len((text + part).encode()) > most_bytes:
            return f"{text}{counted(len(parts) - index, 'more part')}: see the report\n"
        text += f"{part}\n"
    return text


def _runs_table(report: Report) -> str:
    rows = [
        (
            run.subject,
            run.verdict,
            f"{len(run.findings)}",
            f"{run.cases:,}",
            f"{run.launches:,}",
            f"{run.seconds:.1f} s",
            _unjudged_text(run),
        )
        for run in report.runs
    ]
    columns = (
        "subject",
        "verdict",
        "findings",
        "cases",
        "launches",
        "time",
        "not judged",
    )
    return _table(columns, rows)


def _unjudged_text(run: SubjectRun) -> str:
    names = {each.property for each in run.not_judged} - set(run.judged)
    return ", ".join(sorted(names)) or "nothing"


def _finding_part(run: SubjectRun, finding: ReportedFinding) -> str:
    headline = _cell(f"{run.subject}: {finding.violation.headline}")
    kind = _cell(finding.kind_word)
    return (
        f"<details><summary><b>{kind}</b>: {headline}</summary>\n\n"
        f"{_fenced(finding.text)}\n</details>\n"
    )


def _matrix_part(matrix: KillMatrix) -> str:
    judged = [row for row in matrix.rows if row.is_killed is not None]
    killed = sum(bool(row.is_killed) for row in judged)
    rows = [
        (row.fault, row.verdict, row.breaks, f"{row.cases:,}", f"{row.seconds:.1f} s")
        for row in matrix.rows
    ]
    table = _table(("fault", "verdict", "must break", "cases", "time"), rows)
    return f"{killed} of {counted(len(judged), 'fault')} killed.\n\n{table}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [tuple(columns), ("---",) * len(columns)]
    lines += [tuple(map(_cell, row)) for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>()#+!|&~$@:.-]")


def _cell(text: str) -> str:
    """Return a text of which Markdown makes nothing else, in one line."""
    return _MARKDOWN.sub(lambda found: f"&#{ord(found[0])};", one_line(text))


def _fenced(text: str) -> str:
    """Return a text in a fence that it cannot leave."""
    longest = max((len(fence) for fence in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}text\n{visible(text)}\n{fence}\n"
