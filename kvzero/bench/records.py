"""One record a row: what one subject does with one layout and length of block list.

The fields of a record are fixed, so that a file of them can be read by anything; what
does not fit a field (a contender that was wrong, one that no graph can hold) is a note
of the report beside it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from kvzero.bench.machine import Origin
from kvzero.errors import CaseError

MEMSET = "memset"
"""The subject of rows that clear as many contiguous bytes with one memset."""
EMPTY = "empty-kernel"
"""The subject of rows that launch one kernel which does nothing."""
YARDSTICKS = (MEMSET, EMPTY)


@dataclass(frozen=True)
class Record:
    """One row. None where something was not measured.

    Attributes:
        subject: Whose row it is, or one of `YARDSTICKS`.
        preset: The layout.
        n_blocks: Length of the block list; its ids are distinct.
        bytes: Bytes of the listed pages, each once however many pages cover it; 0 for
            `EMPTY`.
        min_page_bytes: The smallest page of the layout.
        time_us: Median time of one call on the device.
        ratio_to_memset: Time of memset in the same run, divided by this time.
        programs: Programs that one call launches.
        wasted_programs: Those among them that store nothing.
        host_us: Median time until a call with a list of ids returns.
    """

    subject: str
    preset: str
    n_blocks: int
    bytes: int
    min_page_bytes: int
    time_us: float | None = None
    ratio_to_memset: float | None = None
    programs: int | None = None
    wasted_programs: int | None = None
    host_us: float | None = None

    @property
    def tb_per_s(self) -> float | None:
        """Return the bandwidth, in 10^12 bytes a second."""
        if not self.time_us or not self.bytes:
            return None
        return self.bytes / self.time_us / 1e6


@dataclass(frozen=True)
class Note:
    """What a row cannot say, in words.

    Attributes:
        text: What.
        subject: Of which subject, if of one.
        preset: On which layout, if on one.
        n_blocks: For which length of list, if for one.
    """

    text: str
    subject: str | None = None
    preset: str | None = None
    n_blocks: int | None = None


Row = TypeVar("Row", Record, Note)


@dataclass(frozen=True)
class Place:
    """All rows of one layout and length of list.

    Attributes:
        preset: The layout.
        n_blocks: The length.
        by_subject: The rows.
    """

    preset: str
    n_blocks: int
    by_subject: dict[str, Record]

    @property
    def bytes(self) -> int:
        """Return the bytes of the listed pages."""
        return max(record.bytes for record in self.by_subject.values())

    @property
    def min_page_bytes(self) -> int:
        """Return the smallest page of the layout."""
        return next(iter(self.by_subject.values())).min_page_bytes

    def fastest_peer(self, subject: str) -> Record | None:
        """Return the fastest row of the others, yardsticks aside, if any was timed."""
        others = (
            record
            for name, record in self.by_subject.items()
            if name not in (subject, *YARDSTICKS) and record.time_us
        )
        return min(others, key=lambda record: record.time_us or 0.0, default=None)

    def times_faster(self, subject: str, peer: str | None = None) -> float | None:
        """Return a peer's time divided by the subject's: above 1 it is faster.

        Args:
            subject: Who.
            peer: Than whom; by default the fastest of the others.
        """
        if subject in YARDSTICKS:
            return None
        own = self.by_subject.get(subject)
        other = self.by_subject.get(peer) if peer else self.fastest_peer(subject)
        if own is None or other is None or not own.time_us or not other.time_us:
            return None
        return other.time_us / own.time_us


@dataclass
class Report:
    """The rows of one run with where they come from.

    Attributes:
        origin: Machine, versions and command.
        records: The rows.
        notes: What they cannot say.
    """

    origin: Origin
    records: list[Record] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def places(self) -> Iterator[Place]:
        """Yield the rows by layout and length of list, in order of measurement."""
        found: dict[tuple[str, int], dict[str, Record]] = {}
        for record in self.records:
            key = record.preset, record.n_blocks
            found.setdefault(key, {})[record.subject] = record
        for (preset, n_blocks), by_subject in found.items():
            yield Place(preset, n_blocks, by_subject)

    def note(
        self,
        text: str,
        subject: str | None = None,
        preset: str | None = None,
        n_blocks: int | None = None,
    ) -> None:
        """Add a note, unless it is there."""
        note = Note(text, subject, preset, n_blocks)
        if note not in self.notes:
            self.notes.append(note)

    def note_lines(self) -> Iterator[str]:
        """Yield the notes as text, a line for all that say the same of one subject."""
        places: dict[tuple[str | None, str], list[str]] = {}
        for note in self.notes:
            place = note.preset or ""
            if note.n_blocks is not None:
                place += f" ({note.n_blocks:,})"
            places.setdefault((note.subject, note.text), []).append(place)
        for (subject, text), named in places.items():
            what = f"{subject}: {text}" if subject else text
            yield what + _listed(named)

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the report as plain data."""
        return {
            **self.origin.as_json(),
            "notes": [asdict(note) for note in self.notes],
            "records": [asdict(record) for record in self.records],
        }


MOST_PLACES = 6


def _listed(places: list[str]) -> str:
    """Return what a note says of its places."""
    named = [place for place in places if place]
    if len(named) > MOST_PLACES:
        return f": {len(named)} rows, the first {named[0]}"
    return f": {', '.join(named)}" if named else ""


def report_text(report: Report) -> str:
    """Return a report as JSON, one row a line."""
    document = report.as_json()
    lines = [f' "{name}": {json.dumps(document[name])}' for name in _HEADER]
    for name in ("notes", "records"):
        rows = ",\n".join(f"  {json.dumps(row)}" for row in document[name])
        lines.append(f' "{name}": [\n{rows}\n ]' if rows else f' "{name}": []')
    return "{\n" + ",\n".join(lines) + "\n}\n"


_HEADER = ("machine", "versions", "command", "when")


def read_report(path: Path) -> Report:
    """Return the report of a file.

    Raises:
        CaseError: There is none in it, named by file and field.
    """
    document = _document(path)
    missing = [name for name in (*_HEADER, "notes", "records") if name not in document]
    if missing:
        raise CaseError(f"{path}: {missing[0]} is missing, but must be there: {_HOW}")
    origin = Origin(*(document[name] for name in _HEADER))
    return Report(
        origin,
        list(_rows(path, "records", document["records"], Record)),
        list(_rows(path, "notes", document["notes"], Note)),
    )


_HOW = "kvzero bench --json writes such a file"


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise CaseError(f"{path}: no report can be read: {error}") from error
    if not isinstance(document, dict):
        raise CaseError(f"{path}: {type(document).__name__}, but must be an object")
    return document


def _rows(
    path: Path, name: str, rows: Sequence[dict[str, Any]], kind: type[Row]
) -> Iterator[Row]:
    known = {each.name for each in fields(kind)}
    for index, row in enumerate(rows):
        try:
            yield kind(**row)
        except TypeError as error:
            raise CaseError(
                f"{path}: {name}[{index}]={row}, but must have the fields "
                f"{', '.join(sorted(known))}: {_HOW}"
            ) from error
