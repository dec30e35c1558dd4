"""Operations that make, move or join lanes without changing their values."""

import struct
from typing import Any

import numpy as np

from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.elementwise import (
    Builder,
    Step,
    over_lanes,
    spread,
    stopping,
)
from kvzero.executors.footprint.float_bits import TORCH_FLOATS, rounded
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
    if kind.element in TORCH_FLOATS:
        return int(rounded(np.float64(value), kind.element))
    codes = {"f16": "<e", "f32": "<f", "f64": "<d", "tf32": "<f"}
    if kind.element not in codes:
        return None
    return int.from_bytes(struct.pack(codes[kind.element], value), "little")


def build_constant(op: Op, function: Function) -> Step:
    """Build a constant.

    Not judged: it is written in a form that kvzero cannot read.
    """
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
    """Build the same lanes, in order, in another shape.

    Not judged: lanes that may be reordered, unless only reductions use them.
    """
    operand, result = op.operands[0], op.results[0]
    if "allow_reorder" in op.attributes["words"] and not _only_reduced(
        function, result
    ):
        return stopping(op, "tt.reshape that may reorder lanes")
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


def _only_reduced(function: Function, slot: int) -> bool:
    """Return whether only reductions read a slot."""
    return all(op.name == "tt.reduce" for op in function.readers(slot))


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


def build_join(op: Op, function: Function) -> Step:
    """Build two tensors side by side along a new last dimension."""
    del function
    operands, result = op.operands, op.results[0]

    def step(frame: Frame) -> None:
        values = [frame.get(slot) for slot in operands]
        arrays = [written_out(value) for value in values]
        mark = None
        if any(undefined_of(value) is not None for value in values):
            mark = np.stack(np.broadcast_arrays(*map(_whole_mark, values)), axis=-1)
        check_size((*np.broadcast_shapes(*(a.shape for a in arrays)), 2))
        frame.values[result] = Dense(
            np.stack(np.broadcast_arrays(*arrays), axis=-1), mark
        )

    return step


def _whole_mark(value: Tensor) -> Array:
    """Return a mark for every lane."""
    mark, shape = undefined_of(value), written_out(value).shape
    if mark is None:
        return np.zeros(shape, bool)
    return np.broadcast_to(mark, np.broadcast_shapes(mark.shape, shape))


def build_split(op: Op, function: Function) -> Step:
    """Build the two halves of a last dimension of two."""
    del function
    operand, results, shape = op.operands[0], op.results, op.result_types[0].shape

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        for lane, result in enumerate(results):
            if value.__class__ is Affine and value.has_plain_steps:
                dtype = value.base.dtype
                moved = value.steps[-1] * lane
                base = value.base
                if moved:
                    base = base + dtype.type(wrapped(moved, dtype.itemsize * 8))
                frame.values[result] = Affine(base, value.steps[:-1], shape)
                continue
            mark = undefined_of(value)
            if mark is not None:
                mark = _whole_mark(value)[..., lane]
            frame.values[result] = Dense(written_out(value)[..., lane], mark)

    return step


def build_gather(op: Op, function: Function) -> Step:
    """Build lanes taken from others by their index."""
    source, index = op.operands
    size = function.types[source].shape[op.attributes["axis"]]
    axis, result = op.attributes["axis"] + 2, op.results[0]

    def step(frame: Frame) -> None:
        lanes, at = frame.get(source), frame.get(index)
        where = written_out(at)
        frame.misstep(
            "undefined-value",
            op.place,
            f"tt.gather of a lane outside 0 to {size - 1}",
            over_lanes((where < 0) | (where >= size)),
        )
        where = np.clip(where, 0, size - 1).astype(np.intp)
        check_size(
            (
                *np.broadcast_shapes(where.shape[:2], written_out(lanes).shape[:2]),
                *where.shape[2:],
            )
        )
        mark = undefined_of(at)
        if undefined_of(lanes) is not None:
            own = np.take_along_axis(_whole_mark(lanes), where, axis)
            mark = own if mark is None else mark | own
        taken = np.take_along_axis(written_out(lanes), where, axis)
        frame.values[result] = Dense(taken, mark)

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
    "tt.join": build_join,
    "tt.split": build_split,
    "tt.gather": build_gather,
    "tt.int_to_ptr": build_same_bits,
    "tt.ptr_to_int": build_same_bits,
    "tt.bitcast": build_same_bits,
    "arith.bitcast": build_same_bits,
    "ub.poison": build_poison,
}
