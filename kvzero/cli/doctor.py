"""The verb `doctor`: what this machine can judge, and what not."""

import json as json_text
import sys
from contextlib import redirect_stdout

import typer

from kvzero.campaign.tally import EXIT_HARNESS, EXIT_OK
from kvzero.cli.options import JsonOption
from kvzero.report.doctor import diagnose, diagnosis_lines


def doctor(
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Say what this machine can judge: GPU, versions, limits, memory, and what not.

    Exits 0 if something can be judged here, and 3 if nothing can.
    """
    with redirect_stdout(sys.stderr):  # an installed subject may print
        found = diagnose()
    text = "\n".join(diagnosis_lines(found))
    if json:
        text = json_text.dumps(found.as_json(), indent=1)
    sys.stdout.write(text + "\n")
    raise typer.Exit(EXIT_OK if found.can_judge else EXIT_HARNESS)
