"""The verb `sanitize`: saved cases under NVIDIA's compute-sanitizer."""

import json as json_text
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from kvzero.campaign import sanitizing
from kvzero.campaign.sanitizing import TOOLS, Sanitization, Tool
from kvzero.campaign.verify import case_files
from kvzero.cli.options import JsonOption


def sanitize(
    files: Annotated[list[Path], typer.Argument(help="Case files, or folders.")],
    tool: Annotated[
        list[Tool] | None,
        typer.Option("--tool", help="Which tool; several may be named; default: all."),
    ] = None,
    subject: Annotated[
        str, typer.Option(help="A known name or module:attribute.")
    ] = "kvzero",
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Run saved cases under memcheck, racecheck and initcheck. Needs an NVIDIA GPU.

    Exits 0 if no tool found anything, 1 if one did, 3 if a tool does not work here, and
    5 if no case could be run.
    """
    paths = [file.path for file in case_files(files)]
    with redirect_stdout(sys.stderr):  # a subject may print
        made = sanitizing.sanitize(paths, subject, tool or TOOLS)
    text = json_text.dumps(made.as_json(), indent=1) if json else _text(made)
    sys.stdout.write(text + "\n")
    raise typer.Exit(made.exit_code)


def _text(made: Sanitization) -> str:
    lines = [f"left out: {file}: {why}" for file, why in made.chosen.left_out]
    for result in made.results:
        found = f"{len(result.records)} records" if result.records else "clean"
        others = f", {result.elsewhere} in other kernels" if result.elsewhere else ""
        lines.append(f"{result.tool}: {result.cases} cases, {found}{others}")
        lines += [f"  {record.line()}" for record in result.records]
        lines += [f"  {failure}" for failure in result.failures]
    return "\n".join(lines)
