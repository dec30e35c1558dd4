"""Case files: one small JSON document a case, readable, diffable, without code.

Reading distrusts the file: it must be a plain file of modest size that holds exactly
what the schema names, and one clear `CaseError` names file and field otherwise, before
any memory is asked for. Writing is atomic, and the name follows from the content, so a
case found twice is one file.
"""

import json
import os
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from re import sub

from kvzero.case import Case
from kvzero.codec import (
    SCHEMA_VERSION,
    Document,
    Finding,
    Json,
    Unfit,
    decode,
    encode,
    shown,
)
from kvzero.errors import CaseError, LayoutError
from kvzero.schema import schema
from kvzero.views import check_views
from kvzero.whole_files import write_whole

__all__ = [
    "CaseFile",
    "Finding",
    "case_file_name",
    "case_schema",
    "decode_case",
    "encode_case",
    "read_case_file",
    "read_json_file",
    "write_case_file",
]

MAX_FILE_BYTES = 4 * 2**20
MAX_DIGITS = 40
"""Digits of an int: all that any field takes have fewer."""
LINE_COLUMNS = 76
"""Columns of the value on a line; its key comes before them."""
MAX_SLUG = 60


@dataclass(frozen=True)
class CaseFile:
    """A case as it was read from a file.

    Attributes:
        path: The file.
        case: The case.
        found: What it was saved for, if it was.
    """

    path: Path
    case: Case
    found: Finding | None = None


def encode_case(case: Case) -> Json:
    """Return a case as JSON; what stands at its default is left out."""
    return encode(case)


def decode_case(value: Json, path: str = "case") -> Case:
    """Return the case that JSON stands for.

    Args:
        value: What `encode_case` returned, or what someone wrote.
        path: What errors call it.

    Raises:
        CaseError: It is no case; the wrong field is named.
    """
    case = decode(Case, value, path)
    _check_views(case, path)
    return case


def case_schema() -> Json:
    """Return the JSON Schema of case files, as shipped in ``case-schema.json``."""
    return schema(Document)


def case_file_name(case: Case, slug: str) -> str:
    """Return the name of a case's file: a readable part and a digest of the case.

    Args:
        case: The case.
        slug: What it shows; anything but letters and digits becomes a hyphen.
    """
    text = json.dumps(encode_case(case), sort_keys=True, separators=(",", ":"))
    digest = sha256(text.encode()).hexdigest()[:8]
    readable = sub("[^a-z0-9]+", "-", slug.lower())[:MAX_SLUG].strip("-")
    return f"{readable or 'case'}-{digest}.json"


def case_file_text(case: Case, found: Finding | None = None) -> str:
    """Return what a case file holds."""
    return render(encode(Document(SCHEMA_VERSION, case, found))) + "\n"


def write_case_file(path: Path | str, case: Case, found: Finding | None = None) -> None:
    """Write a case file, all of it or nothing, over any file of that name.

    Args:
        path: The file; its folder is made if need be.
        case: The case.
        found: What the case is saved for.

    Raises:
        CaseError: The case could not be read back: it is too large for a file, or
            holds what the schema does not take.
    """
    path = Path(path)
    name = _shown_path(path)
    content = case_file_text(case, found).encode()
    _check_size(content, name, MAX_FILE_BYTES)
    _decode_document(content, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, synced=True)


def read_case_file(path: Path | str) -> CaseFile:
    """Return the case of a file.

    Raises:
        CaseError: It cannot be read, or is not exactly what the schema names; file and
            field are named.
    """
    path = Path(path)
    name = _shown_path(path)
    document = _decode_document(_read(path, name, MAX_FILE_BYTES), name)
    return CaseFile(path, document.case, document.found)


def read_json_file(path: Path | str, *, max_bytes: int = MAX_FILE_BYTES) -> Json:
    """Return the JSON of a file, as distrustfully as a case file is read.

    Args:
        path: The file.
        max_bytes: The largest file that is read.

    Returns:
        Plain JSON, with `kvzero.codec.Unfit` where it holds what no field takes.

    Raises:
        CaseError: It cannot be read, is too large, or is not JSON.
    """
    path = Path(path)
    name = _shown_path(path)
    content = _read(path, name, max_bytes)
    try:
        return _parse(content)
    except CaseError as error:
        raise CaseError(f"{name}: {error}") from error


def render(value: Json, indent: int = 0) -> str:
    """Return JSON text in which whatever fits stands on one line."""
    line = json.dumps(value, ensure_ascii=True)
    if len(line) + indent <= LINE_COLUMNS or not isinstance(value, (dict, list)):
        return line
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {render(v, indent + 1)}" for k, v in value.items()]
    else:
        parts = [render(item, indent + 1) for item in value]
    pad = "\n" + " " * indent
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{pad} {f',{pad} '.join(parts)}{pad}{closing}"


def _shown_path(path: Path) -> str:
    """Return a path as errors show it: odd names are quoted and escaped."""
    text = os.fspath(path)
    return text if text.isprintable() else ascii(text)


def _read(path: Path, name: str, max_bytes: int) -> bytes:
    """Return the content of a plain file of modest size."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        if path.is_symlink():
            raise CaseError(f"{name} is a symbolic link, but must be a plain file")
        descriptor = os.open(path, flags)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - no path opens with flags
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CaseError(f"{name} is no plain file, but must be")
            content = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, CaseError):
            raise
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CaseError(f"{name} cannot be read: {reason}") from error
    _check_size(content, name, max_bytes)
    return content


def _check_size(content: bytes, name: str, max_bytes: int) -> None:
    if len(content) > max_bytes:
        raise CaseError(f"{name}: over {max_bytes} B, but must be at most that")


def _decode_document(content: bytes, name: str) -> Document:
    """Return the document in a file's content; errors begin with the file's name."""
    try:
        value = _parse(content)
        _check_version(value)
        document = decode(Document, value, "")
        _check_views(document.case, "case")
    except CaseError as error:
        raise CaseError(f"{name}: {error}") from error
    return document


def _parse(content: bytes) -> Json:
    """Return JSON with `Unfit` wherever it holds what no field takes."""
    try:
        return json.loads(
            content.decode("utf-8"),
            parse_int=_int_or_unfit,
            parse_float=Unfit,
            parse_constant=Unfit,
            object_pairs_hook=_dict_or_unfit,
        )
    except UnicodeDecodeError as error:
        raise CaseError(
            f"byte {error.start}=0x{content[error.start]:02x}, but must be UTF-8 text"
        ) from error
    except json.JSONDecodeError as error:
        raise CaseError(
            f"line {error.lineno}, column {error.colno}: {error.msg}, but must be "
            f"JSON: the file may be cut short"
        ) from error
    except RecursionError as error:
        raise CaseError("nested too deeply, but a case is a few levels deep") from error


def _int_or_unfit(digits: str) -> int | Unfit:
    if len(digits) > MAX_DIGITS:
        return Unfit(f"a number of {len(digits)} digits")
    return int(digits)


def _dict_or_unfit(pairs: list[tuple[str, Json]]) -> dict[str, Json] | Unfit:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return Unfit(f"an object that repeats the key {shown(key)}")
        seen.add(key)
    return dict(pairs)


def _check_version(value: Json) -> None:
    """Refuse documents of another version before looking at their fields."""
    version = value.get("kvzero") if isinstance(value, dict) else None
    if type(version) is int and version > SCHEMA_VERSION:
        raise CaseError(
            f"kvzero={version}, but must be {SCHEMA_VERSION}: a newer kvzero wrote the "
            f"file, upgrade to read it"
        )


def _check_views(case: Case, path: str) -> None:
    layout = case.layout
    try:
        check_views(layout.views, layout.allocations, layout.num_blocks)
    except LayoutError as error:
        raise CaseError(f"{path}.layout.{error}") from error
