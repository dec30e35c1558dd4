"""A fault is saved once, however many find it at the same moment.

Workers of a test run find the same fault side by side and shrink it to different cases.
Each looks at what is saved already, without holding anybody up, and only then takes the
folder's lock to write: if a file has come meanwhile, it looks again. What is saved is
never replaced: someone may have committed it.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

from kvzero.campaign.judging import Judge
from kvzero.campaign.outcome import save_found
from kvzero.campaign.tally import Found
from kvzero.casefile import CaseFile, read_case_file
from kvzero.errors import CaseError
from kvzero.executors.isolated import importable_name

LOCK_SECONDS = 30.0
"""How long to wait for others, who write one small file each."""
POLL_SECONDS = 0.01


def save_found_once(found: Found, judge: Judge, folder: Path) -> None:
    """Save the case of a violation, unless a saved one shows the same violation.

    It names the subject as another process finds it, if it can. What cannot be saved is
    no error: it says why instead of how to replay it.

    Args:
        found: What was found; its file, replay command and subject are set.
        judge: Judges the saved cases.
        folder: The folder of saved cases.
    """

    def is_same(path: Path) -> bool:
        file = _read(path)
        return file is not None and _shows(file, found, judge)

    def write() -> Path:
        save_found(found, folder)
        return Path(str(found.file))

    name = importable_name(judge.subject)
    seen = replace(found.judged.observation, subject=name)
    found.judged = replace(found.judged, observation=seen)
    home = folder / found.violation.property
    try:
        path = save_once(home, "*.json", is_same, write)
    except (OSError, CaseError) as error:  # what was found must still be told
        found.replay = f"not saved: {error}"
    else:
        found.file, found.replay = str(path), f"kvzero replay {shown_path(path)}"


def shown_path(path: Path) -> Path:
    """Return a path as one would type it here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def save_once(
    home: Path,
    pattern: str,
    is_same: Callable[[Path], bool],
    write: Callable[[], Path],
) -> Path:
    """Return the file of a finding: one that is there, or else a new one.

    Args:
        home: Its folder, made if need be.
        pattern: Which files of the folder may hold it.
        is_same: Whether a file holds the finding; may take its time.
        write: Writes the finding, and returns the file.
    """
    home.mkdir(parents=True, exist_ok=True)
    others: set[Path] = set()
    while True:
        for path in _new(home.glob(pattern), others):
            if is_same(path):
                return path
            others.add(path)
        with _locked(home):
            if not _new(home.glob(pattern), others):
                return write()


def _new(paths: Iterable[Path], seen: set[Path]) -> list[Path]:
    return sorted(set(paths) - seen)


def _read(path: Path) -> CaseFile | None:
    """Return a case file, or None if it is none: that is for its own test to say."""
    try:
        return read_case_file(path)
    except CaseError:
        return None


def _shows(file: CaseFile, found: Found, judge: Judge) -> bool:
    """Return whether a saved case shows what was found, which running it tells."""
    saved, violation = file.found, found.violation
    if saved is None or saved.subject != found.judged.observation.subject:
        return False
    named = saved.property, saved.kind, saved.what
    if named != (violation.property, violation.kind, violation.what):
        return False
    if saved.flaky and found.flaky:
        return True  # no run of it would settle that
    violations = judge(file.case).violations
    return any(each.identity == violation.identity for each in violations)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which the system takes back from whoever dies.

    Where it cannot be had, on some network file systems or from someone who stopped,
    work goes on without: files are written whole in any case, and at worst one fault
    has two.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int) -> None:
    until = monotonic() + LOCK_SECONDS
    while monotonic() < until:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(POLL_SECONDS)
        except OSError:
            return None
    return None
