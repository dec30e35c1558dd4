"""What a campaign has found: one entry a distinct failure, with its smallest case.

Failures are the same by property, kind, short word and kernel line. An entry is kept on
disk from the moment it is seen, before it is shrunk, so that nothing that ends the
campaign takes it along; what was not shrunk yet is shrunk when the campaign goes on.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from kvzero.campaign.fuzz import case_size
from kvzero.campaign.judging import Judged
from kvzero.campaign.known import Known
from kvzero.campaign.outcome import save_found
from kvzero.campaign.tally import Found
from kvzero.campaign.writing import writing
from kvzero.casefile import decode_case, encode_case
from kvzero.errors import CaseError
from kvzero.executors.transcript import from_json, to_json
from kvzero.properties.registry import PROPERTIES
from kvzero.properties.verdict import Identity, Violation

Json = Any  # a JSON document
State = str
"""``"new"`` (not yet shrunk), ``"shrinking"`` or ``"settled"``."""
KINDS = ("fault", "refusal", "cost")


@dataclass
class Entry(Found):
    """A distinct violation in a campaign.

    Attributes:
        state: Whether its case is shrunk.
        fails: It makes the campaign fail: neither known nor a cost that is tolerated.
        seconds: When it was first seen, from the campaign's begin.
        worker: Who saw it first.
    """

    state: State = "new"
    fails: bool = True
    seconds: float = 0.0
    worker: int = 0

    @property
    def identity(self) -> Identity:
        """Return what makes it the failure that it is."""
        return self.violation.identity

    def as_json(self) -> Json:
        """Return all of it but the count and what lies in other files."""
        return {
            "violation": asdict(self.violation),
            "case": encode_case(self.judged.case),
            "observation": to_json(self.judged.observation),
            "flaky": self.flaky,
            "state": "new" if self.state == "shrinking" else self.state,
            "fails": self.fails,
            "seconds": self.seconds,
            "worker": self.worker,
        }


def violation_from_json(value: Json) -> Violation:
    """Return the violation that ``asdict`` told.

    Raises:
        KeyError, TypeError, ValueError: It is none.
    """
    details = tuple((str(label), str(text)) for label, text in value["details"])
    violation = Violation(**{**value, "details": details})
    texts = (violation.what, violation.claim, violation.place)
    if violation.property not in PROPERTIES or violation.kind not in KINDS:
        raise ValueError(f"no such property or kind: {violation.identity}")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"no texts: {violation.identity}")
    return violation


def entry_from_json(value: Json, name: str) -> Entry:
    """Return the entry that `Entry.as_json` told.

    Raises:
        CaseError: It is none; `name` begins the error.
    """
    try:
        violation = violation_from_json(value["violation"])
        seen = from_json(value["observation"])
        judged = Judged(decode_case(value["case"], f"{name}: case"), seen, ())
        return Entry(
            violation,
            judged,
            flaky=bool(value["flaky"]),
            state=str(value["state"]),
            fails=bool(value["fails"]),
            seconds=float(value["seconds"]),
            worker=int(value["worker"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, CaseError):
            raise
        raise CaseError(f"{name}: {error!r}, but must be a finding") from None


class Findings:
    """All entries of a campaign, which several threads add to."""

    def __init__(self, regressions: Path, keep: Callable[[Entry], object]) -> None:
        """Begin with none.

        Args:
            regressions: Folder of the case files of failures.
            keep: Called with an entry that has changed, to write it down.
        """
        self._regressions = regressions
        self._keep = keep
        self._entries: dict[Identity, Entry] = {}
        self._lock = Lock()

    def __iter__(self) -> Iterator[Entry]:
        """Return the entries, in the order in which they were found."""
        with self._lock:
            return iter(list(self._entries.values()))

    def get(self, identity: Identity) -> Entry | None:
        """Return the entry of an identity, if it was seen."""
        with self._lock:
            return self._entries.get(identity)

    def restore(self, entry: Entry, known: Known | None) -> None:
        """Take an entry of the run before, and write its case file if it is gone."""
        entry.known = known
        self._entries[entry.identity] = entry
        if entry.fails:
            save_found(entry, self._regressions)

    def see(self, found: Entry) -> bool:
        """Take a case that shows a violation; return whether it is a new one.

        The smaller of two cases stays. Nothing is counted.
        """
        with self._lock:
            entry = self._entries.get(found.identity)
            if entry is None:
                self._entries[found.identity] = found
                self._write(found)
                return True
            if self._is_better(found, entry):
                self._change(entry, found.violation, found.judged)
            return False

    def count(self, identity: Identity, times: int) -> None:
        """Count cases that showed a violation which was seen."""
        with self._lock:
            self._entries[identity].count += times

    def claim(self) -> Entry | None:
        """Return an entry that nobody shrinks yet; the caller does from now on."""
        with self._lock:
            for entry in self._entries.values():
                if entry.state == "new" and entry.fails:
                    entry.state = "shrinking"
                    return entry
        return None

    def settle(self, entry: Entry, shrunk: Found) -> None:
        """Take what shrinking has made of an entry."""
        with self._lock:
            entry.state = "settled"
            entry.flaky = shrunk.flaky
            self._change(entry, shrunk.violation, shrunk.judged)

    def unclaim(self, entry: Entry) -> None:
        """Give an entry back: shrinking was cut short."""
        with self._lock:
            entry.state = "new"

    @property
    def failures(self) -> list[Entry]:
        """Return the entries that make the campaign fail."""
        return [entry for entry in self if entry.fails]

    @staticmethod
    def _is_better(found: Entry, entry: Entry) -> bool:
        """Return whether another case of a violation is to be kept instead."""
        if entry.state == "settled":
            # A shrunk case shows the failure again and again; one that was met once
            # only replaces it where that does not.
            return False
        return case_size(found.judged.case) < case_size(entry.judged.case)

    def _change(self, entry: Entry, violation: Violation, judged: Judged) -> None:
        before = entry.file
        entry.violation, entry.judged = violation, judged
        self._write(entry)
        if before is not None and entry.file != before:
            Path(before).unlink(missing_ok=True)

    def _write(self, entry: Entry) -> None:
        self._keep(entry)
        if entry.fails:
            with writing(self._regressions):
                save_found(entry, self._regressions)
