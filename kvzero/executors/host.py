"""Real CPU memory, in a process of its own: an independent witness.

Triton kernels run in Triton's interpreter, which has to be chosen before they are
defined, so a worker is started for it; subjects that are not Triton run there as they
are. The worker lives on from case to case. When a subject kills it or outlives the
deadline, that is what was observed, and the next case gets a new one.
"""

import json
import os
import subprocess
import sys
import weakref
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any

from kvzero import errors
from kvzero.case import Case
from kvzero.casefile import encode_case
from kvzero.errors import EnvironmentMissingError, KvzeroError
from kvzero.executors.transcript import from_json
from kvzero.memory import place
from kvzero.observation import Observation
from kvzero.subjects.protocol import Subject
from kvzero.subjects.registry import subject_names

MAX_PROGRAMS = 20_000
"""Programs of a case that are interpreted at most: about half a minute."""
DEADLINE_SECONDS = 120.0
MAX_BYTES = 2**30
"""Memory of a case: poison is written at about 300 MB/s on one core."""
_MOST_GAP_BYTES = 2**20
_READ_BYTES = 2**16


class WorkerGoneError(Exception):
    """The worker died or hung; the text says how."""


class Worker:
    """A child process that runs cases."""

    def __init__(self) -> None:
        """Start it."""
        environment = {
            **os.environ,
            "TRITON_INTERPRET": "1",
            # Subjects are found where they are found here.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvzero.executors.host_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._stop = weakref.finalize(self, _end, self._process)

    def ask(self, request: dict[str, Any], deadline_seconds: float) -> Any:  # Any: JSON
        """Return the answer to a request.

        Raises:
            WorkerGoneError: It died, or did not answer in time and was ended.
        """
        try:
            self._send(json.dumps(request).encode() + b"\n")
            return json.loads(self._receive(monotonic() + deadline_seconds))
        except (BrokenPipeError, EOFError):
            code = self._process.wait()
            raise WorkerGoneError(f"process died: {_exit_text(code)}") from None
        except TimeoutError:
            self.stop()
            raise WorkerGoneError(
                f"process hung: no answer in {deadline_seconds:g} s"
            ) from None

    def stop(self) -> None:
        """End the process."""
        self._stop()

    def _send(self, line: bytes) -> None:
        stream = self._process.stdin
        if stream is not None:
            stream.write(line)
            stream.flush()

    def _receive(self, deadline: float) -> bytes:
        stream = self._process.stdout
        received = bytearray()
        with DefaultSelector() as selector:
            if stream is not None:
                selector.register(stream, EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(deadline - monotonic(), 0)):
                    raise TimeoutError
                part = os.read(stream.fileno(), _READ_BYTES) if stream else b""
                if not part:
                    raise EOFError
                received += part
        return bytes(received)


class HostExecutor:
    """Runs subjects on CPU memory in a worker process."""

    name = "host"

    def __init__(
        self,
        *,
        max_programs: int | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        """Prepare; the worker starts with the first case.

        Args:
            max_programs: Programs of a case that are interpreted at most.
            deadline_seconds: Time that a case may take.
        """
        self._max_programs = MAX_PROGRAMS if max_programs is None else max_programs
        self._deadline_seconds = deadline_seconds
        self._worker: Worker | None = None

    def fits(self, case: Case) -> bool:
        """Return whether the case's memory can be had here in reasonable time."""
        addresses = place(case, most_gap_bytes=_MOST_GAP_BYTES)
        return addresses.total_bytes <= MAX_BYTES

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case.

        Raises:
            EnvironmentMissingError: The case's memory does not fit.
            SubjectError: The worker cannot find the subject by its name.
        """
        if not self.fits(case):
            raise EnvironmentMissingError(
                f"case beyond {MAX_BYTES} B, but the host executor takes no larger "
                f"one: use --executor footprint"
            )
        request = {
            "subject": _importable_name(subject),
            "case": encode_case(case),
            "max_programs": self._max_programs,
        }
        if self._worker is None:
            self._worker = Worker()
        try:
            answer = self._worker.ask(request, self._deadline_seconds)
        except WorkerGoneError as error:
            self._worker = None
            return Observation(
                subject.name, self.name, "interpreter", "cpu", died=str(error)
            )
        if "error" in answer:
            kind = getattr(errors, answer["error"], KvzeroError)
            raise kind(answer["message"])
        return from_json(answer["observation"])

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def _importable_name(subject: Subject) -> str:
    """Return a name under which another process finds the subject."""
    if ":" in subject.name or subject.name in subject_names():
        return subject.name
    for name, module in list(sys.modules.items()):
        for attribute, value in list(vars(module).items()) if module else ():
            if value is subject and name != "__main__":
                return f"{name}:{attribute}"
    return subject.name


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a worker and release its pipes."""
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _exit_text(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
