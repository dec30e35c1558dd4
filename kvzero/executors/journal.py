"""A journal of cases: what was about to run when a process died.

A case is written before it is run and its end after it, each as one JSON line in one
write, which outlives this process. So whoever finds the file knows the guilty case:
the one that began and did not end. Only the last line can be torn, and a beginning that
is torn was never run.
"""

import json
import os
import weakref
from dataclasses import dataclass
from pathlib import Path

from kvzero.casefile import MAX_FILE_BYTES
from kvzero.codec import Json
from kvzero.errors import CaseError

MOST_BYTES = 2**20
"""A journal begins anew beyond it: a night's cases are gigabytes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A case in a journal.

    Attributes:
        number: Counts from 0 in one journal.
        executor: What was to run it.
        subject: The subject's name.
        case: The case, as `kvzero.casefile.encode_case` writes it.
        outcome: How it ended; None: it did not.
    """

    number: int
    executor: str
    subject: str
    case: Json
    outcome: str | None = None


class Journal:
    """The journal of one worker; one process at a time writes it.

    Attributes:
        close: Closes the file, which stays.
    """

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        """Begin a journal, over any file of that name: `entries` reads one first.

        Args:
            path: The file; its folder is made if need be.
            most_bytes: Size beyond which it begins anew, between two cases.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags | os.O_NOFOLLOW, 0o644)
        self.close = weakref.finalize(self, os.close, self._file)
        self._most_bytes = most_bytes
        self._number = 0
        self._bytes = 0

    def begin(self, executor: str, subject: str, case: Json) -> int:
        """Write that a case is about to run; return its number."""
        if self._bytes > self._most_bytes:
            os.ftruncate(self._file, 0)
            self._bytes = 0
        number = self._number
        self._number += 1
        self._write(
            {"begin": number, "executor": executor, "subject": subject, "case": case}
        )
        return number

    def end(self, number: int, outcome: str) -> None:
        """Write how a case ended."""
        self._write({"end": number, "outcome": outcome})

    def _write(self, line: Json) -> None:
        content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._bytes += os.write(self._file, content)


def entries(path: Path) -> list[Entry]:
    """Return the cases in a journal, in order.

    Raises:
        CaseError: A line that is not the last one is none of a journal's.
    """
    found: dict[int, Entry] = {}
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + MOST_BYTES)
    *lines, _torn = content.split(b"\n")
    for index, line in enumerate(lines):
        try:
            _note(json.loads(line), found)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CaseError(
                f"{path}: line {index + 1}, but must be a begin or an end of a case: "
                f"this is no journal, or something else wrote to it"
            ) from None
    return list(found.values())


def unfinished(path: Path) -> list[Entry]:
    """Return the cases that began and did not end: at most one a worker."""
    return [entry for entry in entries(path) if entry.outcome is None]


def _note(line: Json, found: dict[int, Entry]) -> None:
    if "end" in line:
        begun = found[line["end"]]
        found[begun.number] = Entry(
            begun.number, begun.executor, begun.subject, begun.case, line["outcome"]
        )
        return
    number = line["begin"]
    found[number] = Entry(number, line["executor"], line["subject"], line["case"])
