"""The verb `faults`: the harness put to the test by faults that are known."""

import json as json_text
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kvzero.campaign.faults import MAX_EXAMPLES, Kill, Matrix, Row, kill_matrix
from kvzero.campaign.tally import EXIT_OK
from kvzero.cli.options import JsonOption
from kvzero.cli.reporting import (
    DEFAULT_FOLDER,
    ReportDirOption,
    Reporting,
    ReportOption,
)
from kvzero.report.files import write_text
from kvzero.report.known_faults import known_faults_page

MOST_WORKERS = 8


def faults(
    seeds: Annotated[
        int, typer.Option(min=1, help="How many seeds; every one must catch a fault.")
    ] = 1,
    max_examples: Annotated[
        int, typer.Option(min=1, help="Cases after which a fault has survived.")
    ] = MAX_EXAMPLES,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one a core.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="Fuzz nothing: write the page of known faults there."),
    ] = None,
    report: ReportOption = None,
    report_dir: ReportDirOption = DEFAULT_FOLDER,
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Fuzz subjects with one known fault each, and say which were caught.

    Exits 0 if every fault that this machine can judge was caught by the property and in
    the way that it declares, 1 if one survived. Faults that need a GPU are listed as
    such where there is none.
    """
    if page is not None:
        write_text(page, known_faults_page())
        raise typer.Exit(EXIT_OK)
    reporting = Reporting.asked("faults", report, report_dir)
    found = kill_matrix(
        seeds=seeds,
        max_examples=max_examples,
        workers=workers or _cores(),
        on_kill=_say,
    )
    if json:
        sys.stdout.write(json_text.dumps(found.as_json(), indent=1) + "\n")
    else:
        _print(found)
    reporting.of_matrix(found, as_json=json)
    raise typer.Exit(found.exit_code)


def _cores() -> int:
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def _say(kill: Kill) -> None:
    """Say what became of a fault, on a terminal."""
    if sys.stderr.isatty():
        verdict = "killed" if kill.killed else "SURVIVED"
        sys.stderr.write(f"\r\x1b[K{kill.fault.name}, seed {kill.seed}: {verdict}")
        sys.stderr.flush()


def _print(matrix: Matrix) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 130)
    console.print(_table(matrix.rows))
    judged = [row for row in matrix.rows if row.kills]
    killed = sum(row.killed for row in judged)
    lines = [
        f"{killed} of {len(judged)} faults killed by each of {len(matrix.seeds)} seeds "
        f"in {matrix.seconds:.1f} s; median shrunk case: "
        f"{matrix.median_of(lambda kill: kill.runs)} runs, "
        f"{matrix.median_of(lambda kill: kill.blocks)} blocks"
    ]
    unjudged = len(matrix.rows) - len(judged)
    if unjudged:
        lines.append(f"not judged: {unjudged} faults need a GPU, and there is none")
    lines.extend(f"SURVIVED: {name}" for name in matrix.survivors)
    sys.stdout.write("\n".join(lines) + "\n")


def _table(rows: tuple[Row, ...]) -> Table:
    table = Table(title=None)
    for name in ("fault", "area", "verdict", "by", "cases", "time", "runs", "blocks"):
        right = name in ("cases", "time", "runs", "blocks")
        table.add_column(name, justify="right" if right else "left")
    for row in rows:
        told = row.as_json()
        table.add_row(
            row.fault.name,
            row.fault.area,
            row.verdict,
            row.fault.breaks,
            f"{told['cases']}",
            f"{told['seconds']:.1f} s",
            _size(told["runs"]),
            _size(told["blocks"]),
        )
    return table


def _size(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
