"""Promises that a kernel makes to the compiler, checked for each program.

``tl.multiple_of``, ``max_contiguous``, ``max_constancy``, ``tl.assume`` and the
attributes of arguments reach the back end as facts, and it widens accesses by them. A
false one is a fault even when the bytes come out right here.

Source: definitions in Triton's axis analysis: contiguity and constancy speak of aligned
groups of so many lanes, divisibility of the first lane of each contiguous run, in bytes
for pointers.
"""

from typing import Any

import numpy as np

from kvzero.executors.footprint.domain import Array, Scalar, at_program, some
from kvzero.executors.footprint.elementwise import Step, over_lanes, plain
from kvzero.executors.footprint.frame import Frame
from kvzero.executors.footprint.ir import Function, Op, Type
from kvzero.executors.footprint.values import (
    Affine,
    Partial,
    Value,
    undefined_of,
    written_out,
)

DIVISIBILITY, CONTIGUITY, CONSTANCY = (
    "tt.divisibility",
    "tt.contiguity",
    "tt.constancy",
)
_PROMISES = (DIVISIBILITY, CONTIGUITY, CONSTANCY)
_RANGE = "tt.pointer_range"


def with_promises(op: Op, function: Function, step: Step) -> Step:
    """Return a step that also checks what is promised of its result."""
    made = {
        name: _numbers(op.attributes[name])
        for name in _PROMISES
        if name in op.attributes
    }
    if not made or not op.results:
        return step
    slot = op.results[0]
    kind = function.types[slot]

    def checked(frame: Frame) -> None:
        step(frame)
        for name, numbers in made.items():
            _check(frame, op.place, name, numbers, frame.get(slot), kind)

    return checked


def check_arguments(frame: Frame, function: Function) -> None:
    """Check what a kernel's arguments are promised to be."""
    for slot, attributes in zip(function.arguments, function.argument_attributes):
        kind = function.types[slot]
        for name in _PROMISES:
            if name in attributes and not kind.shape:
                numbers = _numbers(attributes[name])
                _check(frame, function.place, name, numbers, frame.get(slot), kind)


def build_assume(op: Op, function: Function) -> Step:
    """Build ``tl.assume``: a condition that must be true."""
    slot = op.operands[0]
    definition = function.definitions[slot]
    said = _said(definition)

    def step(frame: Frame) -> None:
        value = frame.get(slot)
        holds = plain(value)
        if np.all(holds):
            return
        broken = ~holds
        if value.__class__ is Partial:
            broken = broken & ~value.undefined
        frame.misstep(
            "false-promise",
            op.place,
            lambda row, col: (
                f"tl.assume is false{_operands(frame, definition, said, row, col)}"
            ),
            broken,
        )

    return step


def _said(definition: Op | None) -> str:
    if definition is None or definition.name != "arith.cmpi":
        return ""
    signs = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    return signs.get(str(definition.attributes["words"][0])[-2:], "")


def _operands(
    frame: Frame, definition: Op | None, sign: str, row: int, col: int
) -> str:
    if definition is None or not sign:
        return ""
    left, right = (
        at_program(plain(frame.get(slot)), row, col) for slot in definition.operands
    )
    return f": {left} {sign} {right}"


def _numbers(attribute: Any) -> list[int]:  # Any: as the parser read it
    numbers = attribute if isinstance(attribute, list) else [attribute]
    return [number for number in numbers if isinstance(number, int)]


def _check(
    frame: Frame, place: str, name: str, numbers: list[int], value: Value, kind: Type
) -> None:
    for dim, number in enumerate(numbers):
        if number > 1:
            _check_dim(frame, place, name, dim, number, value, kind)


def _check_dim(
    frame: Frame,
    place: str,
    name: str,
    dim: int,
    number: int,
    value: Value,
    kind: Type,
) -> None:
    unit = kind.pointee_bytes if kind.is_pointer else 1
    if not kind.shape:
        if name != DIVISIBILITY:
            return
        scalar = plain(value)
        broken = _no_multiple(scalar, number)
        mark = undefined_of(value)
        if mark is not None:
            broken = broken & ~mark
        _report(frame, place, name, number, scalar, broken)
        return
    if dim >= len(kind.shape) or kind.bits == 1:
        return
    if value.__class__ is Affine and _affine_keeps(value, name, dim, number, unit):
        return
    lanes = written_out(value)
    broken = _BROKEN[name](lanes, dim, number, unit)
    mark = undefined_of(value)
    if mark is not None:
        broken = broken & ~mark
    _report(frame, place, name, number, lanes, broken)


def _no_multiple(values: Scalar, number: int) -> Scalar:
    """Return which values are no multiples of a number, mostly a power of two."""
    values = _holding(values, number)
    if number & (number - 1):
        return values % values.dtype.type(number) != 0
    return values & values.dtype.type(number - 1) != 0


def _affine_keeps(value: Affine, name: str, dim: int, number: int, unit: int) -> bool:
    """Return whether affine lanes certainly keep a promise; they stay unwritten."""
    if not value.has_plain_steps or not value.fits():
        return False
    step = value.steps[dim]
    if name == CONTIGUITY:
        return bool(step == unit)
    if name == CONSTANCY:
        return bool(step == 0)
    others = [s for d, s in enumerate(value.steps) if d != dim or s != unit]
    if any(s % number for s in others):
        return False
    return not np.any(_no_multiple(value.base, number))


def _holding(values: Scalar, number: int) -> Scalar:
    """Return values of a type that holds a number, too."""
    is_narrow = number.bit_length() >= 8 * values.dtype.itemsize
    return values.astype(np.int64) if is_narrow else values


def _divisibility_broken(lanes: Array, dim: int, number: int, unit: int) -> Array:
    """Return which first lanes of contiguous runs are not multiples of a number."""
    first = np.ones(lanes.shape, bool)
    ahead, behind = _neighbours(lanes, dim)
    starts = ahead != behind + lanes.dtype.type(unit)
    _part(first, dim, 1)[...] = starts
    broken: Array = first & _no_multiple(lanes, number)
    return broken


def _contiguity_broken(lanes: Array, dim: int, number: int, unit: int) -> Array:
    return _group_broken(lanes, dim, number, unit)


def _constancy_broken(lanes: Array, dim: int, number: int, unit: int) -> Array:
    del unit
    return _group_broken(lanes, dim, number, 0)


def _group_broken(lanes: Array, dim: int, number: int, step: int) -> Array:
    """Return which lanes do not follow the one before them in their group."""
    broken = np.zeros(lanes.shape, bool)
    ahead, behind = _neighbours(lanes, dim)
    follows = ahead == behind + lanes.dtype.type(step)
    index = np.arange(1, lanes.shape[dim + 2]) % number != 0
    inside = index.reshape([-1] + [1] * (lanes.ndim - dim - 3))
    _part(broken, dim, 1)[...] = ~follows & inside
    return broken


_BROKEN = {
    DIVISIBILITY: _divisibility_broken,
    CONTIGUITY: _contiguity_broken,
    CONSTANCY: _constancy_broken,
}


def _part(array: Array, dim: int, begin: int, end: int | None = None) -> Array:
    index = [slice(None)] * array.ndim
    index[dim + 2] = slice(begin, end)
    return array[tuple(index)]


def _neighbours(lanes: Array, dim: int) -> tuple[Array, Array]:
    return _part(lanes, dim, 1), _part(lanes, dim, 0, -1)


_WORDS = {
    DIVISIBILITY: ("tl.multiple_of", "a multiple of {}"),
    CONTIGUITY: ("tl.max_contiguous", "contiguous in groups of {}"),
    CONSTANCY: ("tl.max_constancy", "constant in groups of {}"),
}


def _report(
    frame: Frame, place: str, name: str, number: int, values: Scalar, broken: Any
) -> None:
    if not some(broken):
        return
    function, rule = _WORDS[name]

    def text(row: int, col: int) -> str:
        everywhere = np.broadcast_arrays(values, broken)
        if everywhere[0].ndim < 2:
            seen = int(values)
        else:
            own, bad = (np.atleast_1d(part[row, col]) for part in everywhere)
            seen = int(own[bad][0])
        return (
            f"{function}: value={seen}, but must be {rule.format(number)}: the "
            f"compiler was promised it"
        )

    frame.misstep("false-promise", place, text, over_lanes(broken), name)
