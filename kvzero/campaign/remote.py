"""A worker's place whose work is done elsewhere: slice after slice, by a cluster.

It stands where `kvzero.campaign.slot` stands in a campaign of one machine, and the
board is the same; so a campaign of many machines draws the same cases, is written down,
shown and resumed in the same way. Who runs a slice, and where it runs again if it is
lost, is the cluster's to decide.
"""

from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from kvzero.campaign.board import Board
from kvzero.campaign.findings import Entry, entry_from_json
from kvzero.campaign.slices import Brought, draw_arguments, shrink_arguments
from kvzero.errors import EnvironmentMissingError

Json = Any  # a JSON document

SLICE_SECONDS = 10.0
"""Time of a slice: what a lost machine costs, and how late a finding is told."""
LEAST_SECONDS = 0.1
POLL_SECONDS = 0.5
START_SECONDS = 120.0
"""Time for what a machine does before the first case of a slice."""
SILENT_SECONDS = 900.0
"""Time in which some slice must come back: machines may be lost, or busy, but not all
of them for ever."""


class Task(Protocol):
    """A slice that a cluster works on."""

    def wait(self, seconds: float) -> bool:
        """Return whether it is done, after some time at most."""

    def result(self) -> Brought:
        """Return what it brought, once it is done.

        Raises:
            KvzeroError: It could not be worked, or was lost too often.
        """

    def cancel(self) -> None:
        """Let it go, wherever it is."""


class Cluster(Protocol):
    """Machines that work on slices."""

    def submit(self, work: str, arguments: Json, seconds: float) -> Task:
        """Begin a slice; the arguments are those of `slices.carried_out`."""


@dataclass
class RemotePlaces:
    """Makes the places of one campaign, which share a cluster.

    Attributes:
        cluster: What works on slices.
        heard: When a slice came back last.
    """

    cluster: Cluster
    heard: float = field(default_factory=monotonic)

    def __call__(self, board: Board, index: int) -> "RemoteSlot":
        """Return the place of a worker."""
        return RemoteSlot(self, board, index)


class RemoteSlot:
    """One worker's place.

    Attributes:
        index: Counts the workers of the campaign from 0.
        worker: The worker's number.
        state: What goes on here, in one word.
        pid: None: its processes are elsewhere.
        resident_bytes: Memory that it takes on this machine.
    """

    pid: int | None = None
    resident_bytes = 0

    def __init__(self, places: RemotePlaces, board: Board, index: int) -> None:
        """Prepare; `run` gives work."""
        self.index = index
        self.worker = board.settings.first_worker + index
        self.state = "starting"
        self._places = places
        self._board = board

    def run(self) -> None:
        """Have the row worked until the campaign is over; an error ends it."""
        try:
            while not self._board.is_over(self.index):
                self._draw()
                self._shrink_all()
            self._shrink_all()
        except BaseException as error:  # whatever it is, it must not be lost here
            if not self._board.cut.is_set():
                self._board.fail(error)
        finally:
            self.state = "stopped"

    def _draw(self) -> None:
        """Have one slice of the row worked, and take what it brought."""
        board = self._board
        seconds = SLICE_SECONDS
        if board.settings.seconds is not None:
            left = board.settings.seconds - board.elapsed()
            seconds = max(min(seconds, left), LEAST_SECONDS)
        self.state = "fuzzing"
        arguments = draw_arguments(board, self.index)
        brought = self._brought("draw", arguments, seconds, SLICE_SECONDS)
        for report in brought.reports if brought else ():
            board.take(self.index, report)
        if brought and brought.error is not None:
            raise brought.error

    def _shrink_all(self) -> None:
        """Have shrunk what nobody shrinks yet."""
        while self._board.may_shrink():
            entry = self._board.findings.claim()
            if entry is None:
                return
            self.state = "shrinking"
            self._shrink(entry)

    def _shrink(self, entry: Entry) -> None:
        board = self._board
        arguments = shrink_arguments(board, self.index, entry)
        seconds = board.settings.shrink_seconds
        brought = self._brought("shrink", arguments, seconds, seconds + START_SECONDS)
        if brought is not None and brought.settled is not None:
            board.settle(
                self.worker, entry, entry_from_json(brought.settled, "settled")
            )
            return
        board.findings.unclaim(entry)
        if brought is not None and brought.error is not None:
            raise brought.error

    def _brought(
        self, work: str, arguments: Json, seconds: float, allowance: float
    ) -> Brought | None:
        """Return what a slice brought; None: the campaign does not wait for it.

        Args:
            work: As for `Cluster.submit`.
            arguments: As for `Cluster.submit`.
            seconds: As for `Cluster.submit`.
            allowance: How long to wait, beside the time of a case, once the campaign
                stops: the slice may wait for a machine, or be lost with one.

        Raises:
            EnvironmentMissingError: Nothing comes back from the cluster any more.
        """
        task = self._places.cluster.submit(work, arguments, seconds)
        while not task.wait(POLL_SECONDS):
            if self._board.cut.is_set() or self._is_late(allowance):
                task.cancel()
                return None
            self._check_silence(task, seconds)
        brought = task.result()
        self._places.heard = monotonic()
        return brought

    def _is_late(self, allowance: float) -> bool:
        board = self._board
        board.is_over(self.index)  # which notes that the time is up
        if board.shrink_until is None:
            return False
        stopped = board.shrink_until - board.settings.shrink_seconds
        return monotonic() >= stopped + board.settings.case_seconds + allowance

    def _check_silence(self, task: Task, seconds: float) -> None:
        most = SILENT_SECONDS + seconds
        if monotonic() - self._places.heard > most:
            task.cancel()
            raise EnvironmentMissingError(
                f"cluster=silent for {most:.0f} s, but must give slices back: it has "
                f"no free machine, or lost them all"
            )
