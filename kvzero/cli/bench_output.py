"""What `kvzero bench` prints: a table a layout, the goals, the notes."""

import sys
from collections.abc import Sequence
from typing import Literal

from rich.console import Console
from rich.table import Table

from kvzero.bench.harness_tables import HARNESS_TABLES, Document
from kvzero.bench.history import Change
from kvzero.bench.records import Place, Record, Report
from kvzero.bench.tables import GOALS, number

_COLUMNS = (
    *("blocks", "subject", "bytes", "us", "TB/s", "of memset", "of fastest peer"),
    *("programs", "wasted", "host us"),
)
PLAIN_WIDTH = 140
"""Columns where standard output is no terminal."""


def print_report(report: Report) -> None:
    """Print a report as tables."""
    console = _console()
    by_preset: dict[str, list[Place]] = {}
    for place in report.places():
        by_preset.setdefault(place.preset, []).append(place)
    for preset, places in by_preset.items():
        console.print(_table(preset, places))
    if any(record.time_us for record in report.records):
        console.print(_goals(report))
    for line in report.note_lines():
        console.print(f"note: {line}", soft_wrap=True, markup=False)


def _console() -> Console:
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False)


def _table(preset: str, places: Sequence[Place]) -> Table:
    smallest = f"smallest page {places[0].min_page_bytes:,} B"
    table = Table(title=f"{preset}, {smallest}", title_justify="left")
    for name in _COLUMNS:
        side: Literal["left", "right"] = "left" if name == "subject" else "right"
        table.add_column(name, justify=side, no_wrap=True)
    for place in places:
        for record in place.by_subject.values():
            table.add_row(*_cells(place, record))
        table.add_section()
    return table


def _cells(place: Place, record: Record) -> Sequence[str]:
    return (
        f"{record.n_blocks:,}",
        record.subject,
        f"{record.bytes:,}",
        number(record.time_us),
        number(record.tb_per_s),
        number(record.ratio_to_memset),
        number(place.times_faster(record.subject)),
        number(record.programs),
        number(record.wasted_programs),
        number(record.host_us),
    )


def _goals(report: Report) -> Table:
    table = Table(title="kvzero's goals: geometric means", title_justify="left")
    names = ("group", "number", "rows", "mean", "range", "goal", "verdict")
    for name in names:
        table.add_column(name, overflow="fold")
    for goal in GOALS:
        table.add_row(*goal.row(report))
    return table


def print_harness(record: Document, moved: Sequence[Change] | None) -> None:
    """Print what testing costs, and how that has moved since the last record.

    Args:
        record: What was measured.
        moved: Numbers that an earlier record of this machine holds too; None: there is
            no such record.
    """
    console = _console()
    for title, names, rows in HARNESS_TABLES:
        table = Table(*names, title=title, title_justify="left")
        for row in rows(record):
            table.add_row(*row)
        if table.row_count:
            console.print(table)
    if left_out := record["left_out"]:
        what = f"{len(left_out)} left out, from {left_out[0]} on"
        console.print(f"note: the time is up: {what}", markup=False)
    if moved is None:
        console.print("no earlier record of this machine to compare with")
    elif moved:
        console.print(_moved_table(moved))


def _moved_table(moved: Sequence[Change]) -> Table:
    table = Table("what", "before", "now", "", "verdict", title="since the last record")
    for change in moved:
        table.add_row(
            change.what,
            number(change.before),
            number(change.now),
            change.unit,
            change.verdict,
        )
    return table
