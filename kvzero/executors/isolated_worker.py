"""What a worker process does: it runs cases on one executor, and is the one to die.

A request is ``{"ask", ...}``, as the functions of `_ANSWERS` take it; an answer holds
what they return, or ``{"error", "message", "notes"}``. A case that leaves much more
memory taken than it found is run again at once: what an executor or a compiler keeps,
it keeps once, and what grows with every run is a leak of the subject's.
"""

import gc
import os
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from kvzero.casefile import decode_case
from kvzero.errors import KvzeroError
from kvzero.executors import Executor, executor_in_process
from kvzero.executors.channel import Channel, Json
from kvzero.executors.transcript import to_json
from kvzero.observation import Death, Observation
from kvzero.subjects.registry import find_subject

LEAK_BYTES = 2**24
"""Memory that each run of one case must keep to be called a leak: the allocators of C
and Python grow by less when nothing leaks."""
LEAK_RUNS = 2
"""Further runs that must keep as much."""


class Worker:
    """Answers requests with one executor."""

    def __init__(self, executor: Executor) -> None:
        """Take the executor that runs all cases."""
        self._executor = executor

    def fits(self, request: Json) -> Json:
        """Return whether a case's memory can be had."""
        return {"fits": self._executor.fits(decode_case(request["case"]))}

    def describe(self, request: Json) -> Json:
        """Return a subject's contract."""
        return {"contract": asdict(find_subject(request["subject"]).contract)}

    def run(self, request: Json) -> Json:
        """Return what a subject did on a case."""
        subject = find_subject(request["subject"])
        case = decode_case(request["case"])
        seen, kept = _measured(lambda: self._executor.run(subject, case))
        least = kept
        for _ in range(LEAK_RUNS):
            if kept < LEAK_BYTES or seen.died is not None:
                break
            seen, kept = _measured(lambda: self._executor.run(subject, case))
            least = min(least, kept)
        if seen.died is None and least >= LEAK_BYTES:
            text = f"memory leaked: each run of the case keeps {LEAK_BYTES:,} B or more"
            seen = replace(seen, died=Death("memory-leaked", text))
        return {"observation": to_json(seen)}

    def answer(self, request: Json) -> Json:
        """Return the answer to a request; errors are answers too."""
        asked: dict[str, Callable[[Json], Json]] = {
            "describe": self.describe,
            "fits": self.fits,
            "run": self.run,
        }
        try:
            return asked[request["ask"]](request)
        except KvzeroError as error:
            notes = list(getattr(error, "__notes__", ()))
            return _error(type(error).__name__, str(error), notes)
        except Exception as error:  # a bug of ours, which must not pass for a death
            text = f"{type(error).__name__}: {error}"
            return _error("InternalError", text, [traceback.format_exc()])


def serve(channel: Channel, arguments: Json) -> None:
    """Answer requests until there are no more.

    Args:
        channel: Where they come from.
        arguments: The arguments of `executor_in_process`.
    """
    worker: Worker | None = None
    while True:
        try:
            request = channel.receive()
        except EOFError:
            return
        try:
            worker = worker or Worker(executor_in_process(**arguments))
        except KvzeroError as error:
            channel.send(_error(type(error).__name__, str(error), []))
            continue
        channel.send(worker.answer(request))


def _error(name: str, message: str, notes: list[str]) -> Json:
    return {"error": name, "message": message, "notes": notes}


def _measured(run: Callable[[], Observation]) -> tuple[Observation, int]:
    """Return what a run saw, and by how much memory grew."""
    before = _resident_bytes()
    seen = run()
    if _resident_bytes() - before >= LEAK_BYTES:
        gc.collect()
    return seen, _resident_bytes() - before


def _resident_bytes() -> int:
    """Return the memory that this process takes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
