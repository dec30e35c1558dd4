"""Options that several verbs share."""

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from kvzero.cli.durations import seconds_or_none
from kvzero.executors.isolated import (
    DEADLINE_SECONDS,
    MEMORY_BYTES,
    Isolation,
    is_built_in,
)

ExecutorOption = Annotated[
    Literal["device", "footprint", "host"] | None,
    typer.Option(
        "--executor",
        help="How to run it; default: device where there is a GPU, else footprint.",
    ),
]
IsolateOption = Annotated[
    bool | None,
    typer.Option(
        "--isolate/--no-isolate",
        help="Run cases in a worker process that the subject may kill or hang; "
        "default: only for subjects that are not built in.",
    ),
]
CaseDeadlineOption = Annotated[
    str | None,
    typer.Option(
        "--case-deadline",
        help="Time of one case in a worker process, such as 10s; beyond it, it hangs. "
        "Waiting for a CPU that others use does not count, up to ten times as long.",
    ),
]
CaseMemoryOption = Annotated[
    int | None,
    typer.Option(
        "--case-memory", min=1, help="MiB of memory that a worker process may take."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output.")
]
KnownOption = Annotated[
    Path | None,
    typer.Option(
        "--known",
        metavar="FILE",
        help="Known findings (TOML): they do not fail the run while they still fail.",
    ),
]


def _checked_target(target: str | None) -> str | None:
    if target is None or re.fullmatch(r"cuda:[1-9]\d+|hip:gfx[0-9a-f]+", target):
        return target
    raise typer.BadParameter(
        f"target={target!r}, but must be cuda:CAPABILITY or hip:ARCH, such as cuda:90 "
        f"or hip:gfx942"
    )


TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        callback=_checked_target,
        metavar="TARGET",
        help="What the footprint compiles for, such as cuda:120 or hip:gfx942.",
    ),
]
StrictCostOption = Annotated[
    bool, typer.Option("--strict-cost", help="A cost makes the run fail too.")
]


def isolation_for(
    subject: str,
    *,
    isolate: bool | None,
    case_deadline: str | None,
    case_memory: int | None,
    usual_seconds: float = DEADLINE_SECONDS,
) -> Isolation | None:
    """Return how a subject's cases are isolated; None: they run in this process.

    Args:
        subject: Its name.
        isolate: Whether they are; None: if a limit is given or it is not built in.
        case_deadline: Time of a case, as people write it.
        case_memory: Memory of the worker process, in MiB.
        usual_seconds: Time of a case where none is given.

    Raises:
        typer.BadParameter: A limit is given, but no process to limit.
    """
    limited = case_deadline is not None or case_memory is not None
    if isolate is False and limited:
        raise typer.BadParameter(
            "--no-isolate, but --case-deadline and --case-memory limit a process of "
            "its own: leave one out"
        )
    if not (limited or not is_built_in(subject) if isolate is None else isolate):
        return None
    return Isolation(
        seconds_or_none("--case-deadline", case_deadline) or usual_seconds,
        case_memory * 2**20 if case_memory else MEMORY_BYTES,
    )
