"""The verb `capture`: a table of segments becomes a case file."""

from pathlib import Path
from typing import Annotated

import typer

from kvzero.capture import case_of, read_segment_table
from kvzero.casefile import write_case_file
from kvzero.properties.wording import counted


def capture(
    table: Annotated[
        Path,
        typer.Argument(
            help='JSON: {"num_blocks": N, "segments": [[address, stride, page], ...]}.'
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The case file to write.")
    ],
    platform: Annotated[
        str, typer.Option(help="Target that it is for: cuda:CAPABILITY or hip:ARCH.")
    ] = "cuda:90",
) -> None:
    """Write an engine's table of segments as a case file, which verify takes."""
    case = case_of(read_segment_table(table), platform)
    write_case_file(output, case)
    layout = case.layout
    typer.echo(
        f"{output}: {counted(len(layout.table), 'segment')} as "
        f"{counted(len(layout.runs), 'run')} in "
        f"{counted(layout.num_allocations, 'allocation')}, "
        f"{counted(layout.num_blocks, 'block')}\n"
        f"next: kvzero verify {output}"
    )
