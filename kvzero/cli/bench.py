"""The verb `bench`: what zeroing costs, and with ``--harness`` what testing costs."""

import json as json_text
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvzero.bench.harness_tables import Document, harness_tables
from kvzero.bench.history import (
    append_record,
    changes,
    last_of_this_machine,
    read_history,
)
from kvzero.bench.machine import this_origin
from kvzero.bench.plot import checked_path, write_plot
from kvzero.bench.records import Report, read_report, report_text
from kvzero.bench.tables import TABLES, rendered
from kvzero.campaign.tally import EXIT_NOTHING_JUDGED, EXIT_OK
from kvzero.cli.bench_output import print_harness, print_report
from kvzero.cli.durations import seconds_or_none
from kvzero.cli.options import JsonOption
from kvzero.executors.device import device_available
from kvzero.report.files import write_text

FUZZ_SECONDS = 10.0
"""How long each executor checks random cases under ``--harness``."""
QUICK_FUZZ_SECONDS = 3.0

PresetsOption = Annotated[
    list[str] | None,
    typer.Option("--preset", help="A layout; may be given again. Default: all."),
]
SubjectsOption = Annotated[
    list[str] | None,
    typer.Option("--subject", help="A known name or module:attribute; default: all."),
]
BlocksOption = Annotated[
    list[int] | None,
    typer.Option("--blocks", min=1, help="Length of a block list; may be given again."),
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Few lists, smaller pools, fewer samples.")
]
MaxTimeOption = Annotated[
    str | None, typer.Option(help="When to begin nothing more, such as 60s or 4m.")
]
PlotOption = Annotated[
    Path | None, typer.Option(help="Draw it too: FILE.svg or FILE.png.")
]
FromOption = Annotated[
    Path | None,
    typer.Option("--from", help="Measure nothing: show this file, which --json wrote."),
]
PageOption = Annotated[
    Path | None, typer.Option(help="Put the tables into this Markdown page too.")
]
HarnessOption = Annotated[
    bool, typer.Option("--harness", help="Measure what testing costs instead.")
]
RecordOption = Annotated[
    Path | None,
    typer.Option(help="With --harness: compare with this file's last record; append."),
]
FaultsOption = Annotated[
    list[str] | None,
    typer.Option("--fault", help="With --harness: a fault; default: all."),
]
ExecutorsOption = Annotated[
    list[str] | None,
    typer.Option("--executor", help="With --harness: an executor; default: all."),
]


def bench(
    preset: PresetsOption = None,
    subject: SubjectsOption = None,
    blocks: BlocksOption = None,
    quick: QuickOption = False,  # noqa: FBT002 - typer reads the signature
    max_time: MaxTimeOption = None,
    plot: PlotOption = None,
    from_: FromOption = None,
    page: PageOption = None,
    harness: HarnessOption = False,  # noqa: FBT002 - typer reads the signature
    record: RecordOption = None,
    fault: FaultsOption = None,
    executor: ExecutorsOption = None,
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Time zeroers against memset and each other, over real layouts.

    Every contender's result is verified, exactly, before it is timed; one that is wrong
    is reported and not timed. Without a GPU the table holds what can be known: bytes,
    programs, programs without work and the host's time.

    With --harness: checked launches a second of each executor, the time for the largest
    presets and the time to kill each fault. A slowdown is shown, and fails nothing.
    """
    seconds = seconds_or_none("--max-time", max_time)
    if harness:
        _refuse("--harness", blocks=blocks, plot=plot, subject=subject)
        fuzz_seconds = QUICK_FUZZ_SECONDS if quick else FUZZ_SECONDS
        asked = executor, preset, fault, fuzz_seconds, seconds
        document = _last_record(from_) if from_ else _measured_harness(*asked)
        _show_harness(document, record, page, as_json=json)
        return
    _refuse("a run without --harness", record=record, fault=fault, executor=executor)
    plot = plot and checked_path(plot)
    report = read_report(from_) if from_ else None
    if report is None:
        report = _measured(subject, preset, blocks, seconds, quick=quick)
    _show(report, plot, page, as_json=json)


def _refuse(what: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            flag = name.strip("_")
            raise typer.BadParameter(f"--{flag} says nothing to {what}")


def _measured(
    subjects: list[str] | None,
    presets: list[str] | None,
    blocks: list[int] | None,
    seconds: float | None,
    *,
    quick: bool,
) -> Report:
    # Here and below: Triton takes a second to import, which other verbs do not need.
    from kvzero.bench.cards import Gpu
    from kvzero.bench.running import Bench, Request

    request = Request(subjects, presets, blocks, quick, seconds)
    card = Gpu() if device_available() else None
    return Bench(request, this_origin(), card, say=_say).run()


def _say(line: str) -> None:
    sys.stderr.write(f"bench: {line}\n")
    sys.stderr.flush()


def _show(
    report: Report, plot: Path | None, page: Path | None, *, as_json: bool
) -> None:
    """Print a report, draw it, and put its tables into a page."""
    if as_json:
        sys.stdout.write(report_text(report))
    else:
        print_report(report)
    if page is not None:
        _put(page, {name: table(report) for name, table in TABLES.items()})
    if plot is not None:
        write_plot(report, plot)
    raise typer.Exit(EXIT_OK if report.records else EXIT_NOTHING_JUDGED)


def _put(page: Path, tables: dict[str, str]) -> None:
    """Put tables into a page that marks where."""
    if not page.is_file():
        raise typer.BadParameter(f"--page {page}, but must be a file")
    write_text(page, rendered(page.read_text("utf-8"), tables))


def _measured_harness(
    executors: list[str] | None,
    presets: list[str] | None,
    faults: list[str] | None,
    fuzz_seconds: float,
    seconds: float | None,
) -> Document:
    from kvzero.bench.harness import HarnessRequest, measure_harness

    request = HarnessRequest(executors, presets, faults, fuzz_seconds, seconds)
    return measure_harness(request, this_origin(), _say).as_json()


def _last_record(path: Path) -> Document:
    history = read_history(path)
    if not history:
        raise typer.BadParameter(
            f"--from {path}, but must be a file that --record wrote"
        )
    return history[-1]


def _show_harness(
    document: Document, path: Path | None, page: Path | None, *, as_json: bool
) -> None:
    """Print a record beside the last one, append it, and put its tables into a page."""
    history = read_history(path) if path else []
    last = last_of_this_machine(history, document)
    if as_json:
        sys.stdout.write(json_text.dumps(document, indent=1) + "\n")
    else:
        print_harness(document, list(changes(last, document)) if last else None)
    if path is not None:
        append_record(path, history, document)
    if page is not None:
        _put(page, harness_tables(document))
