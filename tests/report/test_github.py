"""Workflow commands that only say what they must, and a summary that GitHub takes."""

import re

import pytest
from hypothesis import given, settings

from kvzero.report.facts import KillMatrix, KillRow, KnownLine, Report
from kvzero.report.github import (
    MOST_ANNOTATIONS,
    MOST_SUMMARY_BYTES,
    annotation_lines,
    job_summary,
)
from tests.report.example_reports import (
    HOSTILE,
    SMALL,
    finding_of,
    report_of,
    reports,
    run_of,
)

COMMAND = re.compile(r"::(error|warning) (file=[^,:\r\n]+,)?title=[^,:\r\n]*::[^\r\n]*")


@settings(max_examples=60)
@given(reports())
def test_each_annotation_is_one_command_and_nothing_else(report: Report) -> None:
    lines = annotation_lines(report)
    assert all(COMMAND.fullmatch(line) for line in lines)
    assert all(line.isprintable() for line in lines)


@settings(max_examples=60)
@given(reports())
def test_a_red_run_is_annotated(report: Report) -> None:
    red = any(
        run.exit_code not in (0, 1) or any(f.is_failure for f in run.findings)
        for run in report.runs
    )
    errors = [e for e in annotation_lines(report) if e.startswith("::error")]
    assert errors or not red


def test_an_annotation_names_file_title_and_text() -> None:
    finding = finding_of(SMALL, "a:b,c%d")
    line = annotation_lines(report_of(run_of("mine", findings=(finding,))))[0]
    title = "mine%3A listed_pages_are_zero (fault%3A a%3Ab%2Cc%25d)"
    assert line.startswith(f"::error file=a%3Ab%2Cc%25d,title={title}::")
    assert "listed_pages_are_zero: a:b,c%25d%0A  where    a:b,c%25d%0A" in line


@pytest.mark.parametrize("file", ["/tmp/x.json", "../x.json", None])
def test_an_annotation_names_no_file_outside_the_checkout(file: str | None) -> None:
    finding = finding_of(SMALL)
    object.__setattr__(finding, "file", file)
    assert "file=" not in annotation_lines(report_of(run_of(findings=(finding,))))[0]


def test_costs_warn_and_stale_findings_are_errors() -> None:
    run = run_of(
        findings=(finding_of(SMALL, "dear", "cost"),),
        known=(KnownLine("promises_hold", "entry 1", is_stale=True),),
    )
    levels = [line.split()[0] for line in annotation_lines(report_of(run))]
    assert levels == ["::error", "::warning"]


def test_annotations_beyond_what_github_shows_are_counted() -> None:
    findings = tuple(finding_of(SMALL, f"kind-{n}") for n in range(25))
    lines = annotation_lines(report_of(run_of(findings=findings)))
    assert len(lines) == MOST_ANNOTATIONS
    assert lines[-1] == (
        "::error title=kvzero::16 more annotations: see the job's summary"
    )


def test_annotations_name_survivors_of_the_kill_matrix() -> None:
    row = KillRow("b", "planner", "kind", "p: w", "SURVIVED", False, 9, 0.5, None, None)
    report = report_of(matrix=KillMatrix((row,), (0,), 1.0))
    assert annotation_lines(report) == [
        "::error title=kvzero faults%3A b survived::must break p: w"
    ]
    assert "0 of 1 fault killed" in job_summary(report)


@pytest.mark.parametrize("text", HOSTILE)
def test_the_job_summary_shows_hostile_text_as_text(text: str) -> None:
    run = run_of(text, findings=(finding_of(SMALL, text),))
    summary = job_summary(report_of(run, command=text))
    outside, fence = [], ""
    for line in summary.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line.removesuffix("text")
        else:
            outside.append(line)
    assert not fence
    tags = set(re.findall(r"<[^>]*>", "\n".join(outside)))
    assert tags <= {"<details>", "</details>", "<summary>", "</summary>", "<b>", "</b>"}


def test_the_job_summary_stays_below_what_github_takes() -> None:
    findings = tuple(finding_of(SMALL, f"{n} " + "x" * 60_000) for n in range(8))
    summary = job_summary(report_of(run_of(findings=findings)))
    assert len(summary.encode()) <= MOST_SUMMARY_BYTES + 100
    assert re.search(r"\d more parts?: see the report\n$", summary)


def test_the_job_summary_fences_texts_that_hold_fences() -> None:
    finding = finding_of(SMALL, "a\n`````\n# b")
    summary = job_summary(report_of(run_of(findings=(finding,))))
    lines = summary.splitlines()
    assert "``````text" in lines
    assert lines.count("``````") == 1
