"""The rest of a report: what was judged, how fast, by what, and the kill matrix."""

from collections import Counter
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from kvzero.properties.registry import PROPERTIES
from kvzero.properties.wording import counted
from kvzero.report.facts import KillMatrix, KillRow, Report, SubjectRun
from kvzero.report.html.elements import (
    Children,
    breakable,
    command,
    el,
    heading,
    table,
    terms,
)
from kvzero.report.html.plots import bar, launches_over_time

MOST_REASONS = 200


def verdict_badge(run: SubjectRun) -> Element:
    """Return a run's verdict, with a sign besides its colour."""
    kind, sign = {0: ("good", "✓"), 1: ("fault", "✗")}.get(run.exit_code, ("open", "?"))
    return el("span", f"{sign} {run.verdict}", class_=f"badge {kind}")


def run_summary(run: SubjectRun) -> Element:
    """Return the card of one subject's run."""
    figures = [
        ("cases", f"{run.cases:,}"),
        ("launches", f"{run.launches:,}"),
        ("programs", f"{run.programs:,}"),
        ("time", f"{run.seconds:,.1f} s"),
        ("findings", f"{len(run.findings):,}"),
    ]
    facts = [("executor", run.executor), ("exit code", f"{run.exit_code}")]
    if run.seed is not None:
        facts.append(("seed", f"{run.seed}"))
    if run.workers > 1:
        facts.append(("workers", f"{run.workers}"))
    if run.largest:
        facts.append(("largest launch", run.largest))
    title = heading(3, "")
    title.append(verdict_badge(run))
    title.append(el("span", run.subject))
    numbers = terms(figures)
    numbers.set("class", "figures")
    notes = [el("p", f"Note: {note}", class_="muted") for note in run.notes]
    return el("section", title, numbers, terms(facts), notes, class_="card")


def known_section(runs: tuple[SubjectRun, ...]) -> Iterator[Element]:
    """Yield the known findings, if there are any."""
    rows = [
        (run.subject, line.property, "STALE" if line.is_stale else "known", line.text)
        for run in runs
        for line in run.known
    ]
    if rows:
        yield heading(2, "Known findings", "known")
        columns = ("subject", "property", "state", "what is known")
        yield el("section", table(columns, rows, stacks=True), class_="card")


def judged_section(runs: tuple[SubjectRun, ...]) -> Iterator[Element]:
    """Yield how often each property was judged, and what was not judged and why."""
    yield heading(2, "What was judged", "judged")
    for run in runs:
        yield el("section", heading(3, run.subject), _judged(run), class_="card")
    yield heading(2, "What was not judged, and why", "not-judged")
    for run in runs:
        told = _not_judged(run)
        yield el("section", heading(3, run.subject), told, class_="card")


def _judged(run: SubjectRun) -> Element:
    names = [name for name in PROPERTIES if name in run.judged]
    names += sorted(set(run.judged) - set(PROPERTIES))
    if not names:
        return el("p", "Nothing was judged: this run says nothing about the subject.")
    rows = [_judged_row(run, name) for name in names]
    return table(("property", "result", "cases#", "share of all cases"), rows)


def _judged_row(run: SubjectRun, name: str) -> tuple[Children, ...]:
    broken = [each for each in run.findings if each.violation.property == name]
    kind, sign, text = "good", "✓", "holds"
    if broken:
        kind, sign = "cost", "!"
        text = counted(len(broken), "finding")
    if any(each.is_failure for each in broken):
        kind, sign = "fault", "✗"
    count = run.judged[name]
    result = f"{sign}\N{NO-BREAK SPACE}{text}"
    return breakable(name), result, f"{count:,}", bar(count, run.cases, kind)


def _not_judged(run: SubjectRun) -> Element:
    if not run.not_judged:
        return el("p", "Every property was judged in every case.")
    chosen = sorted(run.not_judged, key=lambda each: -each.cases)
    rows = [(each.property, f"{each.cases:,}", each.reason) for each in chosen]
    columns = ("property", "cases#", "reason")
    told = table(columns, rows[:MOST_REASONS], stacks=True)
    hidden = len(rows) - MOST_REASONS
    more = (
        el("p", f"and {hidden:,} more reasons: see report.json") if hidden > 0 else None
    )
    return el("div", told, more)


def speed_section(runs: tuple[SubjectRun, ...]) -> Iterator[Element]:
    """Yield how fast launches were checked, and who spent the time."""
    yield heading(2, "Throughput", "throughput")
    rates = [(run, run.launches / run.seconds if run.seconds else 0.0) for run in runs]
    most = max((rate for _, rate in rates), default=0)
    rows = [
        (run.subject, f"{run.launches:,}", f"{rate:,.0f}", bar(rate, most))
        for run, rate in rates
    ]
    columns = ("subject", "launches#", "launches a second, end to end#", "compared")
    yield el("section", table(columns, rows, stacks=True), class_="card")
    for index, run in enumerate(runs):
        parts = [*_time_shares(run), *_over_time(run, f"speed-{index + 1}")]
        if parts:
            yield el("section", heading(3, run.subject), parts, class_="card")


def _time_shares(run: SubjectRun) -> Iterator[Element]:
    speed = run.speed
    if speed is None:
        return
    spent_on_cases = speed.checking_seconds + speed.drawing_seconds
    total = max(run.seconds * run.workers, spent_on_cases)
    yield el(
        "p",
        f"{speed.per_second:,.0f} launches checked a second, "
        f"{speed.per_second_of_checking:,.0f} with drawing excluded.",
    )
    shares = (
        ("checking: run, evaluate, judge", speed.checking_seconds),
        ("drawing the next case", speed.drawing_seconds),
        ("all else: starting, shrinking", total - spent_on_cases),
    )
    rows = [(name, f"{spent:,.1f} s", bar(spent, total)) for name, spent in shares]
    yield table(("where the time went", "time#", "share"), rows)


def _over_time(run: SubjectRun, key: str) -> Iterator[Element]:
    if len(run.samples) >= 2:
        caption = el("figcaption", "Launches checked a second, over the run")
        yield el("figure", caption, launches_over_time(run.samples, key))


def matrix_section(matrix: KillMatrix | None) -> Iterator[Element]:
    """Yield the kill matrix, if it was run."""
    if matrix is None:
        return
    yield heading(2, "Kill matrix", "kill-matrix")
    judged = [row for row in matrix.rows if row.is_killed is not None]
    killed = sum(bool(row.is_killed) for row in judged)
    unjudged = len(matrix.rows) - len(judged)
    told = (
        f"{killed} of {counted(len(judged), 'fault')} killed with "
        f"{counted(len(matrix.seeds), 'seed')} each in {matrix.seconds:,.1f} s. "
        f"A kill is the violation that the fault declares, seen, repeated and shrunk."
    )
    if unjudged:
        told += f" {counted(unjudged, 'fault')} cannot be judged on this machine."
    yield el("section", el("p", told), _areas(judged), class_="card")
    columns = (
        "fault",
        "verdict",
        "area",
        "must be caught by",
        "cases#",
        "time#",
        "runs#",
        "blocks#",
    )
    # What survived is what a reader must see; what was not judged says the least.
    rows = sorted(matrix.rows, key=lambda row: (False, True, None).index(row.is_killed))
    every = table(columns, map(_kill_row, rows), stacks=True)
    yield el("section", heading(3, "Every fault"), every, class_="card")


def _areas(judged: list[KillRow]) -> Element:
    total = Counter(row.area for row in judged)
    killed = Counter(row.area for row in judged if row.is_killed)
    rows = [
        (
            area,
            f"{killed[area]} of {count}",
            bar(killed[area], count, "good" if killed[area] == count else "fault"),
        )
        for area, count in total.most_common()
    ]
    return table(("area", "killed#", "share"), rows)


def _kill_row(row: KillRow) -> tuple[Element | str, ...]:
    kind, sign = {True: ("good", "✓"), False: ("fault", "✗"), None: ("open", "?")}[
        row.is_killed
    ]
    was_run = row.is_killed is not None
    return (
        row.fault,
        el("span", f"{sign} {row.verdict}", class_=f"badge {kind}"),
        f"{row.area}: {row.kind}",
        row.breaks,
        f"{row.cases:,}" if was_run else "",
        f"{row.seconds:.1f} s" if was_run else "",
        "" if row.runs is None else f"{row.runs:,}",
        "" if row.blocks is None else f"{row.blocks:,}",
    )


def environment_section(report: Report) -> Iterator[Element]:
    """Yield where this was run, and the command."""
    yield heading(2, "Environment", "environment")
    parts = [heading(3, "Command"), command(report.command)]
    parts.append(terms([*report.machine.items()]))
    rows = [
        (run.subject, by.executor, by.semantics, by.versions, f"{by.cases:,}")
        for run in report.runs
        for by in run.judged_by
    ]
    if rows:
        columns = ("subject", "executor", "speaks of", "versions", "cases#")
        parts += [heading(3, "Judged by"), table(columns, rows, stacks=True)]
    yield el("section", parts, class_="card")
