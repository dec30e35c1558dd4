"""Verifying given cases: the presets at full size, and case files."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kvzero.campaign.judging import Judge
from kvzero.campaign.tally import Tally
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import CaseFile, read_case_file
from kvzero.errors import CaseError
from kvzero.presets import Preset, load_preset, preset_names
from kvzero.subjects.protocol import Contract

OnCase = Callable[[Tally], None]

REPLAYED_PROGRAMS = 20_000_000
"""Programs evaluated for one saved case, some seconds of the footprint. Fuzzing shows
what it finds in far fewer, or in a launch, and launches are judged at any size."""


def spread_ids(count: int, num_blocks: int) -> IdRun:
    """Return `count` distinct ids spread evenly over a pool, the last id first.

    A served pool hands out scattered ids; a step that divides nothing in particular
    shows what ids in a row would hide.
    """
    count = min(count, num_blocks)
    step = max(1, (num_blocks - 1) // max(count, 1))
    return IdRun(num_blocks - 1, count, -step)


def preset_case(preset: Preset, platform: str = "cuda:90") -> Case:
    """Return a preset's pool at full size with three calls.

    The block lists are id 1, the last id, and the preset's largest typical list, cut to
    the pool's distinct ids.
    """
    layout = preset.layout()
    last = layout.num_blocks - 1
    lists = (
        IdRun(1),
        IdRun(last),
        spread_ids(preset.largest_list, layout.num_blocks),
    )
    calls = tuple(Call((run,), arrival="array") for run in lists)
    return Case(layout, calls, platform=platform)


class Given(NamedTuple):
    """A case to verify.

    Attributes:
        case: The case.
        command: What runs it again, without the subject.
        file: The file that it is from.
        property: The property that it was saved for.
    """

    case: Case
    command: str
    file: str | None = None
    property: str | None = None


def preset_cases(name: str) -> list[Given]:
    """Return the case of one preset, or with ``"all"`` of each."""
    chosen = preset_names() if name == "all" else (name,)
    return [
        Given(preset_case(load_preset(each)), f"kvzero verify --preset {each}")
        for each in chosen
    ]


def on_target(given_case: Given, target: str) -> Given:
    """Return a case to verify for another platform than its own."""
    file = given_case.file
    command = given_case.command if file is None else f"kvzero verify {file}"
    case = replace(given_case.case, platform=target)
    return given_case._replace(case=case, command=f"{command} --target {target}")


def given(file: CaseFile) -> Given:
    """Return the case of a file."""
    saved_for = file.found.property if file.found else None
    return Given(file.case, f"kvzero replay {file.path}", str(file.path), saved_for)


def case_files(paths: Iterable[Path]) -> list[CaseFile]:
    """Read case files, all before the first is run, and folders of them.

    Raises:
        CaseError: A file does not hold a case, or a folder holds none.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        if not inside:
            raise CaseError(f"{path}: no case file in this folder")
        files.extend(inside)
    return [read_case_file(path) for path in files]


def _as_taken(case: Case, contract: Contract) -> Case:
    """Return a preset's case with ids that arrive as the subject takes them."""
    calls = tuple(
        call
        if call.arrival in contract.arrivals
        else replace(call, arrival=contract.arrivals[0])
        for call in case.calls
    )
    return replace(case, calls=calls)


def verify(
    judge: Judge, cases: Iterable[Given], on_case: OnCase, tally: Tally | None = None
) -> Tally:
    """Judge cases, each once.

    Args:
        judge: Subject and executors.
        cases: The cases.
        on_case: Called after each, for progress.
        tally: Counts them, and keeps what there is if this is interrupted; None: a
            new one.
    """
    tally = Tally() if tally is None else tally
    for each in cases:
        # How ids arrive is part of a file's case, and no part of a preset.
        taken = each.case if each.file else _as_taken(each.case, judge.subject.contract)
        judged = judge(taken)
        tally.add(judged)
        tally.answered += judged.says_of(each.property)
        for violation in judged.violations:
            found = tally.found[violation.identity]
            if found.judged is judged:
                found.file = each.file
                found.replay = f"{each.command} --subject {judge.subject.name}"
        on_case(tally)
    return tally
