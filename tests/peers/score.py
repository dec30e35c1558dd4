"""Who catches what: the fault subjects' smallest cases, under kvzero and its peers.

A fault is *caught* by a tool that reports something, that finds a wrong byte, or that
dies, on the fault's case, if it does none of these on the same case with a correct
subject. Where it does, too, that is a *false alarm*, and tells nothing of the fault.
"""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvzero.casefile import read_case_file
from kvzero.properties.terms import outside_contract
from kvzero.subjects.registry import find_subject
from tests.peers.tools import Peer, environment

KILLS = Path(__file__).parents[1] / "meta" / "kills"
WITNESS = Path(__file__).with_name("witness.py")
CONTROLS = ("kvzero", "masked-3d")
"""Correct subjects; on a case outside its contract one is not asked."""
LIMITS = "launches_fit_the_platform"
"""Only the first control looks at launch limits; it alone is asked on such a case."""
DEADLINE_SECONDS = 20
NOTICED = ("reported", "wrong", "died")
START_SECONDS = 300

Row = dict[str, Any]  # JSON: what a witness answers


@dataclass(frozen=True)
class Cell:
    """What a tool makes of one fault.

    Attributes:
        verdict: `caught`, `missed`, `false alarm` or `cannot run`.
        why: Its own words, or the reason.
    """

    verdict: str
    why: str = ""


@dataclass(frozen=True)
class Score:
    """What a tool makes of all faults.

    Attributes:
        peer: The tool.
        cells: One a fault, by its name.
        alarms: Controls on which it reports something, with its words.
        controls: Controls that it ran.
    """

    peer: Peer
    cells: dict[str, Cell]
    alarms: dict[str, str]
    controls: int

    def counts(self) -> Counter[str]:
        """Return how often each verdict was given."""
        return Counter(cell.verdict for cell in self.cells.values())


def jobs_for(files: Iterable[Path]) -> Iterator[Row]:
    """Yield what is run: each fault on its case, and the controls that take it."""
    for file in sorted(files):
        found = read_case_file(file)
        assert found.found is not None
        names = [found.found.subject]
        is_of_limits = found.found.property == LIMITS
        for name in CONTROLS[:1] if is_of_limits else CONTROLS:
            contract = find_subject(name).contract
            if outside_contract(found.case, contract) is None:
                names.append(name)
        for name in names:
            yield {"subject": name, "case": str(file), "deadline": DEADLINE_SECONDS}


def score(peer: Peer, jobs: list[Row], folder: Path, copy: Path) -> Score:
    """Run all jobs under a tool.

    Args:
        peer: The tool.
        jobs: What `jobs_for` yields.
        folder: Holds the tools' environments.
        copy: The copy of kvzero that they import.
    """
    why = peer.cannot or "its witness did not start"
    answers = [] if peer.cannot else answers_of(peer, jobs, folder, copy)
    return scored(peer, jobs, answers, why)


def answers_of(peer: Peer, jobs: list[Row], folder: Path, copy: Path) -> list[Row]:
    """Return what a witness answers, in its own process; fewer where it ends early."""
    python = peer.interpreter(folder)
    if not python.exists():
        return []
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    try:
        done = subprocess.run(
            [str(python), str(WITNESS), peer.mode],
            input=lines,
            env=environment(copy),
            cwd=copy,
            stdout=subprocess.PIPE,
            stderr=(copy / f"{peer.name}.log").open("w"),
            text=True,
            check=False,
            timeout=START_SECONDS + DEADLINE_SECONDS * len(jobs),
        )
    except subprocess.TimeoutExpired:
        return []
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]


def scored(peer: Peer, jobs: list[Row], answers: list[Row], why: str) -> Score:
    """Return the score of a tool's answers.

    Args:
        peer: The tool.
        jobs: What it was asked.
        answers: What it said.
        why: Why there is no answer where there is none.
    """
    said = {(a["subject"], a["case"]): a for a in answers}
    none = {"end": "cannot run", "why": why}
    cells, alarms, controls = {}, {}, 0
    for file in dict.fromkeys(job["case"] for job in jobs):
        fault, *correct = (job["subject"] for job in jobs if job["case"] == file)
        answer = said.get((fault, file), none)
        wrong: str | None = None
        for name in correct:
            told = said.get((name, file), none)
            controls += told["end"] != "cannot run"
            if told["end"] in NOTICED:
                wrong = alarms[f"{name} on {fault}"] = told["why"]
        cells[fault] = _cell(answer, wrong)
    return Score(peer, cells, alarms, controls)


def _cell(answer: Row, wrong: str | None) -> Cell:
    if answer["end"] == "cannot run":
        return Cell("cannot run", answer["why"])
    if answer["end"] == "clean":
        return Cell("missed")
    if wrong is not None:
        return Cell("false alarm", wrong)
    return Cell("caught", answer["why"])


SIGNS = {"caught": "yes", "missed": "-", "false alarm": "alarm", "cannot run": "n/a"}


def page(scores: list[Score], command: str, versions: str) -> Iterator[str]:
    """Yield the lines of `docs/peers.md`.

    Args:
        scores: One a tool.
        command: What made the page.
        versions: What scored.
    """
    yield from HEAD
    yield f"Made by `{command}`, with {versions}."
    yield ""
    yield "| tool | releases | caught | missed | false alarm | cannot run | controls |"
    yield "|---|---|---|---|---|---|---|"
    for each in scores:
        counts = each.counts()
        verdicts = " | ".join(str(counts[verdict]) for verdict in SIGNS)
        alarms = f"{len(each.alarms)} alarms in {each.controls}"
        yield f"| {each.peer.name} | {each.peer.versions} | {verdicts} | {alarms} |"
    yield from ("", "## Fault by fault", "")
    names = " | ".join(each.peer.name for each in scores)
    yield f"| fault | {names} |"
    yield "|---" * (len(scores) + 1) + "|"
    for fault in scores[0].cells:
        signs = " | ".join(SIGNS[each.cells[fault].verdict] for each in scores)
        yield f"| {fault} | {signs} |"
    yield from ("", "## Why not", "")
    for each in scores:
        yield from _reasons(each)


def _reasons(each: Score) -> Iterator[str]:
    reasons = Counter(
        (cell.verdict, cell.why.partition(" (")[0][:160])
        for cell in each.cells.values()
        if cell.verdict in ("cannot run", "false alarm")
    )
    if reasons:
        yield f"{each.peer.name}:"
        yield ""
        for (verdict, why), count in reasons.most_common():
            yield f"- {verdict}, {count} times: `{why}`"
        yield ""


HEAD = (
    "# The same faults under the peers",
    "",
    "Each fault subject that needs no GPU, on the smallest case that `kvzero faults`",
    "found for it (`tests/meta/kills`), under kvzero's footprint, under Triton's",
    "interpreter with a check of values, and under the peers that install. The cases",
    "are kvzero's own: this says what a tool sees when the right case lies before it,",
    "not whether it would have found that case. Peers know of no memory but that of a",
    "launch's arguments, so every kernel gets the pool's tensors as arguments that it",
    "ignores.",
    "",
    "`yes`: reported, found by a wrong byte, or the process died, and nothing of that",
    "with a correct subject on the same case. `-`: nothing. `alarm`: a correct subject",
    "is blamed, too. `n/a`: cannot run; the reasons are below.",
    "",
)


def as_json(scores: list[Score]) -> Row:
    """Return the scores as plain data."""
    return {
        each.peer.name: {
            "releases": each.peer.versions,
            "counts": dict(each.counts()),
            "controls": each.controls,
            "alarms": each.alarms,
            "faults": {name: vars(cell) for name, cell in each.cells.items()},
        }
        for each in scores
    }
