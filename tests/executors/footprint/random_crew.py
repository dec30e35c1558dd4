"""Processes that share work on random kernels; no crash and no hang ends the others.

Each holds a witness of its own and gets one piece of work at a time. A process that
dies or is late is killed with all that it has started, and another takes its place.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Generic, TypeVar

from tests.executors.footprint.differential import Witness, witness
from tests.executors.footprint.random_sides import Way

DEADLINE_S = 900.0
"""For one piece; the deadlines of a witness's own processes are shorter."""
PATIENCE_S = 20.0
"""For a process to end when it is no longer needed."""
_SPAWN = get_context("spawn")
_ENDED = (EOFError, ConnectionError)

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")
Task = Callable[[Witness, Piece], Answer]


@dataclass(frozen=True)
class Lost:
    """A piece of work that could not be done, and why."""

    why: str


def _serve(pipe: Connection, task: Task[Piece, Answer], ways: tuple[Way, ...]) -> None:
    """Do pieces of work until the pipe ends."""
    os.setsid()  # so that what it starts can be killed with it
    with witness(*ways) as made:
        while True:
            try:
                piece = pipe.recv()
            except _ENDED:
                return
            try:
                pipe.send(task(made, piece))
            except Exception as error:  # the next piece may be sound
                pipe.send(Lost(f"{type(error).__name__}: {error}"))


@dataclass
class _Worker(Generic[Piece]):
    """One process and what it is doing."""

    process: SpawnProcess
    pipe: Connection
    piece: Piece | None = None
    until: float = 0.0

    def give(self, piece: Piece, until: float) -> None:
        """Let it do a piece of work."""
        self.piece, self.until = piece, until
        self.pipe.send(piece)

    def dismiss(self) -> None:
        """Let it end by itself, with its folders removed."""
        self.pipe.close()
        self.process.join(PATIENCE_S)
        if self.process.is_alive():
            self.kill()

    def kill(self) -> None:
        """End it and all that it has started."""
        try:
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        except ProcessLookupError:
            self.process.kill()  # it has no group of its own yet
        self.process.join()
        self.pipe.close()


@dataclass
class Crew(Generic[Piece, Answer]):
    """Processes that do one kind of work.

    Attributes:
        task: What each does, at the top level of a module.
        workers: How many processes.
        ways: The sides of their witnesses.
        deadline_s: Time for one piece.
    """

    task: Task[Piece, Answer]
    workers: int
    ways: tuple[Way, ...] = ("interpreter",)
    deadline_s: float = DEADLINE_S
    _idle: list[_Worker[Piece]] = field(default_factory=list)
    _busy: list[_Worker[Piece]] = field(default_factory=list)

    def answers(self, pieces: deque[Piece]) -> Iterator[tuple[Piece, Answer | Lost]]:
        """Yield pieces with their answers, in the order in which they come.

        The caller may add pieces while it is served, and take those that wait away.
        """
        try:
            while pieces or self._busy:
                while pieces and len(self._busy) < self.workers:
                    self._hand_out(pieces.popleft())
                yield from self._received()
        finally:
            for worker in self._busy:
                worker.kill()
            for worker in self._idle:
                worker.dismiss()
            self._idle, self._busy = [], []

    def _hand_out(self, piece: Piece) -> None:
        worker = self._idle.pop() if self._idle else self._started()
        worker.give(piece, monotonic() + self.deadline_s)
        self._busy.append(worker)

    def _started(self) -> _Worker[Piece]:
        ours, theirs = _SPAWN.Pipe()
        arguments = (theirs, self.task, self.ways)
        process = _SPAWN.Process(target=_serve, args=arguments, daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _received(self) -> Iterator[tuple[Piece, Answer | Lost]]:
        """Yield the answers of those that have one, and the losses of the late."""
        patience = max(min(w.until for w in self._busy) - monotonic(), 0.0)
        ready = wait([worker.pipe for worker in self._busy], patience)
        now = monotonic()
        for worker in list(self._busy):
            if worker.pipe in ready or now >= worker.until:
                self._busy.remove(worker)
                assert worker.piece is not None
                yield worker.piece, self._answer(worker, worker.pipe in ready)

    def _answer(self, worker: _Worker[Piece], has_one: bool) -> Answer | Lost:
        why = f"no end within {self.deadline_s:g} s"
        if has_one:
            try:
                answer: Answer | Lost = worker.pipe.recv()
            except _ENDED:
                worker.process.join()
                why = f"its process ended with code {worker.process.exitcode}"
            else:
                self._idle.append(worker)
                return answer
        worker.kill()
        return Lost(why)
