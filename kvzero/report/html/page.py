"""The whole page: head, summary, findings, and the sections that follow."""

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from kvzero.properties.wording import counted
from kvzero.report.facts import Report, ReportedFinding
from kvzero.report.html.coverage import coverage_section
from kvzero.report.html.elements import command, document_text, el, heading
from kvzero.report.html.findings import finding_section
from kvzero.report.html.sections import (
    environment_section,
    judged_section,
    known_section,
    matrix_section,
    run_summary,
    speed_section,
)
from kvzero.report.html.style import content_policy, style_sheet

MOST_FINDINGS = 50
"""Findings that get a section of their own."""


def html_page(report: Report) -> str:
    """Return a report as one HTML document that needs nothing else."""
    title = f"kvzero {report.verb}: {verdict_text(report)}"
    content = list(_content(report))
    body = el("body", _top(report, content), el("main", content), _footer(report))
    return document_text(el("html", _head(title), body, lang="en"))


def verdict_text(report: Report) -> str:
    """Return what came of it, in a few words."""
    runs = report.runs
    if len(runs) == 1:
        return f"{runs[0].verdict}; {counted(len(runs[0].findings), 'finding')}"
    if runs:
        return _verdict_of_several([run.exit_code for run in runs])
    rows = report.matrix.rows if report.matrix else ()
    judged = [row for row in rows if row.is_killed is not None]
    survived = sum(not row.is_killed for row in judged)
    return f"{survived or 'none'} of {counted(len(judged), 'fault')} survived"


def _verdict_of_several(exit_codes: Sequence[int]) -> str:
    """Return what came of runs of several subjects."""
    broken = sum(code == 1 for code in exit_codes)
    open_ = sum(code > 1 for code in exit_codes)
    told = f"{broken or 'none'} of {len(exit_codes)} subjects with a fault"
    return f"{told}, {open_} not judged" if open_ else told


def _end_text(report: Report) -> str:
    moment = report.finished.replace("T", " ").replace("+00:00", " UTC")
    return f"exit code {report.exit_code}, finished {moment}"


def _head(title: str) -> Element:
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=content_policy()),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("style", style_sheet()),
    )


def _top(report: Report, content: list[Element]) -> Element:
    targets = [each for each in content if each.tag == "h2"]
    links = [
        el("li", el("a", each.text, href=f"#{each.get('id')}")) for each in targets
    ]
    return el(
        "header",
        heading(1, f"kvzero {report.verb}: {verdict_text(report)}"),
        el("p", _end_text(report)),
        command(report.command),
        el("nav", el("ul", links), aria_label="Sections"),
        class_="top",
    )


def _content(report: Report) -> Iterator[Element]:
    if report.runs:
        yield heading(2, "Summary", "summary")
        yield from map(run_summary, report.runs)
        yield from _findings(report)
    yield from matrix_section(report.matrix)
    if report.runs:
        yield from known_section(report.runs)
        yield from judged_section(report.runs)
        yield from coverage_section(report.runs)
        yield from speed_section(report.runs)
    yield from environment_section(report)


def _findings(report: Report) -> Iterator[Element]:
    yield heading(2, "Findings", "findings")
    runs = report.runs
    found = [(run, each) for run in runs for each in run.findings]
    if not found:
        yield el("p", "No violation was found.", class_="card")
    if len(found) > 1:
        subjects = [f"{run.subject}: " if len(runs) > 1 else "" for run, _ in found]
        entries = [
            _entry(number, subject, each)
            for number, (subject, (_, each)) in enumerate(zip(subjects, found), 1)
        ]
        yield el("ol", entries, class_="card contents")
    shown = [each for _, each in found[:MOST_FINDINGS]]
    for number, each in enumerate(shown, 1):
        yield finding_section(each, number, _drawn_at(each, shown[: number - 1]))
    hidden = len(found) - MOST_FINDINGS
    if hidden > 0:
        yield el("p", f"and {counted(hidden, 'more finding')}: see report.json")


def _entry(number: int, subject: str, finding: ReportedFinding) -> Element:
    """Return a finding's entry in the list of all, in as few words as tell it apart."""
    violation = finding.violation
    name = f"{subject}{violation.property}: {violation.what}"
    place = f", at {violation.place}" if violation.place else ""
    seen = f" seen in {counted(finding.count, 'case')}{place}"
    return el(
        "li",
        el("span", violation.kind, class_=f"badge {violation.kind}"),
        _link(number, name),
        el("span", seen, class_="muted"),
    )


def _drawn_at(
    finding: ReportedFinding, before: Sequence[ReportedFinding]
) -> int | None:
    """Return the number of the finding that shows the same case, if there is one."""
    seen = finding.case, finding.observation
    same = (at for at, f in enumerate(before, 1) if (f.case, f.observation) == seen)
    return next(same, None)


def _link(number: int, text: str) -> Element | str:
    return el("a", text, href=f"#finding-{number}") if number <= MOST_FINDINGS else text


def _footer(report: Report) -> Element:
    version = report.machine.get("kvzero", "")
    text = (
        f"Written by kvzero {version}. This file makes no request and runs no script."
    )
    return el("footer", el("p", text))
