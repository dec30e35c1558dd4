"""Operations lane by lane: on scalars directly, on tensors in the cheapest form.

Each builder resolves slots, types and functions once and returns a step, a function of
the frame. Addition, subtraction and multiplication by a splat keep tensors affine;
comparisons of affine lanes give boxes as long as nothing can have wrapped; everything
else is written out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvzero.executors.footprint.arithmetic import (
    BINARY,
    CASTS,
    Binary,
    binary_of,
    comparison_of,
    extended,
    overflow_trap,
    truncated,
)
from kvzero.executors.footprint.domain import Scalar, at_program, some
from kvzero.executors.footprint.frame import Frame, NotJudgedError
from kvzero.executors.footprint.ir import Function, Op
from kvzero.executors.footprint.lanes import compared
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
    where,
    wrapped,
    written_out,
)

Step = Callable[[Frame], None]
Builder = Callable[[Op, Function], Step]
Fn = Callable[..., Any]  # Any: numbers or arrays of any dtype


def stopping(op: Op, what: str = "") -> Step:
    """Return a step that ends the evaluation, naming the operation and its line."""
    reason = f"{what or op.name} at {op.place}"

    def step(_: Frame) -> None:
        raise NotJudgedError(reason)

    return step


def any_undefined(values: Sequence[Value]) -> Any:  # Any: an array, a number or None
    """Return where any of the values is undefined; arrays broadcast over lanes."""
    found: Any = None
    for value in values:
        mark = undefined_of(value)
        if mark is not None:
            found = mark if found is None else found | mark
    return found


def over_lanes(mark: Scalar) -> Scalar:
    """Return for each program whether a mark is set in any of its lanes."""
    if isinstance(mark, np.ndarray) and mark.ndim > 2:
        return mark.any(axis=tuple(range(2, mark.ndim)))
    return mark


def plain(value: Value) -> Scalar:
    """Return a scalar without its marks."""
    return value.value if value.__class__ is Partial else value


def lanes_of(fn: Fn, values: Sequence[Tensor]) -> Dense:
    """Apply a function to lanes written out; a lane of undefined lanes is undefined."""
    arrays = [written_out(value) for value in values]
    check_size(*(array.shape for array in arrays))
    return Dense(fn(*arrays), any_undefined(values))


def mapped(fn: Fn, values: Sequence[Value], shape: tuple[int, ...]) -> Value:
    """Apply a function to scalars, splats or lanes."""
    if not shape:
        for value in values:
            if value.__class__ is Partial:
                result = fn(*(plain(value) for value in values))
                return Partial(result, any_undefined(values))
        return fn(*values)
    if all(v.__class__ is Affine and v.is_splat for v in values):
        return splat(fn(*(v.base for v in values)), shape)
    return lanes_of(fn, values)


def build_mapped(fn: Fn) -> Builder:
    """Return a builder for an operation that is one function of all its operands."""

    def build(op: Op, function: Function) -> Step:
        del function
        operands, result = op.operands, op.results[0]
        shape = op.result_types[0].shape

        def step(frame: Frame) -> None:
            values = list(map(frame.get, operands))
            frame.values[result] = mapped(fn, values, shape)

        return step

    return build


def build_binary(op: Op, function: Function) -> Step:
    """Build an operation on two integers."""
    rule = binary_of(op.name, function.types[op.operands[0]].bits)
    if "nsw" in op.attributes.get("words", ()):
        rule = Binary(rule.fn, overflow_trap(op.name), "nothing overflows")
    left, right, result = *op.operands, op.results[0]
    shape = op.result_types[0].shape
    fn, trap = rule.fn, rule.trap

    def scalar_step(frame: Frame) -> None:
        x, y = frame.get(left), frame.get(right)
        if trap is not None:
            _trap(frame, op, rule, x, y)
        if x.__class__ is Partial or y.__class__ is Partial:
            frame.values[result] = _partial_binary(rule, x, y)
        else:
            frame.values[result] = fn(x, y)

    def tensor_step(frame: Frame) -> None:
        x, y = frame.get(left), frame.get(right)
        if trap is not None:
            _trap(frame, op, rule, x, y)
        frame.values[result] = tensor_binary(op.name, rule, x, y, shape)

    return tensor_step if shape else scalar_step


def tensor_binary(
    name: str, rule: Binary, x: Tensor, y: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Return the result of an operation on two tensors, affine where that is exact."""
    if x.__class__ is Affine and y.__class__ is Affine:
        if x.is_splat and y.is_splat:
            return splat(rule.fn(x.base, y.base), shape)
        if x.base.dtype != bool:
            affine = _affine_binary(name, x, y)
            if affine is not None:
                return affine
    if name == "arith.andi":
        box = _box_and(x, y)
        if box is not None:
            return box
    result = lanes_of(rule.fn, (x, y))
    if result.undefined is not None and rule.absorbs is not None:
        result.undefined = _absorbed(rule, x, y, result.undefined)
    return result


def _absorbed(rule: Binary, x: Value, y: Value, undefined: Any) -> Any:
    """Clear marks where a defined operand fixes the result alone."""
    for value in (x, y):
        is_scalar = value.__class__ is Partial or isinstance(
            value, (np.ndarray, np.generic)
        )
        lanes = plain(value) if is_scalar else written_out(value)
        fixes = lanes == lanes.dtype.type(rule.absorbs)
        mark = undefined_of(value)
        undefined = undefined & ~(fixes if mark is None else fixes & ~mark)
    return undefined


def _partial_binary(rule: Binary, x: Value, y: Value) -> Partial:
    undefined = any_undefined((x, y))
    if rule.absorbs is not None:
        undefined = _absorbed(rule, x, y, undefined)
    return Partial(rule.fn(plain(x), plain(y)), undefined)


def _trap(frame: Frame, op: Op, rule: Binary, x: Value, y: Value) -> None:
    """Report programs whose operands have no defined result."""
    if rule.trap is None:
        return
    second = _lanes_or_base(y)
    if rule.suspects is not None and not some(rule.suspects(second)):
        return
    bad = rule.trap(_lanes_or_base(x), second)
    undefined = any_undefined((x, y))
    if undefined is not None:
        bad = bad & ~undefined
    name = op.name.partition(".")[2]
    frame.misstep(
        "undefined-arithmetic",
        op.place,
        lambda row, col: (
            f"{name} by {_shown(second, bad, row, col)}, but must be such that "
            f"{rule.rule}: the result is undefined"
        ),
        over_lanes(bad),
    )


def _shown(value: Scalar, bad: Scalar, row: int, col: int) -> int:
    """Return a value that one program got wrong."""
    if not isinstance(value, np.ndarray) or value.ndim == 2:
        return at_program(value, row, col)
    own, its = (part[row, col] for part in np.broadcast_arrays(value, bad))
    return int(own[its][0])


def _lanes_or_base(value: Value) -> Scalar:
    """Return a scalar, or lanes that broadcast over those of others."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value
    if value.__class__ is Affine and value.is_splat:
        base = value.base
        if isinstance(base, np.ndarray):
            return base.reshape(*base.shape, *(1,) * len(value.shape))
        return base
    if value.__class__ in (Affine, Box, Dense):
        return written_out(value)
    return plain(value)


def _affine_binary(name: str, x: Affine, y: Affine) -> Affine | None:
    """Add, subtract or scale; None where the result is not affine."""
    bits = x.base.dtype.itemsize * 8
    if name in ("arith.addi", "arith.subi"):
        sign = 1 if name == "arith.addi" else -1
        base = x.base + y.base if sign > 0 else x.base - y.base
        steps = tuple(
            _added(a, b, sign, bits, x.base.dtype) for a, b in zip(x.steps, y.steps)
        )
        return Affine(base, steps, x.shape)
    if name == "arith.muli":
        if x.is_splat:
            x, y = y, x
        if y.is_splat:
            return _scaled(x, y.base)
    is_shift = name == "arith.shli" and y.is_splat
    if is_shift and not isinstance(y.base, np.ndarray) and 0 <= int(y.base) < bits:
        return _scaled(x, x.base.dtype.type(wrapped(1 << int(y.base), bits)))
    return None


def _added(a: Any, b: Any, sign: int, bits: int, dtype: Any) -> Any:
    if a.__class__ is int and b.__class__ is int:
        return wrapped(a + sign * b, bits)
    one, other = (
        dtype.type(wrapped(s, bits)) if s.__class__ is int else s for s in (a, b)
    )
    return _as_step(one + other if sign > 0 else one - other)


def _as_step(step: Scalar) -> Any:
    """Return a step that all programs share as an int."""
    return step if isinstance(step, np.ndarray) else int(step)


def _scaled(x: Affine, factor: Scalar) -> Affine:
    dtype = x.base.dtype
    bits = dtype.itemsize * 8
    shared = not isinstance(factor, np.ndarray)
    steps: list[Any] = []
    for step in x.steps:
        if step.__class__ is int and (shared or step == 0):
            steps.append(wrapped(step * int(factor), bits) if step else 0)
        else:
            number = dtype.type(wrapped(step, bits)) if step.__class__ is int else step
            steps.append(number * factor)
    return Affine(x.base * factor, tuple(steps), x.shape)


def _box_and(x: Tensor, y: Tensor) -> Tensor | None:
    if x.__class__ is Box and y.__class__ is Box:
        low = tuple(map(_higher, x.low, y.low))
        high = tuple(map(_lower, x.high, y.high, x.shape))
        return Box(low, high, x.shape)
    if y.__class__ is Box:
        x, y = y, x
    if x.__class__ is Box and y.__class__ is Affine and y.is_splat:
        high = tuple(where(y.base, h, np.int64(0)) for h in x.high)
        return Box(x.low, high, x.shape)
    return None


def _higher(a: Any, b: Any) -> Any:  # Any: an int, or a scalar
    """Return the higher of two bounds, of which none is below 0."""
    if a.__class__ is int and a == 0:
        return b
    if b.__class__ is int and b == 0:
        return a
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return a if a >= b else b


def _lower(a: Any, b: Any, size: int) -> Any:  # Any: likewise
    """Return the lower of two bounds, of which none is above the lanes."""
    if a.__class__ is int and a == size:
        return b
    if b.__class__ is int and b == size:
        return a
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b)
    return a if a <= b else b


def build_compare(op: Op, function: Function) -> Step:
    """Build a comparison of integers."""
    kind = function.types[op.operands[0]]
    predicate = op.attributes["words"][0]
    fn = comparison_of(predicate, kind.bits)
    left, right, result = *op.operands, op.results[0]
    shape = kind.shape
    if not shape:
        return build_mapped(fn)(op, function)

    def step(frame: Frame) -> None:
        x, y = frame.get(left), frame.get(right)
        if x.__class__ is Affine and y.__class__ is Affine:
            found = compared(predicate, x, y)
            if found is not None:
                frame.values[result] = found
                return
        frame.values[result] = mapped(fn, (x, y), shape)

    return step


def build_cast(op: Op, function: Function) -> Step:
    """Build a change of an integer's width."""
    cast, dtype = CASTS[op.name], op.result_types[0].dtype
    operand, result = op.operands[0], op.results[0]
    shape = op.result_types[0].shape
    if not shape:
        return build_mapped(lambda x: cast(x, dtype))(op, function)

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        if value.__class__ is Affine and not value.is_splat:
            affine = _cast_affine(op.name, value, dtype)
            if affine is not None:
                frame.values[result] = affine
                return
        frame.values[result] = mapped(lambda x: cast(x, dtype), (value,), shape)

    return step


def _cast_affine(name: str, value: Affine, dtype: Any) -> Affine | None:
    if np.bool_ in (dtype, value.base.dtype):
        return None
    if name == "arith.trunci":
        steps = [s if s.__class__ is int else truncated(s, dtype) for s in value.steps]
        bits = dtype.itemsize * 8
        steps = [wrapped(s, bits) if s.__class__ is int else s for s in steps]
        return Affine(truncated(value.base, dtype), tuple(steps), value.shape)
    if not value.fits() or (name == "arith.extui" and value.span()[0] < 0):
        return None
    return widened(value, dtype)


def widened(value: Affine, dtype: Any) -> Affine:
    """Return the same lanes in a wider type; they must not have wrapped."""
    steps = tuple(
        step if step.__class__ is int else extended(step, dtype) for step in value.steps
    )
    return Affine(extended(value.base, dtype), steps, value.shape)


def build_select(op: Op, function: Function) -> Step:
    """Build a choice between two values."""
    del function
    condition, first, second = op.operands
    result, shape = op.results[0], op.result_types[0].shape

    def step(frame: Frame) -> None:
        ways = frame.get(first), frame.get(second)
        frame.values[result] = selected(frame.get(condition), *ways, shape)

    return step


def selected(
    condition: Value, first: Value, second: Value, shape: tuple[int, ...]
) -> Value:
    """Return `first` where a condition holds, else `second`."""
    if not shape:
        return _selected_scalar(condition, first, second)
    if isinstance(condition, (np.ndarray, np.generic)):
        condition = splat(condition, shape)
    elif condition.__class__ is Partial:
        condition = spread(condition, shape)
    are_affine = first.__class__ is Affine and second.__class__ is Affine
    if condition.__class__ is Affine and condition.is_splat and are_affine:
        return _selected_affine(condition.base, first, second)
    return _selected_lanes(condition, first, second)


def _selected_scalar(condition: Value, first: Value, second: Value) -> Value:
    kinds = condition.__class__, first.__class__, second.__class__
    if Partial not in kinds:
        return where(condition, first, second)
    chosen = where(plain(condition), plain(first), plain(second))
    no = np.bool_(0)
    marks = [m if m is not None else no for m in map(undefined_of, (first, second))]
    undefined = where(plain(condition), *marks)
    own = undefined_of(condition)
    return Partial(chosen, undefined if own is None else undefined | own)


def _selected_affine(condition: Scalar, first: Affine, second: Affine) -> Affine:
    dtype = first.base.dtype
    bits = dtype.itemsize * 8
    steps: list[Any] = []
    for a, b in zip(first.steps, second.steps):
        if a.__class__ is int and b.__class__ is int and a == b:
            steps.append(a)
        else:
            one, other = (
                dtype.type(wrapped(s, bits)) if s.__class__ is int else s
                for s in (a, b)
            )
            steps.append(_as_step(where(condition, one, other)))
    base = where(condition, first.base, second.base)
    return Affine(base, tuple(steps), first.shape)


def _selected_lanes(condition: Tensor, first: Tensor, second: Tensor) -> Dense:
    arrays = [written_out(v) for v in (condition, first, second)]
    check_size(*(array.shape for array in arrays))
    chosen = np.where(*arrays)
    if any_undefined((condition, first, second)) is None:
        return Dense(chosen)
    no = np.zeros((1,) * arrays[0].ndim, bool)
    marks = [m if m is not None else no for m in map(undefined_of, (first, second))]
    undefined = np.where(arrays[0], *marks)
    own = undefined_of(condition)
    return Dense(chosen, undefined if own is None else undefined | own)


def spread(value: Value, shape: tuple[int, ...]) -> Tensor:
    """Return a scalar in all lanes."""
    if value.__class__ is not Partial:
        return splat(value, shape)
    lanes, marks = (
        np.asarray(part).reshape(*np.atleast_2d(part).shape, *(1,) * len(shape))
        for part in (value.value, value.undefined)
    )
    whole = (*np.broadcast_shapes(lanes.shape, marks.shape)[:2], *shape)
    check_size(whole)
    return Dense(np.broadcast_to(lanes, whole), marks)


def build_absolute(op: Op, function: Function) -> Step:
    """Build an integer without its sign; the lowest stays as it is."""
    return build_mapped(np.abs)(op, function)


ELEMENTWISE: dict[str, Builder] = {
    **dict.fromkeys(BINARY, build_binary),
    **dict.fromkeys(CASTS, build_cast),
    "arith.cmpi": build_compare,
    "arith.select": build_select,
    "math.absi": build_absolute,
}
