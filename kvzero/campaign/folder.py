"""A campaign's folder: all that outlives it, as plain data that is read distrustfully.

``cases/`` holds passing cases that brought something new, ``findings/`` one file a
failure, ``campaign.json`` where the campaign stands, ``events.jsonl`` its log,
``journal/`` what its workers were about to run and ``hypothesis/`` Hypothesis's example
database. Files are replaced whole or not at all. Nothing is read through a symbolic
link, and no name that stands in a file is followed anywhere.
"""

import fcntl
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from kvzero.campaign.findings import Entry, entry_from_json
from kvzero.campaign.shard import identity_digest
from kvzero.campaign.writing import writing
from kvzero.case import Case
from kvzero.casefile import (
    CaseFile,
    case_file_name,
    read_case_file,
    read_json_file,
    write_case_file,
)
from kvzero.errors import CaseError, EnvironmentMissingError
from kvzero.whole_files import write_whole

Json = Any  # a JSON document

MOST_STATE_BYTES = 2**24
MOST_FINDING_BYTES = 2**26
SLUG = "corpus"


class Folder:
    """The folder of one campaign, locked while it runs.

    Attributes:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder, if need be.

        Raises:
            CaseError: It, or a folder in it, is a symbolic link or no folder.
            EnvironmentMissingError: It cannot be made.
        """
        self.path = path
        self._lock: int | None = None
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
            for name in ("cases", "findings", "journal", "hypothesis"):
                inside = path / name
                if inside.is_symlink():
                    raise CaseError(
                        f"{inside} is a symbolic link, but must be a folder"
                    )
                inside.mkdir(exist_ok=True)

    def lock(self) -> None:
        """Keep other campaigns out, until this process ends or `unlock` is called.

        Raises:
            EnvironmentMissingError: Another campaign is at work here.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with writing(self.path):
            self._lock = os.open(self.path / "lock", flags, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.unlock()
            raise EnvironmentMissingError(
                f"corpus={self.path}, but must be one campaign's at a time: wait for "
                f"the other, or give it another folder"
            ) from None

    def unlock(self) -> None:
        """Let other campaigns in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def journal(self, worker: int) -> Path:
        """Return the path of a worker's journal."""
        return self.path / "journal" / f"worker-{worker}.jsonl"

    def database(self, subject: str) -> Path:
        """Return the folder of Hypothesis's database of a subject."""
        name = sha256(subject.encode()).hexdigest()[:16]
        return self.path / "hypothesis" / name

    @property
    def log(self) -> Path:
        """Return the path of the event log."""
        return self.path / "events.jsonl"

    def case_path(self, name: str) -> Path:
        """Return the path of a case of the corpus."""
        return self.path / "cases" / name

    def case_files(self) -> list[CaseFile]:
        """Return the cases of the corpus, sorted by name.

        Raises:
            CaseError: One is no plain file in this folder, or holds no case.
        """
        return [read_case_file(path) for path in self._files("cases")]

    def add_case(self, case: Case) -> Path:
        """Write a case to the corpus, under a name derived from its content."""
        path = self.path / "cases" / case_file_name(case, SLUG)
        if not path.exists():
            with writing(path):
                write_case_file(path, case)
        return path

    def entries(self) -> list[Entry]:
        """Return what has been found.

        Raises:
            CaseError: A file does not hold what it must.
        """
        found = []
        for path in self._files("findings"):
            value = _plain(read_json_file(path, max_bytes=MOST_FINDING_BYTES), path)
            entry = entry_from_json(value, str(path))
            if path.name != self._finding(entry).name:
                raise CaseError(f"{path}, but must be named {self._finding(entry)}")
            found.append(entry)
        return sorted(found, key=lambda entry: entry.seconds)

    def keep_entry(self, entry: Entry) -> None:
        """Write what has been found of one failure."""
        self._replace(self._finding(entry), entry.as_json())

    def read_state(self) -> Json | None:
        """Return where the campaign stands; None: there was none.

        Raises:
            CaseError: The file cannot be read.
        """
        path = self.path / "campaign.json"
        if not path.exists() and not path.is_symlink():
            return None
        return _plain(read_json_file(path, max_bytes=MOST_STATE_BYTES), path)

    def write_state(self, state: Json) -> None:
        """Write where the campaign stands, all of it or nothing."""
        self._replace(self.path / "campaign.json", state)

    def forget(self) -> None:
        """Delete what belongs to one campaign alone; the cases stay."""
        for path in (*self._files("findings"), *self._files("journal", ".jsonl")):
            path.unlink()
        (self.path / "campaign.json").unlink(missing_ok=True)

    def _finding(self, entry: Entry) -> Path:
        return self.path / "findings" / f"{identity_digest(entry.identity)}.json"

    def _files(self, name: str, suffix: str = ".json") -> list[Path]:
        with os.scandir(self.path / name) as found:
            names = sorted(each.name for each in found if each.name.endswith(suffix))
        return [self.path / name / each for each in names]

    @staticmethod
    def _replace(path: Path, value: Json) -> None:
        content = json.dumps(value, separators=(",", ":")).encode()
        with writing(path):
            write_whole(path, content, mode=0o600)


def _plain(value: Json, path: Path) -> Json:
    """Return JSON of ours with its numbers read; they were kept as they were written.

    Raises:
        CaseError: It holds what we never write.
    """
    if isinstance(value, dict):
        return {key: _plain(each, path) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each, path) for each in value]
    if value is None or isinstance(value, str | int):
        return value
    try:
        return float(value.written)
    except ValueError:
        raise CaseError(f"{path} holds {value.written}, but must be plain") from None
