"""Options that several verbs share."""

from typing import Annotated, Literal

import typer

ExecutorOption = Annotated[
    Literal["device", "footprint", "host"] | None,
    typer.Option(
        "--executor",
        help="How to run it; default: device where there is a GPU, else footprint.",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output.")
]
StrictCostOption = Annotated[
    bool, typer.Option("--strict-cost", help="A cost makes the run fail too.")
]
