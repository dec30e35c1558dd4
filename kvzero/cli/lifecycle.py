"""The verb `lifecycle`: histories of a block pool, with a model beside it."""

import json as json_text
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from kvzero.campaign.lifecycle import MAX_EXAMPLES, MAX_STEPS, Life, Trial, live
from kvzero.cli.options import ExecutorOption, JsonOption
from kvzero.errors import SubjectError
from kvzero.executors import default_executor_name
from kvzero.subjects.block_server import BlockServer
from kvzero.subjects.protocol import Subject
from kvzero.subjects.registry import find_subject
from kvzero.subjects.server_faults import SERVER_FAULTS

INTERPRETER_SECONDS = 3_600.0
"""Time of the process that interprets Triton's kernels: beyond it, it hangs."""


def lifecycle(
    subject: Annotated[
        str, typer.Option(help="A known name or module:attribute.")
    ] = "kvzero",
    server: Annotated[
        str,
        typer.Option(help="What decides when to zero: a known name, module:attribute."),
    ] = "correct",
    executor: ExecutorOption = None,
    seed: Annotated[int, typer.Option(help="Every random choice follows from it.")] = 0,
    max_examples: Annotated[
        int, typer.Option(min=1, help="How many histories.")
    ] = MAX_EXAMPLES,
    max_steps: Annotated[
        int, typer.Option(min=1, help="Steps of a history.")
    ] = MAX_STEPS,
    json: JsonOption = False,  # noqa: FBT002 - typer reads the signature
) -> None:
    """Draw histories of a block pool: none handed out dirty, none wiped while owned.

    Allocate, extend, write, copy, load, fail to load, free, dummy steps, sleep and
    wake, re-allocate, and on a GPU capture. Every byte is compared after every step.
    """
    chosen = executor or default_executor_name()
    found = find_subject(subject)
    if chosen == "host" and found.contract.uses_triton and not _interprets():
        raise typer.Exit(_run_interpreted())
    trial = Trial(found, chosen, find_server(server))
    life = live(trial, seed=seed, max_examples=max_examples, max_steps=max_steps)
    if json:
        sys.stdout.write(json_text.dumps(life.as_json(), indent=1) + "\n")
    else:
        _print(life, found)
    raise typer.Exit(life.exit_code)


def find_server(name: str) -> Callable[..., BlockServer]:
    """Return the server of a name.

    Raises:
        SubjectError: There is none.
    """
    known: dict[str, Callable[..., BlockServer]] = {"correct": BlockServer}
    known |= {fault.name: fault.server for fault in SERVER_FAULTS}
    if name in known:
        return known[name]
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise SubjectError(
            f"server={name!r}, but must be module:attribute or one of "
            f"{', '.join(known)}"
        )
    try:
        found: Any = getattr(import_module(module_name), attribute)
    except Exception as error:  # a module may raise anything
        raise SubjectError(
            f"server={name!r}, but it cannot be imported: {type(error).__name__}: "
            f"{error}"
        ) from error
    if not callable(found):
        raise SubjectError(
            f"server={name!r}, but must be callable with the number of blocks and hands"
        )
    server: Callable[..., BlockServer] = found
    return server


def _interprets() -> bool:
    """Return whether this process interprets Triton's kernels."""
    import triton

    return bool(triton.knobs.runtime.interpret)


def _run_interpreted() -> int:
    """Run this command again in a process that interprets; return its exit code."""
    command = [sys.executable, "-m", "kvzero", *sys.argv[1:]]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        command, env=environment, check=False, timeout=INTERPRETER_SECONDS
    )
    return done.returncode


def _print(life: Life, subject: Subject) -> None:
    found, trial = life.violation, life.trial
    lines = [] if found is None else found.lines()
    verdict = {0: "no rule broken", 1: "rule broken", 5: "nothing judged"}
    lines.append(
        f"{subject.name}: {verdict[life.exit_code]} (exit code {life.exit_code}), all "
        f"bytes compared after {trial.checks.total()} steps, seed {life.seed}, "
        f"executor {trial.executor}"
    )
    lines.extend(f"  judged      {step}: {n}" for step, n in trial.checks.most_common())
    lines.extend(f"  not judged  {why}: {n}" for why, n in trial.not_judged.items())
    sys.stdout.write("\n".join(lines) + "\n")
