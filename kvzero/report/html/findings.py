"""One finding: what broke, a picture of it, who did it, and how to run it again."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from xml.etree.ElementTree import Element

from kvzero.casefile import case_file_text
from kvzero.observation import Launch, Observation
from kvzero.properties.wording import counted, launch_text
from kvzero.report.facts import ReportedFinding
from kvzero.report.html.elements import breakable, command, el, heading, table, terms
from kvzero.report.html.memory_svg import legend, memory_figure
from kvzero.report.memory_map import case_map
from kvzero.report.pictures import case_pictures
from kvzero.report.wrong_bytes import Wrong, wrong_bytes

MOST_LAUNCHES = 8
MOST_CASE_CHARACTERS = 2**16
"""Of a longer case file the report holds the begin: the file itself has all of it."""
_LABELS = {
    "missed": "!\N{NO-BREAK SPACE}missed",
    "touched": "X\N{NO-BREAK SPACE}touched",
}


def finding_section(
    finding: ReportedFinding, number: int, drawn_at: int | None = None
) -> Element:
    """Return the section of one finding.

    Args:
        finding: What was found.
        number: Its number in the report, from 1.
        drawn_at: The finding that has drawn the same case already, if one has.
    """
    violation = finding.violation
    key = f"finding-{number}"
    title = heading(3, "", key)
    title.append(el("span", violation.kind, class_=f"badge {violation.kind}"))
    title.append(el("span", breakable(f"{number}. {violation.headline}")))
    return el(
        "article",
        title,
        el("p", _seen_text(finding), class_="muted"),
        _replay(finding),
        heading(4, "Explanation"),
        _explanation(finding),
        *(_case(finding, key) if drawn_at is None else [_same_case(drawn_at)]),
        class_=f"card finding {violation.kind}",
        aria_labelledby=key,
    )


def _case(finding: ReportedFinding, key: str) -> Iterator[Element]:
    """Yield all that there is to see of a finding's case."""
    yield from _pictures(finding, key)
    yield from _wrong_bytes(finding)
    yield from _launches(finding.observation)
    yield _case_map(finding)
    yield _case_file(finding)


def _same_case(number: int) -> Element:
    link = el("a", f"finding {number}", href=f"#finding-{number}")
    return el("p", "The same case as that of ", link, ", which is drawn there.")


def _seen_text(finding: ReportedFinding) -> str:
    violation = finding.violation
    parts = [
        f"{violation.property}, {violation.what}",
        f"seen in {counted(finding.count, 'case')}",
    ]
    if violation.place:
        parts.append(f"at {violation.place}")
    if finding.flaky:
        parts.append("FLAKY: it did not repeat")
    if not finding.is_failure:
        parts.append("told only: it does not make the run fail")
    return "; ".join(parts)


def _replay(finding: ReportedFinding) -> Element:
    if finding.replay is None:
        text = "Not saved: kvzero fuzz saves what makes a run fail; the case is below."
        return el("p", text, class_="muted")
    return el("div", heading(4, "Run it again"), command(finding.replay))


def _pictures(finding: ReportedFinding, key: str) -> Iterator[Element]:
    chosen = case_pictures(finding.case, finding.observation)
    found = wrong_bytes(finding.case, finding.observation)
    yield heading(4, "Memory")
    if not chosen.pictures:
        yield el("p", "The case has no memory to draw.", class_="muted")
        return
    for index, picture in enumerate(chosen.pictures):
        yield memory_figure(chosen, picture, f"{key}-picture-{index + 1}")
    if chosen.kinds_left_out:
        kinds = counted(chosen.kinds_left_out, "more kind")
        yield el("p", f"{kinds} of allocations, not drawn.", class_="muted")
    told = {mark.label.split()[0] for mark in chosen.marks}
    untold = sum(wrong.untold for wrong in found if wrong.label in told)
    if untold:
        text = f"Marked are the first stretches: {untold:,} more bytes are wrong."
        yield el("p", text)
    yield legend(chosen, f"{key}-legend")


def _wrong_bytes(finding: ReportedFinding) -> Iterator[Element]:
    """Yield the wrong bytes of the first moment that has some, and those after it."""
    found = list(wrong_bytes(finding.case, finding.observation))
    if found:
        first = [wrong for wrong in found if wrong.when == found[0].when]
        yield heading(4, "Wrong bytes")
        yield _wrong_table(first)
        if later := found[len(first) :]:
            title = f"Wrong bytes after that ({', '.join(_moments(later))})"
            yield el("details", el("summary", title), _wrong_table(later))


def _moments(found: Iterable[Wrong]) -> Iterable[str]:
    return dict.fromkeys(wrong.when for wrong in found)


def _wrong_table(found: Iterable[Wrong]) -> Element:
    columns = ("what", "when", "where", "whose", "now", "stored by")
    rows = (row for wrong in found for row in _wrong_rows(wrong))
    return table(columns, rows, stacks=True)


def _wrong_rows(wrong: Wrong) -> Iterator[tuple[Element | str, ...]]:
    label, when = _LABELS[wrong.label], wrong.when
    for stretch in wrong.stretches:
        now = el("code", stretch.now) if stretch.now else "not seen"
        writer = stretch.writer or "not known"
        yield label, when, stretch.where, stretch.whose, now, writer
    if wrong.untold:
        yield label, when, f"and {wrong.untold:,} more bytes", "", "", ""


def _launches(seen: Observation) -> Iterator[Element]:
    if not seen.launches:
        return
    yield heading(4, "Launches")
    columns = ("kernel", "call", "programs#", "warps#", "target", "fate there")
    rows = [_times(row, len(list(same))) for row, same in groupby(_launch_rows(seen))]
    yield table(columns, rows[:MOST_LAUNCHES], stacks=True)
    more = len(rows) - MOST_LAUNCHES
    if more > 0:
        yield el("p", f"and {counted(more, 'more row')}", class_="muted")


def _launch_rows(seen: Observation) -> Iterator[tuple[str, ...]]:
    return map(_launch_row, seen.launches)


def _times(row: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return a row that says how often it stands there."""
    return row if count == 1 else (f"{count:,} times {row[0]}", *row[1:])


def _launch_row(launch: Launch) -> tuple[str, ...]:
    call = "warm-up" if launch.is_of_warmup else f"{launch.call + 1}"
    fate = f"{launch.fate}: {launch.limit}" if launch.limit else launch.fate
    return (
        f"{launch_text(launch)} at {launch.place}",
        call,
        f"{launch.shape.programs:,}",
        f"{launch.shape.num_warps}",
        launch.target,
        fate,
    )


def _explanation(finding: ReportedFinding) -> Element:
    """Return the located explanation; its headline is the section's."""
    seen = finding.observation
    ran = (
        f"subject {seen.subject}, executor {seen.executor} ({seen.semantics}), "
        f"{seen.environment}"
    )
    told = terms([*finding.violation.details, ("ran", ran)])
    told.set("class", "explanation")
    return told


def _case_map(finding: ReportedFinding) -> Element:
    lines = case_map(finding.case, finding.observation)
    return _folded("The case in words", "\n".join(lines))


def _case_file(finding: ReportedFinding) -> Element:
    text = case_file_text(finding.case)
    name = finding.file or "not saved"
    if len(text) > MOST_CASE_CHARACTERS:
        text = f"{text[:MOST_CASE_CHARACTERS]}\n... cut: the file has all of it\n"
    return _folded(f"The case as a file ({name})", text)


def _folded(title: str, text: str) -> Element:
    return el("details", el("summary", title), el("pre", text))
