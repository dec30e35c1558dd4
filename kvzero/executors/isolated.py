"""Any executor, in a worker process that a subject may kill, hang or exhaust.

The worker is forked in milliseconds and lives on from case to case. A case is written
to a journal before it is sent; when the worker dies, outlives the deadline or takes too
much memory, that is what was observed of the case, so it shrinks, is saved and replays
as any other, and the next case gets a new worker. A worker that dies after it has run
other cases may be their victim: the case is run again by a fresh one, and an end that
does not repeat says so.
"""

import os
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvzero import errors
from kvzero.case import Case
from kvzero.casefile import encode_case
from kvzero.errors import InternalError, KvzeroError, SubjectError
from kvzero.executors import Executor
from kvzero.executors.channel import Json
from kvzero.executors.fork_server import Child, ChildGoneError, shared_fork_server
from kvzero.executors.journal import Journal
from kvzero.executors.transcript import from_json
from kvzero.memory import Pool
from kvzero.observation import Death, Observation, Semantics
from kvzero.subjects.offers import offers
from kvzero.subjects.protocol import Contract, Subject, Zeroer
from kvzero.subjects.registry import find_subject, subject_names

DEADLINE_SECONDS = 120.0
"""Time of a case: a preset at full size takes seconds, and a machine may be busy."""
MEMORY_BYTES = 6 * 2**30
"""Resident memory of a worker: the largest presets take under 4 GiB."""
ISOLATED = "isolated"
"""Stands in the environment of what a worker observed."""

_SEMANTICS: Mapping[str, Semantics] = {
    "device": "machine",
    "footprint": "TTIR",
    "host": "interpreter",
}
_TARGET = "kvzero.executors.isolated_worker:serve"
_NOT_AGAIN = "; not again in a fresh process: by chance, or an earlier case's doing"


@dataclass(frozen=True)
class Isolation:
    """How a worker process is kept.

    Attributes:
        deadline_seconds: Time that a case may take, imports and compilation included.
        memory_bytes: Resident memory that the worker may take; memory of a GPU is not
            counted.
        journal: Its journal; workers never share one. None: a temporary file, which
            stays only where this process is killed.
        environment: More environment variables of the worker, such as
            ``{"CUDA_VISIBLE_DEVICES": "2"}`` for the GPU of that entry.
    """

    deadline_seconds: float = DEADLINE_SECONDS
    memory_bytes: int = MEMORY_BYTES
    journal: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class IsolatedExecutor:
    """Runs subjects with an executor in a worker process.

    Each has a worker of its own, so any number may be at work at once, one thread each.
    It is an executor as any other; `close` ends the worker.

    Attributes:
        name: Name of the executor that the worker runs.
    """

    def __init__(
        self,
        name: str,
        *,
        max_programs: int | None = None,
        isolation: Isolation | None = None,
    ) -> None:
        """Prepare; the worker starts with the first case.

        Args:
            name: One of `kvzero.executors.EXECUTOR_NAMES`.
            max_programs: Programs evaluated for one case at most.
            isolation: How the worker is kept.
        """
        self.name = name
        self._isolation = isolation or Isolation()
        self._arguments = {
            "name": name,
            "max_programs": max_programs,
            "memory_bytes": self._isolation.memory_bytes,
        }
        self._child: Child | None = None
        self._served = 0
        self._journal: Journal | None = None
        self._forget_journal: Callable[[], object] = lambda: None
        self._versions = ""

    @property
    def resident_bytes(self) -> int:
        """Return the memory that the worker takes now; 0 where there is none."""
        child = self._child
        return 0 if child is None else child.resident_bytes

    def fits(self, case: Case) -> bool:
        """Return whether the worker can have the case's memory."""
        answer = self._ask_surely({"ask": "fits", "case": encode_case(case)})
        return bool(answer["fits"])

    def describe(self, name: str) -> "DescribedSubject":
        """Return a subject as the worker finds it, which is not imported here.

        Raises:
            SubjectError: There is no such subject, or importing it kills or hangs the
                worker.
        """
        try:
            answer = _unless_error(self._ask({"ask": "describe", "subject": name}))
        except ChildGoneError as error:
            raise SubjectError(
                f"subject={name!r}, but its import must not end the process: "
                f"{error.death.text}"
            ) from None
        told = {k: _tuple(value) for k, value in answer["contract"].items()}
        return DescribedSubject(name, Contract(**told))

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case, or how the worker died of it.

        Raises:
            EnvironmentMissingError: The case does not fit the GPU, there is none, or no
                worker can be started.
            SubjectError: The worker cannot find the subject by its name.
        """
        name = importable_name(subject)
        encoded = encode_case(case)
        served = self._served
        seen = self._observe(subject.name, name, encoded)
        if seen.died is None or not served:
            return seen
        again = self._observe(subject.name, name, encoded)
        if again.died is not None:
            return again
        died = replace(seen.died, text=seen.died.text + _NOT_AGAIN)
        return replace(seen, died=died)

    def close(self) -> None:
        """End the worker and the journal."""
        self._drop()
        if self._journal is not None:
            self._journal.close()
            self._journal = None
            self._forget_journal()

    def _observe(self, subject: str, name: str, case: Json) -> Observation:
        """Run a case once, between two lines of the journal."""
        journal = self._writing()
        number = journal.begin(self.name, name, case)
        outcome = "error"
        try:
            seen = self._run_once(
                subject, {"ask": "run", "subject": name, "case": case}
            )
            outcome = seen.died.what if seen.died else "survived"
        finally:
            journal.end(number, outcome)
        environment = ", ".join(filter(None, (seen.environment, ISOLATED)))
        return replace(seen, subject=subject, environment=environment)

    def _run_once(self, subject: str, request: Json) -> Observation:
        try:
            seen = self._read(_unless_error(self._ask(request)))
        except ChildGoneError as error:
            seen = self._dead(subject, error.death)
        if seen.died is not None:
            self._drop()
        return seen

    def _read(self, answer: Json) -> Observation:
        """Return the observation in an answer; a wild process may answer anything."""
        try:
            return from_json(answer["observation"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = f"process answered with no observation: {error!r}"
            raise ChildGoneError(Death("answer-garbled", text)) from None

    def _dead(self, subject: str, death: Death) -> Observation:
        return dead_observation(subject, self.name, death, self._versions)

    def _ask(self, request: Json) -> Json:
        """Ask the worker; one that has died, or whose answer is not awaited, is gone.

        Raises:
            ChildGoneError: It died of the request.
        """
        child = self._living()
        isolation = self._isolation
        try:
            answer = child.ask(
                request,
                deadline_seconds=isolation.deadline_seconds,
                memory_bytes=isolation.memory_bytes,
            )
        except BaseException:
            self._drop()
            raise
        self._served += 1
        if child.resident_bytes > isolation.memory_bytes // 2:
            self._drop()  # it may leak slowly: what it holds is nobody's
        return answer

    def _ask_surely(self, request: Json) -> Json:
        """Ask what runs no code of a subject's; only an earlier case can spoil it."""
        try:
            return _unless_error(self._ask(request))
        except ChildGoneError:
            return _unless_error(self._ask(request))

    def _living(self) -> Child:
        """Return the worker, started if need be."""
        if self._child is None:
            server = shared_fork_server(interpreted=self.name == "host")
            self._versions = server.versions
            self._child = server.fork(
                _TARGET, self._arguments, environment=self._isolation.environment
            )
        return self._child

    def _drop(self) -> None:
        """End the worker; the next request gets a new one."""
        child, self._child, self._served = self._child, None, 0
        if child is not None:
            child.stop()

    def _writing(self) -> Journal:
        """Return the journal, begun if need be."""
        if self._journal is None:
            path = self._isolation.journal
            if path is None:
                file, name = tempfile.mkstemp(prefix="kvzero-", suffix=".jsonl")
                os.close(file)
                path = Path(name)
                self._forget_journal = weakref.finalize(
                    self, path.unlink, missing_ok=True
                )
            self._journal = Journal(path)
        return self._journal


def dead_observation(
    subject: str, executor: str, death: Death, versions: str = ""
) -> Observation:
    """Return what is observed of a case that its process died of."""
    semantics = _SEMANTICS[executor]
    return Observation(subject, executor, semantics, versions, died=death)


@dataclass(frozen=True, slots=True)
class DescribedSubject:
    """A subject that only workers import.

    Attributes:
        name: The name that every process finds it by.
        contract: Its contract.
    """

    name: str
    contract: Contract

    def build(self, pool: Pool) -> Zeroer:
        """Refuse: it is built in workers.

        Raises:
            InternalError: Always.
        """
        del pool
        raise InternalError(f"subject={self.name!r}, but must be built in a worker")


def is_built_in(name: str) -> bool:
    """Return whether a subject is one of kvzero's, which do their process no harm."""
    return ":" not in name and all(offer.name != name for offer in offers())


def subject_for(name: str, executor: Executor) -> Subject:
    """Return the subject that an executor runs under a name.

    What a worker process runs, and is not kvzero's own, is imported only there: an
    import can kill as well as a call.

    Args:
        name: A known name or ``module:attribute``.
        executor: The executor.

    Raises:
        SubjectError: There is no such subject.
    """
    if isinstance(executor, IsolatedExecutor) and not is_built_in(name):
        return executor.describe(name)
    return find_subject(name)


def importable_name(subject: Subject) -> str:
    """Return a name under which another process finds the subject."""
    if ":" in subject.name or subject.name in subject_names():
        return subject.name
    for name, module in list(sys.modules.items()):
        for attribute, value in list(vars(module).items()) if module else ():
            if value is subject and name != "__main__":
                return f"{name}:{attribute}"
    return subject.name


def _unless_error(answer: Json) -> Json:
    """Return an answer, or raise the error that it tells of."""
    if not isinstance(answer, dict) or "error" not in answer:
        return answer
    kind = getattr(errors, str(answer["error"]), KvzeroError)
    error = kind(answer["message"])
    for note in answer["notes"]:
        error.add_note(note)
    raise error


def _tuple(value: Json) -> Json:
    return tuple(value) if isinstance(value, list) else value
