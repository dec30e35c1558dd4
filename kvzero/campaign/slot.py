"""One place for a worker: a thread that keeps a process at work and outlives it.

It asks its worker for one slice of work after another. A worker that dies, outlives the
deadline of a case or takes too much memory is replaced, its death is laid to the case
that caused it, and what was found is shrunk in isolation, while no worker runs here.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event

from kvzero import errors
from kvzero.campaign.attribution import afresh, guilty, judged_death
from kvzero.campaign.board import Board
from kvzero.campaign.findings import Entry
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.shrinking import HANG_SECONDS, shrunk
from kvzero.campaign.tally import Found
from kvzero.campaign.workers import TARGET, worker_server
from kvzero.case import Case
from kvzero.casefile import decode_case
from kvzero.errors import CaseError, EnvironmentMissingError, KvzeroError
from kvzero.executors import Executor
from kvzero.executors.channel import Json
from kvzero.executors.fork_server import Child, ChildGoneError
from kvzero.executors.isolated import IsolatedExecutor
from kvzero.executors.journal import Entry as Journaled
from kvzero.executors.journal import entries, unfinished
from kvzero.observation import Death, Observation
from kvzero.properties.the_process_survives import NAME as SURVIVES
from kvzero.properties.verdict import Identity

SLICE_SECONDS = 0.25
"""Time that a worker works between two reports."""
START_SECONDS = 120.0
"""Time for what a worker does before its first case: imports, and a GPU's context. No
case runs meanwhile, so one that hangs is never given as long."""
WARM_CASES = 32
"""Cases after which a worker holds what it always will: a GPU's context alone takes
more than it may grow."""
GROWTH_BYTES = 2**28
"""Memory that a worker may take beyond what it took once it was warm: what grows
slowly, in us, in Hypothesis, in Triton or in the subject, goes with the process."""
MOST_BARREN = 3
"""Deaths in a row with no case to lay them to, after which the campaign stops."""


class CutShortError(Exception):
    """The campaign was stopped at once, whatever was going on."""


@dataclass
class CuttableJudge(Judge):
    """A judge that judges no more once the campaign is stopped at once.

    Attributes:
        cut: Set when it is.
    """

    cut: Event = field(default_factory=Event)

    def __call__(self, case: Case) -> Judged:
        """Run a case and judge what was seen.

        Raises:
            CutShortError: The campaign is stopped.
        """
        if self.cut.is_set():
            raise CutShortError
        return super().__call__(case)

    def observed(self, executor: Executor, case: Case) -> Observation:
        """Run a case in another process: nothing prints here.

        Several threads do, and may not exchange this process's streams.
        """
        return executor.run(self.subject, case)


class Growth:
    """Tells whether a worker has grown since it was warm."""

    def __init__(self) -> None:
        """Begin with a worker that has done nothing."""
        self._usual: int | None = None

    def is_too_much(self, taken: int, cases: int) -> bool:
        """Return whether a worker is to be replaced for the memory that it takes.

        Args:
            taken: Its resident memory now, in bytes.
            cases: Cases that it has begun.
        """
        if self._usual is None and cases >= WARM_CASES:
            self._usual = taken
        return self._usual is not None and taken > self._usual + GROWTH_BYTES


class Slot:
    """One worker's place.

    Attributes:
        index: Counts the workers of the campaign from 0.
        worker: The worker's number.
        state: What goes on here, in one word.
    """

    def __init__(self, board: Board, index: int) -> None:
        """Prepare; `run` starts the worker."""
        self.index = index
        self.worker = board.settings.first_worker + index
        self.state = "starting"
        self._board = board
        self._child: Child | None = None
        self._alone: list[IsolatedExecutor] = []
        self._judge = self._isolated_judge()
        self._own = len(self._alone)
        self._begun = 0
        self._growth = Growth()
        self._barren = 0
        self._is_ready = False

    @property
    def pid(self) -> int | None:
        """Return the worker's process id, where there is a worker."""
        child = self._child
        return None if child is None else child.pid

    @property
    def resident_bytes(self) -> int:
        """Return the memory of all processes at work here."""
        child, alone = self._child, self._alone
        taken = 0 if child is None else child.resident_bytes
        return taken + sum(each.resident_bytes for each in alone)

    def run(self) -> None:
        """Work until the campaign is over; an error ends the campaign."""
        try:
            self._finish_last_run()
            while not self._board.is_over(self.index):
                self._work()
                self._shrink_all()
            self._end("done")
            self._shrink_all()
        except BaseException as error:  # whatever it is, it must not be lost here
            if not self._board.cut.is_set():
                self._board.fail(error)
        finally:
            self._end("stopped")
            afresh(self._judge)
            self.state = "stopped"

    def _isolated_judge(self, seconds: float | None = None) -> Judge:
        """Return a judge that runs cases in processes of their own.

        Args:
            seconds: Deadline of a case; None: the campaign's.
        """
        settings, counting = self._board.settings, self._board.judge
        isolation = settings.isolation(self.index)
        if seconds is not None:
            least = min(seconds, isolation.deadline_seconds)
            isolation = replace(isolation, deadline_seconds=least)
        names = [settings.executor]
        if settings.executor == "device":
            names.append("footprint")
        executors = [
            IsolatedExecutor(
                name, max_programs=settings.max_programs, isolation=isolation
            )
            for name in names
        ]
        self._alone.extend(executors)
        return CuttableJudge(
            counting.subject,
            executors[0],
            executors[1] if len(executors) > 1 else None,
            counting.strict_cost,
            counting.known,
            cut=self._board.cut,
        )

    def _finish_last_run(self) -> None:
        """Run again, alone, the case at which the whole campaign was killed."""
        with suppress(OSError, CaseError):
            path = self._board.folder.journal(self.index)
            for entry in unfinished(path):
                self._note(self._judge(decode_case(entry.case)))
        afresh(self._judge)

    def _note(self, judged: Judged) -> None:
        """Note a death outside the row of cases; it is met there again, and counted."""
        if judged.observation.died is not None:
            for violation in judged.violations:
                self._board.see(self.worker, violation, judged)

    def _work(self) -> None:
        """Have the worker work for a slice, and take what came of it."""
        child = self._living()
        settings = self._board.settings
        work, deadline = 0.0, START_SECONDS
        if self._is_ready:
            self.state = "fuzzing"
            work, deadline = SLICE_SECONDS, settings.case_seconds + SLICE_SECONDS
        try:
            report = child.ask(
                {"seconds": work},
                deadline_seconds=deadline,
                memory_bytes=settings.case_bytes,
            )
        except ChildGoneError as error:
            if not self._board.cut.is_set():
                self._died(error.death)
            return
        if "failed" in report:
            raise _error_told(report["failed"])
        self._board.take(self.index, report)
        self._begun, self._is_ready = report["begun"], True
        if self._begun:
            self._barren = 0
        self._replace_grown(child, retired=report["retired"])

    def _replace_grown(self, child: Child, *, retired: bool) -> None:
        """Let a worker go that is spoilt, or has grown."""
        if retired:
            self._end("its process is spoilt")
        elif self._growth.is_too_much(child.resident_bytes, self._begun):
            self._end("it has grown")

    def _living(self) -> Child:
        """Return the worker, started if need be."""
        if self._child is None:
            board = self._board
            self.state = "starting"
            server = worker_server(board.settings.executor)
            self._begun, self._growth, self._is_ready = 0, Growth(), False
            self._child = server.fork(
                TARGET,
                self._arguments(),
                environment=board.settings.environment(self.index),
            )
            board.on_event(
                "worker-started", {"worker": self.worker, "pid": self._child.pid}
            )
        return self._child

    def _arguments(self) -> Json:
        board, index = self._board, self.index
        names = board.replay[index :: board.settings.workers]
        database = board.folder.database(board.settings.subject)
        with board.lock:
            coverage = board.coverage.as_json()
        return {
            "settings": board.settings.as_json(),
            "index": index,
            "position": board.position(index).as_json(),
            "replay": [str(board.folder.case_path(name)) for name in names],
            "database": str(database),
            "coverage": coverage,
            "journal": str(board.folder.journal(index)),
        }

    def _end(self, why: str) -> None:
        """End the worker, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            pid = child.pid
            child.stop()
            self._board.on_event(
                "worker-ended", {"worker": self.worker, "pid": pid, "why": why}
            )

    def _died(self, death: Death) -> None:
        """Lay a worker's death to a case, and go on behind it."""
        self.state = "attributing"
        self._end(death.text)
        journaled = self._since_report()
        if not journaled:
            self._barren += 1
            if self._barren >= MOST_BARREN:
                raise EnvironmentMissingError(
                    f"worker={self.worker}, but must live to run a case: {death.text}"
                )
            return
        index, judged = self._attributed(journaled, death)
        position = self._board.position(self.index).without(index)
        if not self._board.cut.is_set():
            self._board.take_death(self.index, judged, position)

    def _since_report(self) -> list[Journaled]:
        """Return the cases that the worker began since its last report."""
        path = self._board.folder.journal(self.index)
        try:
            return [each for each in entries(path) if each.number >= self._begun]
        except (OSError, CaseError):  # it was wild enough to spoil its journal
            return []

    def _attributed(
        self, journaled: Sequence[Journaled], death: Death
    ) -> tuple[int, Judged]:
        cases = [_case_of(entry) for entry in journaled]
        last = len(cases) - 1
        if journaled[last].outcome is None and self._is_usual(death):
            return last, judged_death(self._judge, cases[last], death)
        board = self._board
        found = guilty(self._judge, cases, death, board.cut.is_set)
        afresh(self._judge)
        return found

    def _is_usual(self, death: Death) -> bool:
        """Return whether such a death is settled already, and needs only a count."""
        identity = Identity(SURVIVES, "fault", death.what, "")
        entry = self._board.findings.get(identity)
        return entry is not None and entry.state == "settled" and not entry.flaky

    def _shrink_all(self) -> None:
        """Shrink what nobody shrinks yet, with no worker at work here."""
        while self._board.may_shrink():
            entry = self._board.findings.claim()
            if entry is None:
                return
            self._end("to shrink a finding")
            self.state = "shrinking"
            self._shrink(entry)

    def _shrink(self, entry: Entry) -> None:
        board = self._board
        quicker = self._quicker(entry)
        clock = _Clock(board)
        try:
            found = shrunk(replace(entry), self._judge, quicker, clock.is_up)
        finally:
            for judge in (self._judge, *quicker):
                afresh(judge)
            del self._alone[self._own :]
        if board.cut.is_set():
            board.findings.unclaim(entry)
        else:
            board.settle(self.worker, entry, found)

    def _quicker(self, found: Found) -> list[Judge]:
        """Return what may shrink a finding sooner than the campaign's own judge."""
        board, quicker = self._board, []
        if found.violation.what == "process-hung":
            quicker.append(self._isolated_judge(HANG_SECONDS))
        elif board.settings.executor == "device":
            fallback = self._judge.fallback
            if fallback is not None:
                quicker.append(replace(self._judge, executor=fallback, fallback=None))
        return quicker


class _Clock:
    """Time for shrinking one finding."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._until = board.elapsed() + board.settings.shrink_seconds

    def is_up(self) -> bool:
        """Return whether to shrink no further."""
        return not self._board.may_shrink() or self._board.elapsed() >= self._until


def _case_of(entry: Journaled) -> Case:
    return decode_case(entry.case, "journal")


def _error_told(told: Json) -> KvzeroError:
    """Return the error that a worker could not start for."""
    kind = getattr(errors, str(told["type"]), EnvironmentMissingError)
    error = kind(told["message"])
    for note in told["notes"]:
        error.add_note(note)
    return error if isinstance(error, KvzeroError) else EnvironmentMissingError(error)
