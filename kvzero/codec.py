"""Plain dataclasses to JSON and back, led by their type hints.

One table of bounds and choices, `RULES`, says what the type hints cannot; reading and
the JSON Schema (`kvzero.schema`) both obey it, so that they cannot drift apart. Reading
is strict: every value is checked where it stands, and the first wrong one is named by
its path.
"""

from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from re import fullmatch
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from kvzero.case import (
    ID_DTYPES,
    MAX_BUFFER_EL,
    MAX_IDS,
    MAX_MISALIGNMENT_BYTES,
    REFUSED_DTYPES,
    Call,
    Case,
    IdRun,
    Placement,
)
from kvzero.errors import CaseError, LayoutError
from kvzero.layout import (
    MAX_ALLOCATIONS,
    MAX_BLOCKS,
    MAX_BYTES,
    MAX_SEGMENTS,
    Allocation,
    Axis,
    Layout,
    Run,
    Tile,
    View,
)
from kvzero.pages import ELEMENT_BYTES, MAX_DIMENSIONS

Json = Any  # what json.loads may return, or an `Unfit` in its place
T = TypeVar("T")

MAX_ID = 2**80
"""Ids may lie far outside int64, where a zeroer must refuse them."""
MAX_SEED = 2**64 - 1
SCHEMA_VERSION = 1
SHOWN = 60
"""Characters of a wrong value that an error shows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a case was saved for.

    Attributes:
        property: Name of the broken property.
        kind: ``"fault"``, ``"refusal"`` or ``"cost"``.
        what: The kind of violation and its place: equal for equal faults.
        subject: Name of the subject that broke it.
        executor: Name of the executor that saw it.
        flaky: It did not show again when the case was run again.
        failure: First line of the explanation.
    """

    property: str
    kind: str
    what: str
    subject: str
    executor: str
    flaky: bool = False
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """What a case file holds.

    Attributes:
        kvzero: Version of the schema.
        case: The case.
        found: What it was saved for, if it was.
    """

    kvzero: int
    case: Case
    found: Finding | None = None


class Range(NamedTuple):
    """Bounds of an int, or of the length of a list."""

    minimum: int
    maximum: int


class Text(NamedTuple):
    """What a string may be: a pattern, in JSON Schema's words, and its meaning."""

    pattern: str
    words: str
    max_length: int = 80


# Control characters in a name could steer the terminal that shows it.
_LINE = Text("[^\\x00-\\x1f\\x7f-\\x9f\\ud800-\\udfff]*", "one printable line", 200)
_SENTENCE = _LINE._replace(max_length=2000)
_SIZE = Range(1, MAX_BYTES)
_OFFSET = Range(0, MAX_BYTES)
_INDEX = Range(0, MAX_ALLOCATIONS)
_ID = Range(-MAX_ID, MAX_ID)

Rule = Range | Text | tuple[str, ...]

RULES: dict[tuple[type, str], Rule] = {
    (Allocation, "size_bytes"): _SIZE,
    (Allocation, "count"): Range(1, MAX_ALLOCATIONS),
    (Axis, "count"): Range(1, MAX_SEGMENTS),
    (Axis, "step_bytes"): Range(-MAX_BYTES, MAX_BYTES),
    (Axis, "step_allocations"): _INDEX,
    (Run, "page_bytes"): _SIZE,
    (Run, "stride_bytes"): _SIZE,
    (Run, "offset_bytes"): _OFFSET,
    (Run, "allocation"): _INDEX,
    (Tile, "stride_bytes"): _SIZE,
    (Tile, "count"): Range(1, MAX_BLOCKS),
    (Tile, "origin_bytes"): _OFFSET,
    (Tile, "allocation"): _INDEX,
    (View, "shape"): _OFFSET,
    (View, "strides"): Range(-MAX_BYTES, MAX_BYTES),
    (View, "dtype"): tuple(ELEMENT_BYTES),
    (View, "block_dim"): Range(0, MAX_DIMENSIONS - 1),
    (View, "kernel_blocks_per_block"): Range(1, MAX_SEGMENTS),
    (View, "allocation"): _INDEX,
    (View, "offset_bytes"): _OFFSET,
    (Layout, "num_blocks"): Range(0, MAX_BLOCKS),
    (IdRun, "start"): _ID,
    (IdRun, "count"): Range(0, MAX_IDS),
    (IdRun, "step"): _ID,
    (Call, "dtype"): (*ID_DTYPES, *REFUSED_DTYPES),
    (Call, "offset_el"): Range(0, MAX_BUFFER_EL),
    (Call, "step_el"): Range(1, MAX_BUFFER_EL),
    (Placement, "base_bytes"): _OFFSET,
    (Placement, "gap_bytes"): _OFFSET,
    (Placement, "misalignments_bytes"): Range(0, MAX_MISALIGNMENT_BYTES),
    (Case, "platform"): Text(
        "(cuda|hip):[0-9A-Za-z_.-]+",
        "cuda:CAPABILITY or hip:ARCH, such as cuda:90 or hip:gfx942",
    ),
    (Case, "seed"): Range(0, MAX_SEED),
    **{(Finding, name): _LINE for name in ("property", "kind", "subject", "executor")},
    **{(Finding, name): _SENTENCE for name in ("what", "failure")},
    (Document, "kvzero"): Range(SCHEMA_VERSION, SCHEMA_VERSION),
}
"""Bounds and choices of the fields; those of a tuple hold for its elements."""


class Unfit:
    """JSON that no field takes, kept as it was written until its path is known."""

    def __init__(self, written: str) -> None:
        """Keep how errors show it."""
        self.written = written


def encode(value: object) -> Json:
    """Return a value as JSON: fields in order, those at their default left out."""
    if isinstance(value, IdRun) and value == IdRun(value.start):
        return value.start
    if isinstance(value, tuple):
        return [encode(element) for element in value]
    if isinstance(value, Finding):
        value = replace(value, failure=_first_line(value.failure))
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: encode(getattr(value, field.name))
            for field in fields(value)
            if getattr(value, field.name) != field.default
        }
    return value


def _first_line(text: str) -> str:
    """Return the first line of a text as a file takes it."""
    line = text.splitlines()[0] if text else ""
    printable = "".join(c if c.isprintable() else "?" for c in line)
    return printable[: _SENTENCE.max_length]


def decode(kind: type[T], value: Json, path: str) -> T:
    """Return the dataclass that JSON stands for.

    Args:
        kind: The dataclass.
        value: The JSON.
        path: What errors call it, such as ``"case"``.

    Raises:
        CaseError: A field is wrong, named by its path, or the whole contradicts itself.
    """
    if kind is IdRun and type(value) is int:
        value = {"start": value}
    _expect(type(value) is dict, value, path or "document", _words_of_class(kind))
    known, hints = fields_of(kind), hints_of(kind)
    for key in value:
        if key not in known:
            raise CaseError(_unknown_key(path or "document", key, known))
    values = {}
    for name, field in known.items():
        here = f"{path}.{name}" if path else name
        if name in value:
            rule = RULES.get((kind, name))
            values[name] = _decode_field(hints[name], rule, value[name], here)
        elif field.default is MISSING:
            raise CaseError(f"{here} is missing, but must be given")
    try:
        return kind(**values)
    except (LayoutError, CaseError) as error:
        raise CaseError(f"{path}: {error}") from error


def _decode_field(
    hint: Any, rule: Rule | None, value: Json, path: str
) -> Any:  # Any: hints
    """Return one field's value."""
    if get_origin(hint) is tuple:
        _expect(type(value) is list, value, path, "a list")
        element = get_args(hint)[0]
        return tuple(
            _decode_field(element, rule, item, f"{path}[{index}]")
            for index, item in enumerate(value)
        )
    if hint is IdRun and _fits(int, _ID, value):
        return IdRun(value)  # the short way: lists of ids are long
    kind = class_in(hint)
    if kind is not None:
        return decode(kind, value, path)
    _expect(_fits(hint, rule, value), value, path, _words(hint, rule))
    return value


def _fits(hint: Any, rule: Rule | None, value: Json) -> bool:  # Any: a type hint
    """Return whether a scalar is what its hint and its rule ask for."""
    choices = choices_of(hint, rule)
    if choices is not None:
        return type(value) is str and value in choices
    if type(value) is not hint:
        return False
    if isinstance(rule, Text):
        return len(value) <= rule.max_length and bool(fullmatch(rule.pattern, value))
    return not isinstance(rule, Range) or rule.minimum <= value <= rule.maximum


def choices_of(
    hint: Any,  # Any: a type hint
    rule: Rule | None,
) -> tuple[str, ...] | None:
    """Return the strings that a field may be, if it is one of a few."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if isinstance(rule, (Range, Text)):
        return None
    return rule


def _words(hint: Any, rule: Rule | None) -> str:  # Any: a type hint
    """Return what a scalar must be, in words."""
    choices = choices_of(hint, rule)
    if choices is not None:
        return f"one of {', '.join(choices)}"
    if isinstance(rule, Text):
        return rule.words
    if isinstance(rule, Range):
        return f"an int from {rule.minimum} to {rule.maximum}"
    return {bool: "true or false", int: "an int", str: "a string"}[hint]


def _words_of_class(kind: type) -> str:
    return "an id or an object" if kind is IdRun else "an object"


def _expect(fits: bool, value: Json, path: str, words: str) -> None:  # noqa: FBT001 - one caller a line
    if not fits:
        raise CaseError(f"{path}={shown(value)}, but must be {words}")


def shown(value: Json) -> str:
    """Return JSON as errors show it: short, printable, nothing inside looked at."""
    if isinstance(value, Unfit):
        return value.written
    if isinstance(value, (list, dict)):
        return f"a list of {len(value)}" if isinstance(value, list) else "an object"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def _unknown_key(path: str, key: str, known: Iterable[str]) -> str:
    close = get_close_matches(key[:SHOWN], known, 1)
    closest = f", the closest is {close[0]}" if close else ""
    return f"{path}: key {shown(key)}, but must be one of {', '.join(known)}{closest}"


def hints_of(kind: Any) -> dict[str, Any]:  # Any: type hints
    """Return the type hints of a dataclass, by field."""
    return _hints(kind)


@cache  # it costs more than all the rest of decoding
def _hints(kind: type) -> dict[str, Any]:  # Any: type hints
    return get_type_hints(kind)


def fields_of(kind: Any) -> dict[str, Field[Any]]:  # Any: `fields` asks no more
    """Return the fields of a dataclass, by name, in order."""
    return {field.name: field for field in fields(kind)}


def class_in(hint: Any) -> Any:  # Any: type hints
    """Return the dataclass that a hint names, also as ``T | None``, or None."""
    if get_origin(hint) is UnionType:
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    return hint if is_dataclass(hint) else None
