"""Pieces of MLIR text: brackets, types and attributes.

Everything here works on one stretch of text and knows no operation. What kvzero cannot
read is kept as it is spelled, so that only code which needs it stops.
"""

import re
from collections.abc import Iterator

from kvzero.executors.footprint.ir import FLOAT_BITS, Attribute, Type

VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
_INTEGER_TYPE = re.compile(r"[su]?i(\d+)$")
_INTEGER = re.compile(r"-?\d+$")
_SHAPE = re.compile(r"((?:\d+x)+)(.*)$", re.DOTALL)
_OPENING, _CLOSING = "([{<", ")]}>"


def _with_depth(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, character and bracket depth; strings are skipped."""
    depth, quoted, previous = 0, False, ""
    for position, character in enumerate(text):
        if character == '"' and previous != "\\":
            quoted = not quoted
        elif quoted:
            pass
        elif character in _OPENING:
            yield position, character, depth
            depth += 1
        elif character in _CLOSING and not (character == ">" and previous == "-"):
            depth -= 1
            yield position, character, depth
        else:
            yield position, character, depth
        previous = character


def split_top(text: str, separator: str = ",") -> list[str]:
    """Split at a separator outside all brackets; empty text has no parts."""
    parts, begin = [], 0
    for position, _, depth in _with_depth(text):
        if depth == 0 and position >= begin and text.startswith(separator, position):
            parts.append(text[begin:position].strip())
            begin = position + len(separator)
    last = text[begin:].strip()
    return [*parts, last] if parts or last else []


def closing(text: str, position: int) -> int:
    """Return the position of the bracket that closes the one at `position`."""
    wanted = None
    for at, character, depth in _with_depth(text[position:]):
        if wanted is None:
            wanted = depth
        elif depth == wanted and character in _CLOSING:
            return position + at
    return len(text) - 1


def take_braces(text: str) -> tuple[str, str]:
    """Return text without its top-level ``{...}`` or ``<{...}>``, and their insides."""
    found: list[str] = []
    kept: list[str] = []
    begin = 0
    for position, character, depth in _with_depth(text):
        opens = character == "{" or (
            character == "<" and text.startswith("<{", position)
        )
        if depth == 0 and position >= begin and opens:
            end = closing(text, position)  # of `{...}`, or of all of `<{...}>`
            kept.append(text[begin:position])
            inside = text[position : end + 1].removeprefix("<").removesuffix(">")
            found.append(inside[1:-1].strip())
            begin = end + 1
    kept.append(text[begin:])
    return "".join(kept), ", ".join(part for part in found if part)


def parse_type(text: str) -> Type:
    """Return a type; an unknown one keeps its spelling and has no bits."""
    text = text.strip()
    match = _INTEGER_TYPE.match(text)
    if match:
        return Type(f"i{match[1]}", int(match[1]))
    if text in FLOAT_BITS:
        return Type(text, FLOAT_BITS[text])
    if text == "index":
        return Type("i64", 64)
    if text.startswith("!tt.ptr<"):
        pointee = parse_type(split_top(text[len("!tt.ptr<") : -1])[0])
        return Type("ptr", 64, (), pointee)
    if text.startswith("tensor<"):
        shape = _SHAPE.match(split_top(text[len("tensor<") : -1])[0])
        if shape:
            sizes = tuple(int(size) for size in shape[1].split("x")[:-1])
            return parse_type(shape[2]).with_shape(sizes)
    return Type(text, 0)


def parse_types(text: str) -> list[Type]:
    """Return the types of a comma-separated list, in parentheses or not."""
    text = text.strip()
    if text.startswith("(") and closing(text, 0) == len(text) - 1:
        text = text[1:-1]
    return [parse_type(part) for part in split_top(text)]


def parse_attributes(text: str) -> dict[str, Attribute]:
    """Return the attributes inside braces."""
    attributes: dict[str, Attribute] = {}
    for part in split_top(text):
        name, equals, value = part.partition("=")
        attributes[name.strip().strip('"')] = (
            parse_attribute(value.strip()) if equals else True
        )
    return attributes


def parse_attribute(text: str) -> Attribute:
    """Return an int, a bool, a list of ints, or the text itself."""
    bare = split_top(text, " : ")[0]
    if _INTEGER.match(bare):
        return int(bare)
    if bare in ("true", "false"):
        return bare == "true"
    if bare.startswith("dense<"):
        return _int_list(bare[len("dense<") : -1].strip("[]"))
    if bare.startswith("array<"):
        return _int_list(bare[:-1].partition(":")[2])
    return bare.strip('"')


def _int_list(text: str) -> Attribute:
    numbers = [part.strip() for part in text.split(",") if part.strip()]
    if all(_INTEGER.match(number) for number in numbers):
        return [int(number) for number in numbers]
    return text
