"""A slice of one worker's row of cases, on whatever machine: plain data in and out.

What a slice brings is the reports that a worker makes in a campaign of one machine, and
they go to the same board. A slice begins at a place in the row and brings nothing until
it is done, so one that is lost with its machine is worked again from the same place,
with the same cases: nothing is lost, and nothing counted twice.
"""

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import kvzero
from kvzero.campaign.board import Board
from kvzero.campaign.campaign import counting_judge
from kvzero.campaign.counts import counts_to_json, pace_to_json
from kvzero.campaign.coverage import Coverage, coverage_from_json
from kvzero.campaign.findings import Entry, entry_from_json
from kvzero.campaign.folder import Folder
from kvzero.campaign.gpus import VARIABLE
from kvzero.campaign.judging import Judged
from kvzero.campaign.pace import Pace
from kvzero.campaign.position import Position, position_from_json
from kvzero.campaign.settings import Settings, settings_from_json
from kvzero.campaign.slot import Slot
from kvzero.campaign.tally import Tally
from kvzero.casefile import decode_case, encode_case, read_case_file, write_case_file
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.transcript import to_json

Json = Any  # a JSON document


@dataclass(frozen=True)
class Brought:
    """What a slice brought.

    Attributes:
        reports: Reports for `Board.take`, in their order.
        settled: What shrinking has made of a finding, as `Entry.as_json` tells it, if
            that was the slice's work.
        error: What ended the slice, if it was an error; the reports stand.
    """

    reports: tuple[Json, ...] = ()
    settled: Json | None = None
    error: BaseException | None = None


@dataclass
class SliceBoard(Board):
    """The board of one slice: it records all reports, and is over when the time is up.

    Attributes:
        slice_seconds: Time from the first case on: what a machine must prepare before
            does not count, so that every slice comes some way.
        shrinks: Findings are shrunk here.
        reports: What the slice brought so far.
    """

    slice_seconds: float = 0.0
    shrinks: bool = False
    reports: list[Json] = field(default_factory=list)
    _ends: float | None = None

    def take(self, index: int, report: Json) -> None:
        """Take the report of a worker, and keep it for whoever gave the slice."""
        super().take(index, report)
        self.reports.append(report)
        if self._ends is None and report["counts"]["cases"]:
            self._ends = monotonic() + self.slice_seconds

    def take_death(self, index: int, judged: Judged, position: Position) -> None:
        """Take a case that a worker died of, as a report like any other."""
        self.take(index, death_report(judged, position))

    def is_over(self, index: int) -> bool:
        """Return whether the slice is done."""
        if self._ends is not None and monotonic() >= self._ends:
            self.stop("the slice is done")
        return super().is_over(index)

    def may_shrink(self) -> bool:
        """Return whether to shrink: in slices that draw, nobody does."""
        return self.shrinks and super().may_shrink()


def death_report(judged: Judged, position: Position) -> Json:
    """Return the report of one case that a worker died of.

    Args:
        judged: The case.
        position: Where the worker stands after it.
    """
    alone = Tally()
    alone.add(judged)
    case, seen = encode_case(judged.case), to_json(judged.observation)
    violations = [
        {"violation": asdict(found.violation), "case": case, "observation": seen}
        for found in alone.found.values()
    ]
    return {
        "position": position.as_json(),
        "begun": 0,
        "counts": counts_to_json(alone),
        "pace": pace_to_json(Pace()),
        "seen": [
            [list(identity), each.count] for identity, each in alone.found.items()
        ],
        "violations": violations,
        "met": Coverage().as_json(),
        "kept": [],
        "errors": [],
        "fell_back": 0,
        "retired": False,
    }


def carried_out(work: str, code: str, arguments: Json, seconds: float) -> Brought:
    """Do the work of a slice, by its name.

    Args:
        work: ``"draw"`` or ``"shrink"``.
        code: What `code_version` says where the campaign runs.
        arguments: As for the function of that name.
        seconds: As for the function of that name.

    Raises:
        EnvironmentMissingError: This machine has another kvzero.
    """
    if code != code_version():
        raise EnvironmentMissingError(
            f"kvzero={code_version()} on {platform.node()}, but must be {code} as "
            f"where the campaign runs: install the same there"
        )
    return {"draw": draw, "shrink": shrink}[work](arguments, seconds)


@cache
def code_version() -> str:
    """Return the version of kvzero, and a digest of its source.

    The same cases follow from the same seed only where the code is the same.
    """
    root = Path(kvzero.__file__).parent
    digest = sha256()
    # The walk follows the link that `strategies` is in a checkout.
    for folder, folders, names in os.walk(root, followlinks=True):
        folders.sort()
        for path in sorted(Path(folder, name) for name in names):
            if path.suffix in {".py", ".json"}:
                digest.update(path.relative_to(root).as_posix().encode())
                digest.update(path.read_bytes())
    return f"{kvzero.__version__} (source {digest.hexdigest()[:12]})"


def draw_arguments(board: Board, index: int) -> Json:
    """Return what `draw` needs to go on with a worker's row.

    Args:
        board: The campaign's.
        index: Which of its workers.
    """
    position = board.position(index)
    files = {}
    if position.stage == "corpus":
        names = board.replay[index :: board.settings.workers]
        paths = {name: board.folder.case_path(name) for name in names}
        files = {
            name: encode_case(read_case_file(path).case) for name, path in paths.items()
        }
    usual = [entry for entry in board.findings if entry.judged.observation.died]
    with board.lock:
        coverage = board.coverage.as_json()
    return {
        "settings": board.settings.as_json(),
        "index": index,
        "position": position.as_json(),
        "replay": files,
        "coverage": coverage,
        "usual": [entry.as_json() for entry in usual if entry.state == "settled"],
    }


def draw(arguments: Json, seconds: float) -> Brought:
    """Draw and judge cases of a worker's row for some time.

    Args:
        arguments: What `draw_arguments` returned.
        seconds: Time from the first case on.
    """
    with _board(arguments, seconds) as board:
        index = arguments["index"]
        for entry in arguments["usual"]:
            known = entry_from_json(entry, "usual")
            board.findings.restore(known, board.judge.known_as(known.violation))
        board.coverage = coverage_from_json(arguments["coverage"])
        board.positions[index] = position_from_json(arguments["position"])
        board.replay = _replayed(arguments, board)
        Slot(board, index).run()
        return Brought(tuple(board.reports), error=board.error)


def shrink_arguments(board: Board, index: int, entry: Entry) -> Json:
    """Return what `shrink` needs.

    Args:
        board: The campaign's.
        index: Which worker's place shrinks.
        entry: What to shrink.
    """
    return {
        "settings": board.settings.as_json(),
        "index": index,
        "entry": entry.as_json(),
    }


def shrink(arguments: Json, seconds: float) -> Brought:
    """Shrink a finding.

    Args:
        arguments: What `shrink_arguments` returned.
        seconds: Time for it.
    """
    with _board(arguments, seconds) as board:
        board.shrinks = True
        entry = entry_from_json(arguments["entry"], "entry")
        board.findings.restore(entry, None)
        board.why = "only to shrink"
        Slot(board, arguments["index"]).run()
        settled = entry.as_json() if entry.state == "settled" else None
        return Brought(settled=settled, error=board.error)


@contextmanager
def _board(arguments: Json, seconds: float) -> Iterator[SliceBoard]:
    """Give the board of a slice, in a folder of its own that goes with it."""
    settings = _here(settings_from_json(arguments["settings"]), seconds)
    with TemporaryDirectory(prefix="kvzero-slice-") as path:
        yield SliceBoard(
            settings,
            Folder(Path(path)),
            counting_judge(settings),
            _ignore,
            Path(path) / "regressions",
            slice_seconds=seconds,
        )


def _here(settings: Settings, seconds: float) -> Settings:
    """Return a campaign's settings as a slice of it has them on this machine."""
    given = os.environ.get(VARIABLE)
    gpus = (given,) if settings.executor == "device" and given else ()
    return replace(
        settings, seconds=None, max_failures=None, shrink_seconds=seconds, gpus=gpus
    )


def _ignore(_event: str, _fields: Mapping[str, Any]) -> None:  # Any: JSON
    """Tell nobody: whoever takes the reports tells the same events."""


def _replayed(arguments: Json, board: SliceBoard) -> list[str]:
    """Write the worker's cases of the corpus down; return names as a board has them.

    A worker runs one of `workers`, from its index on; only its own are needed here.
    """
    mine: Json = arguments["replay"]
    for name, encoded in mine.items():
        write_case_file(board.folder.case_path(name), decode_case(encoded))
    workers = board.settings.workers
    names = [""] * (len(mine) * workers)
    names[arguments["index"] :: workers] = mine
    return names
