"""What compute-sanitizer found, read from the XML that it writes.

A report is a `ComputeSanitizerOutput` of records, empty where all is well. It is read
by its structure and never searched for words: a report that is cut off, or that holds
what no release known here writes, is an error and not a clean result.
"""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, ParseError

from kvzero.errors import EnvironmentMissingError

ROOT = "ComputeSanitizerOutput"
RECORD = "record"
PARTS = frozenset({"kind", "level", "who", "what", "where", "hostStack"})
"""What a record is made of, in compute-sanitizer 2025.3."""
MOST_BYTES = 2**26
UNTOLD_LEVEL = "Error"
"""Of a record that does not say how bad it is."""
_SHOWN = 400
INTERNAL_KIND = "sanitizer"  # the tool speaks of itself


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that the tool found.

    Attributes:
        kind: What sort of thing, in the tool's word.
        level: ``"Error"``, ``"Warning"`` or the like.
        text: What it was.
        function: Kernel, or function of the API, that did it; empty where unknown.
        place: File and line, where the binary tells.
        program: Block of the launch, where a program did it.
    """

    kind: str
    level: str
    text: str
    function: str = ""
    place: str = ""
    program: tuple[int, int, int] | None = None

    @property
    def is_of_the_tool(self) -> bool:
        """Return whether the tool tells of its own trouble."""
        return self.kind.lower().startswith(INTERNAL_KIND)

    def line(self) -> str:
        """Return it as a line of a report."""
        of = f" in {self.function}" if self.function else ""
        by = f" by program {self.program}" if self.program else ""
        at = f" at {self.place}" if self.place else ""
        return f"{self.level}: {self.text}{of}{by}{at}"


def read_report(path: Path) -> tuple[Record, ...]:
    """Return the records of a report.

    Args:
        path: The file that ``--xml --save`` named.

    Raises:
        EnvironmentMissingError: It is not there, or is no report that can be read.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            _refuse(path, f"it has {size:,} B, and at most {MOST_BYTES:,} are read")
        root = ET.fromstring(path.read_bytes())
    except OSError as error:
        _refuse(path, f"it was not written: {error.strerror}")
    except ParseError as error:
        _refuse(path, f"it is no XML: {error}")
    if root.tag != ROOT:
        _refuse(path, f"its root is <{root.tag}>")
    return tuple(_record(path, element) for element in root)


def _refuse(path: Path, reason: str) -> NoReturn:
    raise EnvironmentMissingError(
        f"{path}, but must be a report of compute-sanitizer: {reason}"
    )


def _record(path: Path, element: Element) -> Record:
    if element.tag != RECORD:
        _refuse(path, f"<{element.tag}> stands where a <{RECORD}> should")
    unknown = [part.tag for part in element if part.tag not in PARTS]
    if unknown:
        _refuse(path, f"a <{RECORD}> holds <{unknown[0]}>, which is not known")
    # Some records of initcheck come without their level (compute-sanitizer 2025.3).
    level = _text(element, "level") or UNTOLD_LEVEL
    text = _text(element, "what/text")
    if not text:
        text = _text(element, "what/error") or _text(element, "what")
    if not text:
        shown = ET.tostring(element, "unicode")[:_SHOWN]
        _refuse(path, f"a <{RECORD}> lacks its text: {shown}")
    where, line = _text(element, "where/path"), _text(element, "where/line")
    return Record(
        _text(element, "kind"),
        level,
        text,
        _text(element, "where/func"),
        f"{where}:{line}" if where and line else where,
        _program(path, element),
    )


def _text(element: Element, path: str) -> str:
    return (element.findtext(path) or "").strip()


def _program(path: Path, element: Element) -> tuple[int, int, int] | None:
    if element.find("who/blockIdx") is None:
        return None
    parts = [_text(element, f"who/blockIdx/{axis}") for axis in "xyz"]
    try:
        x, y, z = (int(part) for part in parts)
    except ValueError:
        _refuse(path, f"blockIdx is {parts}")
    return x, y, z
