"""Records of the harness's speed, one file, the newest last: how has it moved?

A slowdown is shown and never fails anything: other work on the machine makes one too.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvzero.errors import CaseError
from kvzero.report.files import write_text

History = list[dict[str, Any]]  # Any: JSON of our own
NOTABLE = 1.2
"""Ratio from which a change is called one: below it is the noise of a shared core."""


@dataclass(frozen=True)
class Change:
    """One number, then and now.

    Attributes:
        what: What was measured.
        unit: Of both numbers.
        before: The last record's.
        now: This record's.
        more_is_better: A speed, not a time.
    """

    what: str
    unit: str
    before: float
    now: float
    more_is_better: bool

    @property
    def times_as_good(self) -> float:
        """Return how much better it is: below 1 it is worse."""
        if self.more_is_better:
            return self.now / self.before
        return self.before / self.now

    @property
    def verdict(self) -> str:
        """Return what that means in a word or two."""
        if self.times_as_good < 1 / NOTABLE:
            return "SLOWER"
        return "faster" if self.times_as_good > NOTABLE else "as before"


def read_history(path: Path) -> History:
    """Return the records of a file, oldest first; none if there is no file.

    Raises:
        CaseError: It holds something else.
    """
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise CaseError(f"{path}: no records can be read: {error}") from error
    needed = {"machine", "speeds", "presets", "kills"}
    if not isinstance(found, list) or not all(
        isinstance(record, dict) and needed <= set(record) for record in found
    ):
        raise CaseError(
            f"{path}, but must hold a list of records with the fields "
            f"{', '.join(sorted(needed))}: kvzero bench --harness --record writes one"
        )
    return found


def append_record(
    path: Path,
    history: History,
    record: dict[str, Any],  # Any: JSON
) -> None:
    """Write a file with one record more, all of it or nothing.

    Raises:
        ReportError: It cannot be written.
    """
    write_text(path, json.dumps([*history, record], indent=1) + "\n")


def last_of_this_machine(
    history: History,
    record: dict[str, Any],  # Any: JSON
) -> dict[str, Any] | None:  # Any: JSON
    """Return the newest record of an equal GPU and processor, if there is one."""
    alike = (
        earlier
        for earlier in reversed(history)
        if all(
            earlier["machine"].get(part) == record["machine"].get(part)
            for part in ("gpu", "cpu", "cores")
        )
    )
    return next(alike, None)


def changes(
    before: dict[str, Any],
    now: dict[str, Any],  # Any: JSON
) -> Iterator[Change]:
    """Yield every number that both records hold, and that is not nothing."""
    for name, keys, value, unit, better in _NUMBERS:
        then = {_key(row, keys): row for row in before[name]}
        for row in now[name]:
            key = _key(row, keys)
            if key in then and then[key].get(value) and row[value]:
                what = " on ".join(key)
                yield Change(what, unit, then[key][value], row[value], better)


_NUMBERS: tuple[tuple[str, Sequence[str], str, str, bool], ...] = (
    ("speeds", ("executor",), "cases_per_s", "cases/s", True),
    ("speeds", ("executor",), "launches_per_s", "launches/s", True),
    ("presets", ("preset", "executor"), "seconds", "s", False),
    ("kills", ("fault", "executor"), "seconds", "s", False),
)


def _key(row: dict[str, Any], keys: Sequence[str]) -> tuple[str, ...]:  # Any: JSON
    return tuple(str(row[key]) for key in keys)
