"""What a worker process does: it runs cases on one executor, and is the one to die.

A request is ``{"ask", ...}``, as the functions of `_ANSWERS` take it; an answer holds
what they return, or ``{"error", "message", "notes"}``. A leak is observed as a death,
too: this process is spoilt by it.
"""

import traceback
from collections.abc import Callable
from dataclasses import asdict

from kvzero.casefile import decode_case
from kvzero.errors import KvzeroError
from kvzero.executors import Executor, executor_in_process
from kvzero.executors.channel import Channel, Json
from kvzero.executors.leaks import LeakWatch
from kvzero.executors.transcript import to_json
from kvzero.subjects.registry import find_subject


class Worker:
    """Answers requests with one executor."""

    def __init__(self, executor: Executor) -> None:
        """Take the executor that runs all cases."""
        self._executor = LeakWatch(executor)

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
        return {"observation": to_json(self._executor.run(subject, case))}

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
        _send(channel, worker.answer(request))


def _send(channel: Channel, answer: Json) -> None:
    """Send an answer; one that is no JSON is a bug of ours, and no death either."""
    try:
        channel.send(answer)
    except (TypeError, ValueError) as error:
        text = f"an answer that is no JSON: {error}"
        channel.send(_error("InternalError", text, []))


def _error(name: str, message: str, notes: list[str]) -> Json:
    return {"error": name, "message": message, "notes": notes}
