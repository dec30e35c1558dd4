"""A campaign: workers that look for faults unattended, and survive what they find.

This process coordinates. It touches no GPU and runs no subject; each worker has a
thread here that keeps it at work (`kvzero.campaign.slot`), and all of them share a
board (`kvzero.campaign.board`) that is written down every second.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any, Protocol

from kvzero.campaign.board import STATE_VERSION, Board
from kvzero.campaign.confirming import Confirmed
from kvzero.campaign.coverage import total_features
from kvzero.campaign.events import EventLog
from kvzero.campaign.findings import Entry
from kvzero.campaign.folder import Folder
from kvzero.campaign.judging import Judge
from kvzero.campaign.outcome import RunResult
from kvzero.campaign.settings import (
    Settings,
    known_from_json,
    settings_from_json,
)
from kvzero.campaign.slot import Slot
from kvzero.campaign.watching import Snapshot, Watcher, WorkerView
from kvzero.campaign.workers import worker_server
from kvzero.errors import CaseError
from kvzero.executors.isolated import IsolatedExecutor, subject_for
from kvzero.executors.leaks import resident_bytes
from kvzero.report.sampling import Sampler
from kvzero.subjects.protocol import HasNotes

Json = Any  # a JSON document

TICK_SECONDS = 0.2
STATE_SECONDS = 1.0
"""Time between two writes of the state: what a kill costs is judged again."""
STATUS_SECONDS = 10.0
STOP_SECONDS = 2.0
"""Time for workers to come to rest by themselves when all of it is stopped."""
JOIN_SECONDS = 30.0


class Place(Protocol):
    """One worker's place; it runs in a thread of its own."""

    index: int
    worker: int
    state: str

    @property
    def pid(self) -> int | None:
        """Return the worker's process id, where there is a worker on this machine."""

    @property
    def resident_bytes(self) -> int:
        """Return the memory that the worker takes on this machine."""

    def run(self) -> None:
        """Work until the campaign is over."""


@dataclass
class Campaign:
    """One campaign, coordinated on this machine.

    Attributes:
        settings: What it does.
        path: Its folder; None: a temporary one, with nothing to resume.
        regressions: Folder of the case files of failures.
        resume: Go on from where the folder's campaign stands.
        log: Path of the event log; None: in its folder.
        watcher: Sees all of it.
        known: Known findings, and whether they still fail.
        place: Makes a worker's place: on this machine, or one that has work done
            elsewhere.
        interrupted: Somebody pressed Ctrl-C.
        error: What ended it, if it was an error; its findings stand.
    """

    settings: Settings
    path: Path | None = None
    regressions: Path = Path("regressions")
    resume: bool = False
    log: Path | None = None
    watcher: Watcher = field(default_factory=Watcher)
    known: tuple[Confirmed, ...] = ()
    place: Callable[[Board, int], Place] = Slot
    interrupted: bool = False
    error: BaseException | None = None

    def run(self) -> RunResult:
        """Look for faults until there is a reason to stop.

        Raises:
            KvzeroError: It cannot begin: the folder holds what it must not, the
                subject is not found, another campaign is at work in the folder.
        """
        with ExitStack() as stack:
            self._open(stack)
            self._start()
            try:
                self._watch()
            except KeyboardInterrupt:
                self.interrupted = True
            self._stop()
            return self._result()

    def _open(self, stack: ExitStack) -> None:
        """Make or read all that there is before the first worker."""
        path = self.path
        if path is None:
            path = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="kvzero-"))
            )
        self._folder = Folder(path)
        self._folder.lock()
        stack.callback(self._folder.unlock)
        self._judge = counting_judge(self.settings)
        self._board = Board(
            self.settings, self._folder, self._judge, self._on_event, self.regressions
        )
        state = self._folder.read_state() if self.resume else None
        files = self._folder.case_files()
        if state is None:
            self._folder.forget()
            self._board.replay = [file.path.name for file in files]
        else:
            self._board.restore(state, str(path / "campaign.json"))
        self._log = EventLog(self.log or self._folder.log)
        stack.callback(self._log.close)
        self._resumed = state is not None

    def _start(self) -> None:
        self._on_event(
            "start",
            {
                "settings": self.settings.as_json(),
                "resumed": self._resumed,
                "corpus": len(self._board.replay),
            },
        )
        self._slots = [
            self.place(self._board, index) for index in range(self.settings.workers)
        ]
        self._peaks = [0] * len(self._slots)
        self._sampler = Sampler()
        self._paces = [(monotonic(), self._board.tally.launches)]
        self._write_state()
        self._threads = [Thread(target=s.run, daemon=True) for s in self._slots]
        for thread in self._threads:
            thread.start()

    def _watch(self) -> None:
        """Look at everything and write it down, until all threads are done."""
        state_at = status_at = monotonic()
        while any(thread.is_alive() for thread in self._threads):
            sleep(TICK_SECONDS)
            now = monotonic()
            self._peaks = [
                max(peak, slot.resident_bytes)
                for peak, slot in zip(self._peaks, self._slots)
            ]
            snapshot = self.snapshot()
            self._sampler.add(snapshot.seconds, snapshot.cases, snapshot.launches)
            self.watcher.look(snapshot)
            if now - state_at >= STATE_SECONDS:
                state_at = now
                self._write_state()
            if now - status_at >= STATUS_SECONDS:
                status_at = now
                self._on_event("status", self.snapshot().as_json())
                self._peaks = [0] * len(self._slots)

    def _stop(self) -> None:
        """End all workers, however busy, and write down where things stand."""
        board = self._board
        if self.interrupted:
            board.stop("interrupted")
            board.cut.set()
        board.stop("all cases are drawn")
        self._join(STOP_SECONDS)
        if any(thread.is_alive() for thread in self._threads):
            worker_server(self.settings.executor).close()  # takes its children along
            self._join(JOIN_SECONDS)
        self._write_state()
        self._on_event("stop", {"why": board.why, **self.snapshot().as_json()})
        self.error = board.error

    def _join(self, seconds: float) -> None:
        until = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(until - monotonic(), 0))

    def _write_state(self) -> None:
        try:
            self._folder.write_state(self._board.as_json())
        except Exception as error:  # whatever it is, it ends the campaign in order
            self._board.fail(error)

    def _on_event(self, event: str, fields: Mapping[str, Any]) -> None:  # Any: JSON
        """Write an event down; what cannot be written ends the campaign."""
        self.watcher.event(event, fields)
        try:
            self._log.write(event, self._board.elapsed(), dict(fields))
        except Exception as error:  # whatever it is, it ends the campaign in order
            self._board.fail(error)

    def snapshot(self) -> Snapshot:
        """Return how things stand."""
        board, settings = self._board, self.settings
        seconds, now = board.elapsed(), monotonic()
        launches = board.tally.launches
        self._paces = [*self._paces[-50:], (now, launches)]
        since, before = self._paces[0]
        left = None
        if settings.seconds is not None and not board.why:
            left = max(settings.seconds - seconds, 0.0)
        drawn = sum(position.behind for position in list(board.positions.values()))
        failures = board.findings.failures
        return Snapshot(
            seconds,
            left,
            board.tally.cases,
            None if settings.cases is None else max(settings.cases - drawn, 0),
            launches,
            (launches - before) / max(now - since, 1e-9),
            board.met.features,
            board.met.num_pairs,
            tuple(ranked(failures)),
            sum(1 for entry in board.findings if not entry.fails),
            tuple(self._worker_view(slot) for slot in self._slots),
            resident_bytes(),
            board.why,
        )

    def _worker_view(self, slot: Place) -> WorkerView:
        return WorkerView(
            slot.worker,
            slot.pid,
            self._board.worker_cases.get(slot.index, 0),
            slot.state,
            slot.resident_bytes,
            max(self._peaks[slot.index], slot.resident_bytes),
        )

    def _result(self) -> RunResult:
        board = self._board
        for entry in ranked(board.findings):
            entry.count = max(entry.count, 1)  # seen, if not counted before a kill
            board.tally.found[entry.identity] = entry
        return RunResult(
            self.settings.subject,
            self.settings.executor,
            board.tally,
            board.elapsed(),
            strict_cost=self.settings.strict_cost,
            seed=self.settings.seed,
            workers=self.settings.workers,
            notes=tuple(self._notes()),
            interrupted=self.interrupted,
            known=self.known,
            pace=board.pace,
            coverage=board.met,
            samples=self._sampler.samples,
        )

    def _notes(self) -> list[str]:
        board, subject = self._board, self._judge.subject
        notes = list(subject.notes) if isinstance(subject, HasNotes) else []
        if board.fell_back:
            notes.append(
                f"{board.fell_back} cases do not fit the device's memory and were "
                f"judged by the footprint"
            )
        if board.errors:
            notes.append(
                f"{board.errors} cases met an error of the harness: see the log's "
                f"events named error, and report them"
            )
        if any(entry.state != "settled" for entry in board.findings.failures):
            notes.append("not all that was found is shrunk: --resume shrinks it")
        notes.append(
            f"{board.met.features} of {total_features()} features met, "
            f"{board.met.num_pairs:,} pairs of them; stopped because "
            f"{_because(board.why)}"
        )
        return notes

    @property
    def harness_errors(self) -> int:
        """Return how many cases met an error of the harness."""
        return self._board.errors


def _because(why: str) -> str:
    reasons = {
        "error": "of an error",
        "interrupted": "it was interrupted",
        "time is up": "the time is up",
        "enough failures": "enough failures were found",
    }
    return reasons.get(why, why)


def ranked(entries: Iterable[Entry]) -> list[Entry]:
    """Return findings, the gravest first: faults, what is not flaky, the most seen."""
    order = ("fault", "refusal", "cost")
    return sorted(
        entries,
        key=lambda e: (order.index(e.violation.kind), e.flaky, -e.count),
    )


def counting_judge(settings: Settings) -> Judge:
    """Return a judge that knows which violations count; it runs cases in isolation."""
    worker_server(settings.executor)
    executor = IsolatedExecutor(
        settings.executor,
        max_programs=settings.max_programs,
        isolation=settings.isolation(0),
    )
    fallback = None
    if settings.executor == "device":
        fallback = IsolatedExecutor("footprint", max_programs=settings.max_programs)
    with redirect_stdout(sys.stderr):  # an imported module may print
        subject = subject_for(settings.subject, executor)
    executor.close()
    known = tuple(known_from_json(each) for each in settings.known)
    return Judge(subject, executor, fallback, settings.strict_cost, known)


def default_workers(executor: str, gpus: tuple[str, ...]) -> int:
    """Return how many workers ``--workers auto`` means: one a GPU, or one a CPU."""
    if executor == "device":
        return max(len(gpus), 1)
    return max(len(os.sched_getaffinity(0)), 1)


def resumed_settings(path: Path, asked: Mapping[str, Any]) -> Settings:  # Any: JSON
    """Return the settings of a folder's campaign, with what is asked for besides.

    Args:
        path: The folder.
        asked: Settings to change; only budgets may be.

    Raises:
        CaseError: There is no campaign in the folder, or none that can be read.
    """
    state = Folder(path).read_state()
    name = str(path / "campaign.json")
    if not isinstance(state, dict) or state.get("kvzero_campaign") != STATE_VERSION:
        raise CaseError(
            f"{name}, but must hold a campaign of version {STATE_VERSION}: --resume "
            f"goes on with one that was begun with --corpus"
        )
    settings = settings_from_json(state["settings"], f"{name}: settings")
    return replace(settings, **asked)
