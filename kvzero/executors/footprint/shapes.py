"""Operations that make, move or join lanes without changing their values."""

import struct
from typing import Any

import numpy as np

from kvzero.executors.footprint.arithmetic import REDUCTIONS
from kvzero.executors.footprint.elementwise import (
    Builder,
    Step,
    over_lanes,
    spread,
    stopping,
)
from kvzero.executors.footprint.frame import Frame
from kvzero.executors.footprint.ir import Function, Op, Type
from kvzero.executors.footprint.values import (
    Affine,
    Box,
    Dense,
    Partial,
    Tensor,
    Value,
    check_size,
    splat,
    undefined_of,
    wrapped,
    written_out,
)

_AXES = ("x", "y", "z")


def constant_value(op: Op) -> Value:
    """Return the value of an ``arith.constant``, or None if kvzero cannot read it."""
    kind = op.result_types[0]
    text = op.attributes["value"]
    if text.startswith("dense<"):
        text = text[len("dense<") : -1]
    if not kind.bits or text.startswith('"'):
        return None
    if text.startswith("["):
        return _listed(text, kind)
    number = _number(text, kind)
    if number is None:
        return None
    return splat(number, kind.shape) if kind.shape else number


def _listed(text: str, kind: Type) -> Value:
    words = text.replace("[", " ").replace("]", " ").replace(",", " ").split()
    numbers = [_number(word, kind) for word in words]
    if any(number is None for number in numbers):
        return None
    array = np.array(numbers, kind.dtype).reshape(1, 1, *kind.shape)
    return Dense(array)


def _number(text: str, kind: Type) -> Any:  # Any: a NumPy number, or None
    if text in ("true", "false"):
        return np.bool_(text == "true")
    try:
        bits = int(text, 16) if text.startswith("0x") else _bits(text, kind)
    except (ValueError, OverflowError, struct.error):
        return None
    if bits is None:
        return None
    if kind.bits == 1:
        return np.bool_(bits & 1)
    return kind.dtype.type(wrapped(bits, kind.bits))


def _bits(text: str, kind: Type) -> int | None:
    """Return an int, or the bit pattern of a float; None for formats without one."""
    if not kind.is_float:
        return int(text)
    value = float(text)
    if value == 0 and not text.startswith("-"):
        return 0
    codes = {"f16": "<e", "f32": "<f", "f64": "<d", "bf16": "<f", "tf32": "<f"}
    if kind.element not in codes:
        return None
    packed = struct.pack(codes[kind.element], value)
    bits = int.from_bytes(packed, "little")
    return bits >> 16 if kind.element == "bf16" else bits


def build_constant(op: Op, function: Function) -> Step:
    """Build a constant that kvzero cannot read; the others are there from the start."""
    del function
    return stopping(op, f"constant {op.attributes['value']}")


def build_program_id(op: Op, function: Function) -> Step:
    """Build the program's id along one axis."""
    del function
    axis, result = _AXES.index(op.attributes["words"][0]), op.results[0]

    def step(frame: Frame) -> None:
        frame.values[result] = frame.domain.ids[axis]

    return step


def build_num_programs(op: Op, function: Function) -> Step:
    """Build the size of the grid along one axis."""
    del function
    axis, result = _AXES.index(op.attributes["words"][0]), op.results[0]

    def step(frame: Frame) -> None:
        frame.values[result] = np.int32(frame.run.grid[axis])

    return step


def build_range(op: Op, function: Function) -> Step:
    """Build consecutive integers."""
    del function
    result, shape = op.results[0], op.result_types[0].shape
    lanes = Affine(np.int32(op.attributes["start"]), (1,), shape)

    def step(frame: Frame) -> None:
        frame.values[result] = lanes

    return step


def build_same_bits(op: Op, function: Function) -> Step:
    """Build a change of type that leaves the bits alone."""
    source, target = function.types[op.operands[0]], op.result_types[0]
    operand, result = op.operands[0], op.results[0]
    if source.bits != target.bits:
        return stopping(op)

    def step(frame: Frame) -> None:
        frame.values[result] = frame.get(operand)

    return step


def build_splat(op: Op, function: Function) -> Step:
    """Build the same value in all lanes."""
    del function
    operand, result = op.operands[0], op.results[0]
    shape = op.result_types[0].shape

    def step(frame: Frame) -> None:
        frame.values[result] = spread(frame.get(operand), shape)

    return step


def build_unsplat(op: Op, function: Function) -> Step:
    """Build the scalar that a tensor of one element holds."""
    del function
    operand, result = op.operands[0], op.results[0]

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        array, mark = written_out(value), undefined_of(value)
        scalar = as_scalar(array.reshape(array.shape[:2]))
        if mark is not None:
            scalar = Partial(scalar, over_lanes(mark))
        frame.values[result] = scalar

    return step


def as_scalar(array: Any) -> Any:  # Any: an array of [1|A, 1|B], or its one number
    """Return a number where all programs share one."""
    return array[0, 0] if array.size == 1 else array


def build_broadcast(op: Op, function: Function) -> Step:
    """Build lanes repeated along dimensions of size one."""
    del function
    operand, result = op.operands[0], op.results[0]
    shape = op.result_types[0].shape

    def step(frame: Frame) -> None:
        frame.values[result] = _broadcast(frame.get(operand), shape)

    return step


def _broadcast(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    if isinstance(value, Affine):
        grown = [a != b for a, b in zip(value.shape, shape)]
        steps = tuple(0 if g else step for step, g in zip(value.steps, grown))
        return Affine(value.base, steps, shape)
    if isinstance(value, Box):
        factors = [b // a for a, b in zip(value.shape, shape)]
        low = tuple(bound * factor for bound, factor in zip(value.low, factors))
        high = tuple(bound * factor for bound, factor in zip(value.high, factors))
        return Box(low, high, shape)
    whole = (*value.array.shape[:2], *shape)
    check_size(whole)
    return Dense(np.broadcast_to(value.array, whole), value.undefined)


def build_expand_dims(op: Op, function: Function) -> Step:
    """Build lanes with one more dimension, of size one."""
    del function
    operand, result = op.operands[0], op.results[0]
    axis, shape = op.attributes["axis"], op.result_types[0].shape

    def insert(parts: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
        return (*parts[:axis], new, *parts[axis:])

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        if value.__class__ is Affine:
            value = Affine(value.base, insert(value.steps, 0), shape)
        elif value.__class__ is Box:
            value = Box(insert(value.low, 0), insert(value.high, 1), shape)
        else:
            mark = value.undefined
            if mark is not None:
                mark = np.expand_dims(mark, axis + 2)
            value = Dense(np.expand_dims(value.array, axis + 2), mark)
        frame.values[result] = value

    return step


def build_reshape(op: Op, function: Function) -> Step:
    """Build the same lanes, in order, in another shape."""
    operand, result = op.operands[0], op.results[0]
    before, shape = function.types[operand].shape, op.result_types[0].shape

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        if value.__class__ is Affine:
            steps = _reshaped_steps(value, shape)
            if steps is not None:
                frame.values[result] = Affine(value.base, steps, shape)
                return
        array, mark = written_out(value), undefined_of(value)
        if mark is not None:
            mark = np.broadcast_to(mark, (*mark.shape[:2], *before))
            mark = mark.reshape(*mark.shape[:2], *shape)
        frame.values[result] = Dense(array.reshape(*array.shape[:2], *shape), mark)

    return step


def _reshaped_steps(value: Affine, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the steps in another shape, or None where the lanes are not affine."""
    if value.is_splat:
        return (0,) * len(shape)
    if not value.has_plain_steps:
        return None
    unit: int | None = None
    run = 1
    for size, step in zip(reversed(value.shape), reversed(value.steps)):
        if size > 1:
            if unit is None:
                unit = step if run == 1 else None
            if unit is None or step != unit * run:
                return None
        run *= size
    steps, run = [], 1
    for size in reversed(shape):
        steps.append((unit or 0) * run)
        run *= size
    return tuple(reversed(steps))


def build_trans(op: Op, function: Function) -> Step:
    """Build lanes with their dimensions in another order."""
    del function
    operand, result = op.operands[0], op.results[0]
    order = op.attributes["order"]
    shape = op.result_types[0].shape
    axes = (0, 1, *(dim + 2 for dim in order))

    def permuted(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(parts[dim] for dim in order)

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        if value.__class__ is Affine:
            value = Affine(value.base, permuted(value.steps), shape)
        elif value.__class__ is Box:
            value = Box(permuted(value.low), permuted(value.high), shape)
        else:
            mark = value.undefined
            if mark is not None:
                mark = mark.transpose(axes)
            value = Dense(value.array.transpose(axes), mark)
        frame.values[result] = value

    return step


def build_reduce(op: Op, function: Function) -> Step:
    """Build a reduction along one dimension by one integer operation."""
    kind = function.types[op.operands[0]] if op.operands else Type("?", 0)
    body = op.regions[0].blocks[0].ops
    if len(op.operands) != 1 or len(body) != 2 or kind.bits < 8:
        return stopping(op)
    if set(body[0].operands) != set(op.regions[0].blocks[0].arguments):
        return stopping(op)
    fn = REDUCTIONS.get(body[0].name)
    if fn is None:
        return stopping(op, f"tt.reduce by {body[0].name}")
    operand, result = op.operands[0], op.results[0]
    axis = op.attributes["axis"] + 2

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        lanes, mark = fn(written_out(value), axis), undefined_of(value)
        if mark is not None:
            mark = mark.any(axis=axis)
        if lanes.ndim > 2:
            frame.values[result] = Dense(lanes, mark)
        elif mark is None:
            frame.values[result] = as_scalar(lanes)
        else:
            frame.values[result] = Partial(as_scalar(lanes), as_scalar(mark))

    return step


def build_poison(op: Op, function: Function) -> Step:
    """Build a value that is undefined everywhere."""
    del function
    kind, result = op.result_types[0], op.results[0]
    if not kind.bits:
        return stopping(op)
    value: Value = Partial(kind.dtype.type(0), np.bool_(1))
    if kind.shape:
        value = spread(value, kind.shape)

    def step(frame: Frame) -> None:
        frame.values[result] = value

    return step


SHAPES: dict[str, Builder] = {
    "arith.constant": build_constant,
    "tt.get_program_id": build_program_id,
    "tt.get_num_programs": build_num_programs,
    "tt.make_range": build_range,
    "tt.splat": build_splat,
    "tt.unsplat": build_unsplat,
    "tt.broadcast": build_broadcast,
    "tt.expand_dims": build_expand_dims,
    "tt.reshape": build_reshape,
    "tt.trans": build_trans,
    "tt.reduce": build_reduce,
    "tt.int_to_ptr": build_same_bits,
    "tt.ptr_to_int": build_same_bits,
    "tt.bitcast": build_same_bits,
    "arith.bitcast": build_same_bits,
    "ub.poison": build_poison,
}
