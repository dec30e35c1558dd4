"""The verb `show`: a memory map in the terminal."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from kvzero.campaign.judging import Judge, Judged
from kvzero.casefile import CaseFile, read_case_file
from kvzero.cli.options import ExecutorOption
from kvzero.errors import CaseError
from kvzero.executors import executor_named
from kvzero.presets import load_preset
from kvzero.report.memory_map import case_map, layout_map
from kvzero.report.text import failure_text
from kvzero.subjects.registry import find_subject

_STYLES = {"missed": "bold red", "touched": "bold magenta", "call": "green"}


def show(
    file: Annotated[Path | None, typer.Argument(help="A case file.")] = None,
    preset: Annotated[str | None, typer.Option(help="A preset's name.")] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="Run this one, instead of the subject that the file names."),
    ] = None,
    executor: ExecutorOption = None,
) -> None:
    """Draw the memory of a case or a preset: allocations, blocks, pages, padding.

    A case that names the subject that failed on it is run again, and the bytes that are
    wrong are marked.
    """
    if (file is None) == (preset is None):
        raise CaseError("show takes either a FILE or --preset NAME: name one of them")
    if preset is not None:
        found = load_preset(preset)
        lines = [f"{found.name}: {found.family}, {found.dtype}", found.description, ""]
        _print([*lines, *layout_map(found.layout())])
    elif file is not None:
        read = read_case_file(file)
        _print([*_case_lines(read, subject, executor)])


def _case_lines(
    read: CaseFile, subject: str | None, executor: str | None
) -> Sequence[str]:
    """Return the map of a case, with what is wrong if a subject is known."""
    name = subject or (read.found.subject if read.found else None)
    if name is None:
        return [f"{read.path}: not run, it names no subject", "", *case_map(read.case)]
    fallback = executor_named("footprint") if executor is None else None
    judge = Judge(find_subject(name), executor_named(executor), fallback)
    judged = judge(read.case)
    drawn = case_map(read.case, judged.observation)
    replay = f"kvzero replay {shlex.quote(str(read.path))}"
    if subject is not None:
        replay += f" --subject {shlex.quote(subject)}"
    return [*_verdict(judged, str(read.path), replay), "", *drawn]


def _verdict(judged: Judged, file: str, replay: str) -> list[str]:
    """Return what the run found, violation after violation."""
    seen = judged.observation
    if not judged.violations:
        what = f"{seen.subject} breaks nothing on {file}"
        return [f"{what}, judged by {seen.executor} on {seen.environment}"]
    texts = [failure_text(each, seen, replay) for each in judged.violations]
    return "\n\n".join(texts).split("\n")


def _print(lines: Sequence[str]) -> None:
    """Print lines as they are; coloured on a terminal, unless NO_COLOR is set."""
    console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
    for line in lines:
        label = line.split()[0] if line.startswith("  ") and line.strip() else ""
        console.print(Text(line, _STYLES.get(label, "")))
