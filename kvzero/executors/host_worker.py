"""The host executor's own process: subjects run on CPU memory, Triton interpreted.

It is started with ``TRITON_INTERPRET=1``, before any kernel is defined. It reads one
JSON request a line, ``{"subject", "case", "max_programs"}``, and answers each with one
line: ``{"observation"}`` or ``{"error", "message"}``. What a subject prints goes to the
standard error stream, so that it cannot be taken for an answer.
"""

import json
import os
import sys
from typing import Any, TextIO

import torch
import triton

from kvzero.casefile import decode_case
from kvzero.errors import KvzeroError
from kvzero.executors.arena import Arena
from kvzero.executors.interpreter import capped_interpreter
from kvzero.executors.real_memory import Bench, run_on_memory
from kvzero.executors.transcript import to_json
from kvzero.subjects.registry import find_subject

PIECE_BYTES = 2**22
"""Bytes compared at once: what a core's cache holds of them."""
MOST_GAP_BYTES = 2**20
_NO_LAUNCHER = "Triton's interpreter has no launcher: footprint and device record"

BLIND_TO = tuple(
    (name, _NO_LAUNCHER)
    for name in (
        "launches_fit_the_platform",
        "warm_calls_compile_nothing",
        "work_is_bounded",
        "promises_hold",
        "results_are_defined",
    )
)
"""What the interpreter cannot show, and why."""


def bench() -> Bench:
    """Return the CPU as a place to run subjects."""
    arena = Arena(
        torch.device("cpu"),
        most_gap_bytes=MOST_GAP_BYTES,
        piece_bytes=PIECE_BYTES,
    )
    versions = f"cpu, triton {triton.__version__}, torch {torch.__version__}"
    return Bench("host", "interpreter", versions, arena, lambda: None, BLIND_TO)


def answer(here: Bench, request: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    """Return the answer to one request."""
    try:
        subject = find_subject(request["subject"])
        case = decode_case(request["case"])
        with capped_interpreter(request["max_programs"]):
            return {"observation": to_json(run_on_memory(here, subject, case))}
    except KvzeroError as error:
        return {"error": type(error).__name__, "message": str(error)}


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more."""
    # Other processes want the other cores: waiting for them costs more than it wins.
    torch.set_num_threads(1)
    here = bench()
    for line in requests:
        answers.write(json.dumps(answer(here, json.loads(line))) + "\n")
        answers.flush()


def main() -> None:
    """Serve the process that started this one."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
