"""A warm process of one tree: it has imported what is not mutated, and forks for each.

Importing torch, Triton, Hypothesis and pytest takes seconds; a fork of a process that
has done so takes milliseconds and imports only the tree.
`python -m tests.mutation.server` runs in the root of a copy of the tree: one job a line
comes in as JSON, one answer a line goes out. The mutated file is written before the
fork and put back after it.

A child that hangs, or takes more memory than any test needs, is ended, and its whole
process group with it: something a test run would have noticed.
"""

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import _hypothesis_globals

from tests.mutation.groups import Killer, group_named

WARM = (
    "_hypothesis_pytestplugin",
    "hypothesis.extra.numpy",
    "jsonschema",
    "numpy",
    "pytest",
    "rich.console",
    "torch",
    "triton",
    "triton.backends.compiler",
    "triton.runtime.interpreter",
    "typer",
)
MEMORY_BYTES = 2**33
"""Resident memory of a child; the tests of one group need a quarter of it."""
PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class Answer:
    """What became of one mutant.

    Attributes:
        end: `killed`, `survived`, `hung` or `ate memory`.
        by: The kind of the killer that noticed, or empty.
        text: What it noticed.
        seconds: Wall-clock time.
        cpu_seconds: Time of the processor.
    """

    end: str
    by: str = ""
    text: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def serve() -> None:
    """Answer jobs until standard input ends."""
    sys.dont_write_bytecode = True
    for name in WARM:
        _import_if_there(name)
    # The plug-in counts what runs until pytest starts as initialization, and warns of
    # every strategy then; here fuzzing comes before pytest.
    _hypothesis_globals.in_initialization -= 1
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print is no answer
    _say(answers, "ready")
    for line in sys.stdin:
        job = json.loads(line)
        _say(answers, json.dumps(vars(_answer(job))))


def _say(answers: TextIO, line: str) -> None:
    answers.write(f"{line}\n")
    answers.flush()


def _import_if_there(name: str) -> None:
    try:
        import_module(name)
    except ImportError:  # what a test needs and lacks, it says itself
        return


def _answer(job: dict[str, Any]) -> Answer:  # Any: JSON
    """Run a group's killers on a mutant; without a module, on the tree as it is."""
    if not job["module"]:
        return _run(job["group"], job["deadline"])
    path = Path(job["module"])
    before = path.read_text(encoding="utf-8")
    path.write_text(job["source"], encoding="utf-8")
    try:
        return _run(job["group"], job["deadline"])
    finally:
        path.write_text(before, encoding="utf-8")


def _run(group: str, deadline: float) -> Answer:
    """Fork, and wait for what the child notices."""
    started, spent = time.monotonic(), _spent()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _be_killers(group, writing)
    os.close(writing)
    end = _wait(child, reading, started + deadline)
    said = b"" if end else _all_of(reading)
    os.close(reading)
    _end_group(child)
    took = (round(time.monotonic() - started, 2), round(_spent() - spent, 2))
    if end:
        return Answer(end, "", "", *took)
    if not said:
        return Answer("killed", "process", "its process ended", *took)
    told = json.loads(said)
    return Answer(told["end"], told["by"], told["text"], *took)


def _spent() -> float:
    """Return the processor's seconds that ended children have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait(child: int, reading: int, until: float) -> str:
    """Wait for the child to say something or to end; return why it was ended, or ""."""
    while True:
        if select.select([reading], [], [], PAUSE_SECONDS)[0]:
            return ""
        if time.monotonic() > until:
            return "hung"
        if _resident_bytes(child) > MEMORY_BYTES:
            return "ate memory"


def _resident_bytes(child: int) -> int:
    try:
        pages = Path(f"/proc/{child}/statm").read_text(encoding="ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


def _all_of(reading: int) -> bytes:
    parts = []
    while part := os.read(reading, 2**16):
        parts.append(part)
    return b"".join(parts)


def _end_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _be_killers(group: str, writing: int) -> None:
    """Run the killers, say what was noticed, and end; what a child does."""
    os.setsid()
    sys.path.insert(0, str(Path.cwd()))
    try:
        answer = _noticed(group_named(group).killers)
    except BaseException as error:  # an import that fails, a harness that breaks
        text = "".join(traceback.format_exception_only(error)).strip()
        answer = Answer("killed", "import", text)
    with os.fdopen(writing, "w") as out:
        out.write(json.dumps({"end": answer.end, "by": answer.by, "text": answer.text}))
    os._exit(0)


def _noticed(killers: tuple[Killer, ...]) -> Answer:
    from tests.mutation.killers import NoticedError, notice

    for killer in killers:
        kind = type(killer).__name__
        try:
            text = notice(killer)
        except NoticedError as error:
            text = str(error)
        if text is not None:
            return Answer("killed", kind, text)
    return Answer("survived")


if __name__ == "__main__":
    serve()
