"""JUnit as CIs read it: counts that add up, and never green without a judgement."""

from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given, settings

from kvzero.properties.registry import PROPERTIES
from kvzero.report.facts import KillMatrix, KillRow, KnownLine, Report, Unjudged
from kvzero.report.junit import VERDICT, junit_xml
from tests.report.example_reports import (
    HOSTILE,
    SMALL,
    finding_of,
    report_of,
    reports,
    run_of,
)

ORDER = ("skipped", "error", "failure", "system-out")
"""Children of a test case, in the order that schemas of JUnit demand."""


def case_of(root: Element, name: str) -> Element:
    return next(case for case in root.iter("testcase") if case.get("name") == name)


@settings(max_examples=50)
@given(reports())
def test_junit_xml_is_what_its_schema_says(report: Report) -> None:
    root = fromstring(junit_xml(report).encode())
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        assert {"name", "tests", "failures", "errors", "skipped", "time"} <= set(
            suite.keys()
        )
        assert [child.tag for child in suite][:1] == ["properties"]
        cases = suite.findall("testcase")
        assert len(cases) + 1 == len(suite)
        for case in cases:
            assert {"name", "classname", "time"} == set(case.keys())
            places = [ORDER.index(child.tag) for child in case]
            assert places == sorted(set(places))
            ends = [c for c in case if c.tag != "system-out"]
            assert len(ends) <= 1
            assert all("message" in end.keys() for end in ends)  # noqa: SIM118 - no dict
        names = [case.get("name") for case in cases]
        assert len(names) == len(set(names)) or report.matrix is not None


@settings(max_examples=50)
@given(reports())
def test_junit_counts_add_up(report: Report) -> None:
    root = fromstring(junit_xml(report).encode())
    pairs = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    for plural, singular in pairs:
        assert int(root.get(plural, "")) == len(list(root.iter(singular)))
        assert int(root.get(plural, "")) == sum(int(s.get(plural, "")) for s in root)
    assert int(root.get("tests", "")) == len(list(root.iter("testcase")))


@settings(max_examples=50)
@given(reports())
def test_junit_is_red_whenever_a_run_is(report: Report) -> None:
    for run, suite in zip(report.runs, fromstring(junit_xml(report).encode())):
        red = int(suite.get("failures", "")) + int(suite.get("errors", ""))
        failing = any(finding.is_failure for finding in run.findings)
        if failing or run.exit_code not in (0, 1):
            assert red


def test_junit_has_one_test_case_a_property_and_one_for_the_run() -> None:
    root = fromstring(junit_xml(report_of(run_of())).encode())
    names = [case.get("name") for case in root.iter("testcase")]
    assert names == [*PROPERTIES, VERDICT]
    assert {case.get("classname") for case in root.iter("testcase")} == {"kvzero.fake"}


def test_junit_tells_failures_with_their_text() -> None:
    findings = (finding_of(SMALL, "odd"), finding_of(SMALL, "even"))
    root = fromstring(junit_xml(report_of(run_of(findings=findings))).encode())
    failure = case_of(root, "listed_pages_are_zero").find("failure")
    assert failure is not None
    assert failure.get("message") == "listed_pages_are_zero: odd (and 1 more)"
    assert failure.get("type") == "fault: odd"
    assert "replay   kvzero replay even" in (failure.text or "")


def test_junit_tells_a_cost_that_does_not_count_without_failing() -> None:
    run = run_of(findings=(finding_of(SMALL, "dear", "cost"),))
    case = case_of(
        fromstring(junit_xml(report_of(run)).encode()), "listed_pages_are_zero"
    )
    assert case.find("failure") is None
    assert "dear" in (case.findtext("system-out") or "")


def test_junit_skips_what_was_not_judged_with_the_reason() -> None:
    run = run_of(not_judged=(Unjudged("results_are_defined", "no launch", 2),))
    root = fromstring(junit_xml(report_of(run)).encode())
    skipped = case_of(root, "results_are_defined").find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "not judged in 2 cases: no launch"
    assert case_of(root, "promises_hold").find("skipped") is None


@pytest.mark.parametrize("code", [5, 130])
def test_junit_of_a_run_without_a_verdict_is_an_error(code: int) -> None:
    run = run_of(exit_code=code, verdict="nothing judged", judged={})
    root = fromstring(junit_xml(report_of(run)).encode())
    error = case_of(root, VERDICT).find("error")
    assert error is not None
    assert error.get("message") == f"nothing judged (exit code {code})"


def test_junit_fails_on_a_stale_known_finding() -> None:
    run = run_of(known=(KnownLine("promises_hold", "entry 1", is_stale=True),))
    case = case_of(fromstring(junit_xml(report_of(run)).encode()), "promises_hold")
    assert (case.findtext("failure") or "") == "entry 1"


def test_junit_tells_the_kill_matrix() -> None:
    rows = [
        KillRow("a", "planner", "kind", "p: w", "killed", True, 3, 0.5, 1, 2),
        KillRow("b", "planner", "kind", "p: w", "SURVIVED", False, 9, 0.5, None, None),
        KillRow("c", "ids", "kind", "p: w", "needs a GPU", None, 0, 0.0, None, None),
    ]
    report = report_of(matrix=KillMatrix(tuple(rows), (0,), 1.0))
    root = fromstring(junit_xml(report).encode())
    assert [root.get(name) for name in ("tests", "failures", "skipped")] == [
        "3",
        "1",
        "1",
    ]
    failure = case_of(root, "b").find("failure")
    assert failure is not None
    assert failure.get("message") == "b was not caught by p: w"


@pytest.mark.parametrize("text", HOSTILE)
def test_junit_holds_hostile_text_as_text(text: str) -> None:
    run = run_of(text, findings=(finding_of(SMALL, text),))
    root = fromstring(junit_xml(report_of(run)).encode())
    assert {e.tag for e in root.iter()} <= {
        "testsuites",
        "testsuite",
        "properties",
        "property",
        "testcase",
        *ORDER,
    }
