"""Known findings: what is reported already, so that a nightly run stays green on it.

A file of them is TOML that its users write and commit. Each entry names a violation
exactly, a case that shows it and the reason why it is tolerated; it covers nothing but
violations of that subject, property, kind and rule.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from kvzero.case import Case
from kvzero.casefile import read_case_file
from kvzero.errors import CaseError, KnownFileError
from kvzero.properties.registry import PROPERTIES
from kvzero.properties.verdict import Kind, Violation

MAX_FILE_BYTES = 2**20
TABLE = "known"


@dataclass(frozen=True)
class Known:
    """One known finding.

    Attributes:
        subject: Name of the subject.
        property: The broken property.
        kind: ``"fault"``, ``"refusal"`` or ``"cost"``.
        what: The violation's short word, such as ``"cuda-y"``: ``what`` in ``--json``.
        case: A case file that shows it.
        reason: Why it is tolerated, best with the address of a report.
        place: File and line of the kernel; empty: wherever it is.
        entry: Where it stands, such as ``"known.toml: known[0]"``.
    """

    subject: str
    property: str
    kind: str
    what: str
    case: Path
    reason: str
    place: str = ""
    entry: str = ""

    def covers(self, violation: Violation) -> bool:
        """Return whether a violation is this finding."""
        mine = self.property, self.kind, self.what
        same = mine == (violation.property, violation.kind, violation.what)
        return same and self.place in ("", violation.place)

    def read_case(self) -> Case:
        """Return the case that shows it.

        Raises:
            KnownFileError: There is none.
        """
        try:
            return read_case_file(self.case).case
        except CaseError as error:
            raise KnownFileError(f"{self.entry}.case: {error}") from error


FIELDS = tuple(f.name for f in fields(Known) if f.name != "entry")
REQUIRED = tuple(name for name in FIELDS if name != "place")


def read_known_file(path: Path | str) -> tuple[Known, ...]:
    """Return the findings of a file, each with a readable case.

    Args:
        path: The file; its entries name their cases from its folder.

    Raises:
        KnownFileError: It is not what it must be; file and field are named.
    """
    path = Path(path)
    document = _parsed(path)
    for key in document:
        if key != TABLE:
            raise KnownFileError(f"{path}: {key}, but must be [[{TABLE}]] tables alone")
    entries = document.get(TABLE)
    if not isinstance(entries, list) or not entries:
        raise KnownFileError(f"{path}: {TABLE}, but must be at least one [[{TABLE}]]")
    return tuple(
        _entry(path, f"{path}: {TABLE}[{index}]", value)
        for index, value in enumerate(entries)
    )


def _parsed(path: Path) -> dict[str, Any]:  # Any: TOML
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise KnownFileError(f"{path}: over {MAX_FILE_BYTES} B, but must be less")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise KnownFileError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise KnownFileError(f"{path}: must be TOML: {error}") from error


def _entry(path: Path, name: str, value: object) -> Known:
    if not isinstance(value, dict):
        raise KnownFileError(f"{name}={value!r}, but must be a table")
    for key in value:
        if key not in FIELDS:
            raise KnownFileError(f"{name}.{key}, but must be {_one_of(key, FIELDS)}")
    for key in REQUIRED:
        if key not in value:
            raise KnownFileError(f"{name}.{key} is missing, but must be given")
    for key, text in value.items():
        if not isinstance(text, str) or not (text or key == "place"):
            raise KnownFileError(f"{name}.{key}={text!r}, but must be a text")
    for key, words in (("property", tuple(PROPERTIES)), ("kind", get_args(Kind))):
        if value[key] not in words:
            rule = _one_of(value[key], words)
            raise KnownFileError(f"{name}.{key}={value[key]!r}, but must be {rule}")
    found = Known(**{**value, "case": path.parent / value["case"], "entry": name})
    found.read_case()
    return found


def _one_of(word: str, words: Sequence[str]) -> str:
    close = get_close_matches(word, words, 1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"one of {', '.join(words)}{hint}"
