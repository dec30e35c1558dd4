"""What a slot holds: a number a program, or lanes that are rarely written out.

A scalar is a NumPy number where all programs agree, else an array over the programs. A
tensor is *affine* in its lanes (one base a program and one step a dimension), a *box*
(a mask that is true in an interval of each dimension), or *dense*. Bases and steps are
kept modulo the width of the type, where addition, subtraction and multiplication are
exact, so only what looks at the magnitude of a lane has to ask whether one has wrapped.

A lane that a load left undefined stays marked until something depends on it.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from kvzero.executors.footprint.domain import Array, Pick, Scalar

MAX_DENSE_ELEMENTS = 2**21
"""Lanes written out at once: arrays of at most 16 MiB; more programs go in parts."""


class TooWideError(Exception):
    """Lanes of so many programs would not fit: evaluate fewer programs at once."""


class Partial:
    """A scalar that some programs do not know.

    Attributes:
        value: The scalar.
        undefined: Where it is undefined, bool.
    """

    __slots__ = ("undefined", "value")

    def __init__(self, value: Scalar, undefined: Scalar) -> None:
        """Mark programs of a scalar."""
        self.value = value
        self.undefined = undefined


class Affine:
    """Lanes with the value ``base + sum(step * lane)``, modulo the width.

    Attributes:
        base: One number a program, of the element's dtype.
        steps: One a dimension: an int, or an array over programs.
        shape: Lanes in each dimension.
    """

    __slots__ = ("_span", "base", "shape", "steps")

    def __init__(
        self, base: Scalar, steps: tuple[Any, ...], shape: tuple[int, ...]
    ) -> None:
        """Hold base and steps."""
        self.base = base
        self.steps = steps
        self.shape = shape
        self._span: tuple[int, int] | None = None

    @property
    def is_splat(self) -> bool:
        """Return whether all lanes of a program are equal, as far as can be seen."""
        for step in self.steps:  # noqa: SIM110 - asked often, and a generator is slower
            if step.__class__ is not int or step:
                return False
        return True

    @property
    def has_plain_steps(self) -> bool:
        """Return whether all programs have the same steps."""
        for step in self.steps:  # noqa: SIM110 - as above
            if step.__class__ is not int:
                return False
        return True

    def span(self) -> tuple[int, int]:
        """Return bounds of all lanes of all programs, as if nothing wrapped."""
        if self._span is not None:
            return self._span
        low, high = _extent(self.base)
        for step, size in zip(self.steps, self.shape):
            least, most = (step, step) if step.__class__ is int else _extent(step)
            if least < 0:
                low += least * (size - 1)
            if most > 0:
                high += most * (size - 1)
        self._span = low, high
        return self._span

    def fits(self) -> bool:
        """Return whether certainly no lane has wrapped."""
        if self.is_splat or self.base.dtype == bool:
            return True
        return fits_in(self.base.dtype, self.span())


@cache
def _bounds(dtype: Any) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def fits_in(dtype: Any, span: tuple[int, int]) -> bool:
    """Return whether an integer type holds all numbers between two."""
    least, most = _bounds(dtype)
    return span[0] >= least and span[1] <= most


def _extent(number: Any) -> tuple[int, int]:
    """Return the lowest and highest value of an int or a scalar."""
    if isinstance(number, np.ndarray) and number.size > 1:
        return int(np.minimum.reduce(number, None)), int(
            np.maximum.reduce(number, None)
        )
    value = int(number.item()) if isinstance(number, np.ndarray) else int(number)
    return value, value


class Box:
    """A mask: true in the lanes from `low` to before `high`, in every dimension.

    Attributes:
        low: One a dimension: an int, or an int64 scalar from 0 to the lanes.
        high: Likewise; nowhere true where it is not above `low`.
        shape: Lanes in each dimension.
    """

    __slots__ = ("high", "low", "shape")

    def __init__(
        self, low: tuple[Any, ...], high: tuple[Any, ...], shape: tuple[int, ...]
    ) -> None:
        """Hold the bounds."""
        self.low = low
        self.high = high
        self.shape = shape


class Dense:
    """Lanes written out.

    Attributes:
        array: Shape [1|A, 1|B, *lanes].
        undefined: Which lanes are undefined, broadcastable to it; None: none.
    """

    __slots__ = ("array", "undefined")

    def __init__(self, array: Array, undefined: Array | None = None) -> None:
        """Hold the lanes."""
        self.array = array
        self.undefined = undefined


Tensor = Affine | Box | Dense
Value = Any  # a Scalar, a Partial or a Tensor


def splat(base: Scalar, shape: tuple[int, ...]) -> Affine:
    """Return lanes that all hold the program's scalar."""
    return Affine(base, (0,) * len(shape), shape)


def where(condition: Scalar, first: Scalar, second: Scalar) -> Scalar:
    """Return `first` where a condition holds, else `second`; numbers stay numbers."""
    if not isinstance(condition, np.ndarray):
        return first if condition else second
    result: Any = np.where(condition, first, second)
    return result[()]


def wrapped(value: int, bits: int) -> int:
    """Return an int as two's complement of so many bits leaves it."""
    half = 1 << (bits - 1)
    return value if -half <= value < half else (value + half) % (2 * half) - half


def check_size(*shapes: tuple[int, ...]) -> None:
    """Refuse to write out too many lanes; those of one program always are."""
    shape = np.broadcast_shapes(*shapes)
    if shape[0] * shape[1] > 1 and int(np.prod(shape)) > MAX_DENSE_ELEMENTS:
        raise TooWideError


def lifted(scalar: Scalar, dims: int) -> Scalar:
    """Return a scalar with an axis for each dimension of lanes behind the programs."""
    if scalar.__class__ is int or not isinstance(scalar, np.ndarray):
        return scalar
    return scalar.reshape(*scalar.shape, *(1,) * dims)


def program_shape(scalar: Scalar) -> tuple[int, int]:
    """Return the rows and columns over which a scalar differs."""
    return scalar.shape[:2] if isinstance(scalar, np.ndarray) else (1, 1)


def lane_indices(shape: tuple[int, ...], dim: int, dtype: Any) -> Array:
    """Return the index along one dimension, shaped to broadcast over all."""
    index = np.arange(shape[dim]).astype(dtype)
    return index.reshape([1] * (2 + dim) + [-1] + [1] * (len(shape) - dim - 1))


def written_out(value: Tensor) -> Array:
    """Return the lanes of a tensor as an array of shape [1|A, 1|B, *lanes].

    Raises:
        TooWideError: They would be too many.
    """
    if isinstance(value, Dense):
        return value.array
    if isinstance(value, Box):
        return _box_lanes(value)
    return _affine_lanes(value)


def _affine_lanes(value: Affine) -> Array:
    shape, base = value.shape, value.base
    programs = [program_shape(s) for s in (base, *value.steps)]
    whole = (*np.broadcast_shapes(*programs), *shape)
    check_size(whole)
    lanes = np.empty(whole, base.dtype)
    lanes[...] = lifted(base, len(shape))
    bits = base.dtype.itemsize * 8
    for dim, step in enumerate(value.steps):
        if step.__class__ is not int:
            lanes += lane_indices(shape, dim, base.dtype) * lifted(step, len(shape))
        elif step:
            number = base.dtype.type(wrapped(step, bits))
            lanes += lane_indices(shape, dim, base.dtype) * number
    return lanes


def _box_lanes(value: Box) -> Array:
    shape = value.shape
    bounds = [program_shape(s) for s in (*value.low, *value.high)]
    whole = (*np.broadcast_shapes(*bounds), *shape)
    check_size(whole)
    lanes = np.ones(whole, bool)
    for dim, (low, high) in enumerate(zip(value.low, value.high)):
        index = lane_indices(shape, dim, np.int64)
        lanes &= index >= lifted(low, len(shape))
        lanes &= index < lifted(high, len(shape))
    return lanes


def undefined_of(value: Value) -> Array | None:
    """Return which lanes or programs are undefined, or None."""
    if value.__class__ is Dense or value.__class__ is Partial:
        undefined: Array | None = value.undefined
        return undefined
    return None


def taken(value: Value, pick: Pick) -> Value:
    """Return the part of a value that belongs to the picked programs."""
    kind = value.__class__
    if kind is np.ndarray:
        return pick.take(value)
    if kind is Affine:
        steps = tuple(taken(step, pick) for step in value.steps)
        return Affine(taken(value.base, pick), steps, value.shape)
    if kind is Box:
        low, high = (
            tuple(taken(bound, pick) for bound in bounds)
            for bounds in (value.low, value.high)
        )
        return Box(low, high, value.shape)
    if kind is Dense:
        undefined = value.undefined
        return Dense(
            pick.take(value.array), None if undefined is None else pick.take(undefined)
        )
    if kind is Partial:
        return Partial(taken(value.value, pick), taken(value.undefined, pick))
    return value


Piece = tuple[Pick, Value]


def merged(shape: tuple[int, int], pieces: Sequence[Piece]) -> Value:
    """Return one value from the parts that belong to disjoint picks of programs."""
    values = [value for _, value in pieces]
    kinds = {value.__class__ for value in values}
    if all(isinstance(value, (np.ndarray, np.generic)) for value in values):
        return _merged_arrays(shape, pieces, ())
    if Partial in kinds:
        plain, marks = _split_marks(pieces, lambda _: np.bool_(0))
        return Partial(merged(shape, plain), merged(shape, marks))
    if kinds == {Affine}:
        return _merged_affine(shape, pieces)
    if kinds == {Box}:
        return _merged_box(shape, pieces)
    return _merged_dense(shape, pieces)


def _split_marks(
    pieces: Sequence[Piece], none: Callable[[Value], Value]
) -> tuple[list[Piece], list[Piece]]:
    plain, marks = [], []
    for pick, value in pieces:
        mark = undefined_of(value)
        plain.append((pick, value.value if value.__class__ is Partial else value))
        marks.append((pick, none(value) if mark is None else mark))
    return plain, marks


def _merged_arrays(
    shape: tuple[int, int], pieces: Sequence[Piece], lanes: tuple[int, ...]
) -> Array:
    """Merge arrays, with programs that agree along rows or columns kept as one."""
    rows = any(pick.rows is not None for pick, _ in pieces)
    cols = any(pick.cols is not None for pick, _ in pieces)
    for _, value in pieces:
        height, width = program_shape(value)
        rows, cols = rows or height > 1, cols or width > 1
    whole = (shape[0] if rows else 1, shape[1] if cols else 1, *lanes)
    check_size(whole)
    target = np.empty(whole, pieces[0][1].dtype)
    for pick, value in pieces:
        pick.put(target, value)
    return target


def _merged_affine(shape: tuple[int, int], pieces: Sequence[Piece]) -> Affine:
    first: Affine = pieces[0][1]
    base = _merged_arrays(shape, [(pick, v.base) for pick, v in pieces], ())
    steps: list[Any] = []
    for dim, step in enumerate(first.steps):
        own = [(pick, v.steps[dim]) for pick, v in pieces]
        if all(s.__class__ is int and s == step for _, s in own):
            steps.append(step)
        else:
            typed = [(pick, _as_number(s, base.dtype)) for pick, s in own]
            steps.append(_merged_arrays(shape, typed, ()))
    return Affine(base, tuple(steps), first.shape)


def _as_number(value: Any, dtype: Any) -> Scalar:
    """Return an int as a NumPy number, anything else as it is."""
    if value.__class__ is int:
        return np.dtype(dtype).type(wrapped(value, np.dtype(dtype).itemsize * 8))
    return value


def _merged_box(shape: tuple[int, int], pieces: Sequence[Piece]) -> Box:
    first: Box = pieces[0][1]
    bounds: list[tuple[Scalar, ...]] = []
    for name in ("low", "high"):
        dims = range(len(first.shape))
        own = [
            [(pick, _as_number(getattr(v, name)[dim], np.int64)) for pick, v in pieces]
            for dim in dims
        ]
        bounds.append(tuple(_merged_arrays(shape, o, ()) for o in own))
    return Box(bounds[0], bounds[1], first.shape)


def _merged_dense(shape: tuple[int, int], pieces: Sequence[Piece]) -> Dense:
    arrays = [(pick, written_out(value)) for pick, value in pieces]
    lanes = arrays[0][1].shape[2:]
    array = _merged_arrays(shape, arrays, lanes)
    if all(undefined_of(value) is None for _, value in pieces):
        return Dense(array)
    none = np.zeros((1, 1, *lanes), bool)
    _, marks = _split_marks(pieces, lambda _: none)
    full = [(pick, np.broadcast_to(m, (*m.shape[:2], *lanes))) for pick, m in marks]
    return Dense(array, _merged_arrays(shape, full, lanes))
