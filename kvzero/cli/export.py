"""The verb `export`: a failing case as one stand-alone script."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kvzero.casefile import read_case_file
from kvzero.errors import SubjectError
from kvzero.report.export import Export, script
from kvzero.report.files import write_text
from kvzero.subjects.registry import find_subject


def export(
    file: Annotated[Path, typer.Argument(help="A case file.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The script; default: standard output."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Instead of the subject that the file names.")
    ] = None,
) -> None:
    """Write a failing case as one script that needs torch and Triton, not kvzero.

    The script exits 1 if the fault shows, 0 if it does not, and 3, with the reason, if
    the machine cannot show it.
    """
    read = read_case_file(file)
    name = subject or (read.found.subject if read.found else None)
    if name is None:
        raise SubjectError(
            f"{file} names no subject, but the script must hold one: name it with "
            f"--subject"
        )
    text = script(Export(read.case, find_subject(name), name, read.found, file.name))
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
