"""A report as JUnit XML, which every CI shows: one test case a property and subject.

What is broken fails, what was not judged at all is skipped with its reason, and a run
that judged nothing is an error: a CI must not show it green.
"""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from kvzero.properties.registry import PROPERTIES
from kvzero.properties.wording import counted
from kvzero.report.facts import (
    KillMatrix,
    KillRow,
    Report,
    ReportedFinding,
    SubjectRun,
)
from kvzero.report.visible import one_line, visible

EXIT_OK, EXIT_FAULT = 0, 1
VERDICT = "the_run_has_a_verdict"
"""The test case of a run as a whole."""
_COUNTED = ("failure", "error", "skipped")


def junit_xml(report: Report) -> str:
    """Return a report as a JUnit document."""
    root = Element("testsuites", name=one_line(f"kvzero {report.verb}"))
    suites = [_run_suite(report, run) for run in report.runs]
    if report.matrix is not None:
        suites.append(_matrix_suite(report, report.matrix))
    root.extend(suites)
    for attribute in ("tests", "failures", "errors", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, 0)) for suite in suites)))
    root.set("time", f"{sum(float(suite.get('time', 0)) for suite in suites):.3f}")
    indent(root)
    text = tostring(root, "unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _run_suite(report: Report, run: SubjectRun) -> Element:
    properties = {
        "command": report.command,
        "executor": run.executor,
        "verdict": run.verdict,
        **({} if run.seed is None else {"seed": f"{run.seed}"}),
    }
    suite = _suite(report, run.subject, run.seconds, properties)
    names = dict.fromkeys([*PROPERTIES, *run.judged, *_named(run)])
    for name in names:
        suite.append(_property_case(run, name))
    suite.append(_verdict_case(run))
    return _with_counts(suite)


def _named(run: SubjectRun) -> Iterator[str]:
    """Yield properties that a run names, whatever this version knows."""
    yield from (finding.violation.property for finding in run.findings)
    yield from (each.property for each in run.not_judged)


def _suite(
    report: Report, name: str, seconds: float, properties: dict[str, str]
) -> Element:
    suite = Element("testsuite", name=one_line(name), time=f"{seconds:.3f}")
    suite.set("timestamp", report.finished[:19])
    told = SubElement(suite, "properties")
    for key, value in {**report.machine, **properties}.items():
        SubElement(told, "property", name=one_line(key), value=one_line(value))
    return suite


def _with_counts(suite: Element) -> Element:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for plural, singular in zip(("failures", "errors", "skipped"), _COUNTED):
        held = sum(case.find(singular) is not None for case in cases)
        suite.set(plural, str(held))
    return suite


def _case(group: str, name: str, seconds: float = 0.0) -> Element:
    return Element(
        "testcase",
        classname=one_line(f"kvzero.{group}"),
        name=one_line(name),
        time=f"{seconds:.3f}",
    )


def _property_case(run: SubjectRun, name: str) -> Element:
    case = _case(run.subject, name)
    broken = [each for each in run.findings if each.violation.property == name]
    failing = [each for each in broken if each.is_failure]
    stale = [each for each in run.known if each.property == name and each.is_stale]
    reasons = [
        f"not judged in {counted(each.cases, 'case')}: {each.reason}"
        for each in run.not_judged
        if each.property == name
    ]
    count = run.judged.get(name, 0)
    if failing:
        _add(case, "failure", _message(failing), _texts(failing), failing[0].kind_word)
    elif stale:
        message = "a known finding no longer fails"
        _add(case, "failure", message, "\n".join(s.text for s in stale), "stale")
    elif not count:
        message = "; ".join(reasons) or "no case judged it"
        _add(case, "skipped", message)
    told = [f"judged in {counted(count, 'case')}", *reasons]
    told += [each.text for each in broken if not each.is_failure]
    told += [each.text for each in run.known if each.property == name]
    SubElement(case, "system-out").text = visible("\n".join(told))
    return case


def _message(failing: list[ReportedFinding]) -> str:
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    return failing[0].violation.headline + more


def _texts(failing: list[ReportedFinding]) -> str:
    return "\n\n".join(finding.text for finding in failing)


def _add(
    case: Element, what: str, message: str, text: str = "", kind: str | None = None
) -> None:
    made = SubElement(case, what, message=one_line(message))
    if kind is not None:
        made.set("type", one_line(kind))
    made.text = visible(text) or None


def _verdict_case(run: SubjectRun) -> Element:
    """Return the test case of the run: an error where it ended with no verdict."""
    case = _case(run.subject, VERDICT, run.seconds)
    if run.exit_code not in (EXIT_OK, EXIT_FAULT):
        message = f"{run.verdict} (exit code {run.exit_code})"
        _add(case, "error", message, "\n".join(run.notes), run.verdict)
    told = [
        run.verdict,
        f"{run.cases:,} cases, {run.launches:,} launches, {run.programs:,} programs",
        *run.notes,
    ]
    SubElement(case, "system-out").text = visible("\n".join(told))
    return case


def _matrix_suite(report: Report, matrix: KillMatrix) -> Element:
    seeds = " ".join(map(str, matrix.seeds))
    suite = _suite(report, "kill matrix", matrix.seconds, {"seeds": seeds})
    suite.extend(_kill_case(row) for row in matrix.rows)
    return _with_counts(suite)


def _kill_case(row: KillRow) -> Element:
    case = _case("faults", row.fault, row.seconds)
    if row.is_killed is None:
        _add(case, "skipped", row.verdict)
    elif not row.is_killed:
        message = f"{row.fault} was not caught by {row.breaks}"
        _add(case, "failure", message, f"{message}: {row.cases:,} cases", "survived")
    return case
