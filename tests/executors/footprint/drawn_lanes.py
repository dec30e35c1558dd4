"""Values of an evaluator as Hypothesis draws them, each beside its lanes written out.

A drawn value is affine, a box, dense or a scalar, as the evaluator holds it; what it
stands for is an array over all programs and lanes, and another of the undefined marks.
Lines of TTIR run on the first, and a model, NumPy or Python's integers, on the second.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from hypothesis import strategies as st

from kvzero.executors.footprint.control import BuiltFunction, build_module
from kvzero.executors.footprint.domain import Array, Scalar, grid_domains
from kvzero.executors.footprint.frame import Allowance, Frame, Run
from kvzero.executors.footprint.launch_memory import LaunchMemory
from kvzero.executors.footprint.parse import parse_module
from kvzero.executors.footprint.values import Affine, Box, Dense, Partial, Value
from kvzero.observation import Misstep

GRID = (2, 3, 1)
PROGRAMS = (3, 2)
"""Rows and columns: y and x of the grid."""
PLACE = "drawn.py:7"

SHAPES = ((8,), (1,), (4, 2), (2, 1), (1, 4), (2, 2, 2))
_PARTS = ((1, 1), (3, 1), (1, 2), (3, 2))
_TOPS = (12, 64, 256)


class Drawn(NamedTuple):
    """A value of the evaluator and what it stands for.

    Attributes:
        kind: Its type in TTIR.
        value: The value.
        lanes: Its numbers, shape [*PROGRAMS, *lanes].
        marks: Which are undefined, of the same shape.
    """

    kind: str
    value: Value
    lanes: Array
    marks: Array


class Outcome(NamedTuple):
    """What some lines of TTIR came to."""

    values: tuple[Value, ...]
    missteps: tuple[Misstep, ...]


def kind_of(element: str, shape: Sequence[int]) -> str:
    """Return a type as TTIR prints it."""
    sizes = "".join(f"{size}x" for size in shape)
    return f"tensor<{sizes}{element}>" if shape else element


def dtype_of(bits: int) -> np.dtype[Any]:  # Any: bool, or a signed integer
    """Return the dtype that holds so many bits."""
    return np.dtype(bool if bits == 1 else f"int{bits}")


@cache
def _pool(bits: int) -> Array:
    """Return 256 numbers: small ones first, then borders of widths, then any."""
    small = [n for size in range(32) for n in (size, -1 - size)]
    powers = [2 ** max(bits - less, 0) for less in (1, 2, bits // 2)]
    tops = [power + more for power in powers for more in range(-5, 6)]
    borders = (tops + [-n for n in tops])[:64]
    rest = np.random.default_rng(0).integers(-(2**63), 2**63, 256)
    numbers = [*small, *borders, *rest.tolist()][:256]
    wide = np.array([n % 2**64 for n in numbers], np.uint64).view(np.int64)
    return (wide & 1).astype(bool) if bits == 1 else wide.astype(f"int{bits}")


_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.0, 3.0, 127.0, 128.0, 255.0, -128.0)
_EXTREMES = (math.inf, -math.inf, math.nan, 65504.0, 65520.0, 0.1, -1e-7, 3e38, 1e300)
_BORDERS = tuple(
    sign * (2.0**e + more)
    for e in (7, 8, 15, 16, 31, 32, 63, 64)
    for sign in (1, -1)
    for more in (0, 1, 0.5, -0.75)
)


@cache
def _float_pool(element: str, bits: int) -> Array:
    """Return 256 bit patterns of a float: small ones first, then borders, then any."""
    if bits == 8:
        return np.arange(256).astype(np.int8)
    kind = _FLOATS.get(element, np.float32)
    with np.errstate(all="ignore"):
        known = np.array([*_REALS, *_EXTREMES, *_BORDERS]).astype(kind)
        patterns = known.view(f"i{known.dtype.itemsize}")
        if element == "bf16":
            patterns = patterns >> 16
        rest = _pool(bits)[len(patterns) - 256 :]
        whole = rest.astype(np.int32) << 16 if element == "bf16" else rest
        # What comes of a NaN that signals is the machine's.
        rest = rest[~np.isnan(whole.view(kind))]
    return np.resize(np.concatenate([patterns.astype(rest.dtype), rest]), 256)


class _Tape:
    """Choices read from random bytes: one draw of Hypothesis's, which are slow."""

    def __init__(self, content: bytes) -> None:
        self._content = np.frombuffer(content, np.uint8)
        self._at = 0

    def _next(self, count: int) -> Array:
        self._at += count
        return self._content[self._at - count : self._at]

    def pick(self, options: Sequence[Any]) -> Any:
        """Return one of some options; zero is the first."""
        return options[int(self._next(1)[0]) % len(options)]

    def array(self, bits: int, shape: tuple[int, ...], element: str = "") -> Array:
        """Return numbers near zero, near the borders, or any."""
        pool = _float_pool(element, bits) if element else _pool(bits)
        top = self.pick(_TOPS)
        found: Array = pool[self._next(math.prod(shape)).astype(np.int64) % top]
        return found.reshape(shape)

    def number(self, bits: int, element: str = "") -> Scalar:
        """Return a number, or an array over rows, columns or both of the programs."""
        part = self.pick(_PARTS)
        array = self.array(bits, part, element)
        return array[0, 0] if part == (1, 1) else array

    def scalar(self, bits: int, element: str, *, marks: bool) -> Value:
        """Return a scalar that some programs may not know."""
        value = self.number(bits, element)
        is_marked = marks and self.pick((False, True))
        return Partial(value, self.number(1)) if is_marked else value

    def affine(self, bits: int, shape: tuple[int, ...], element: str) -> Affine:
        """Return affine lanes; floats and bits do not add up, and have no steps."""
        base = self.number(bits, element)
        if bits == 1 or element:
            return Affine(base, (0,) * len(shape), shape)
        steps = [self.number(bits) if self.pick((0, 1)) else 0 for _ in shape]
        typed = [s if isinstance(s, np.ndarray) else int(s) for s in steps]
        return Affine(base, tuple(typed), shape)

    def box(self, shape: tuple[int, ...]) -> Box:
        """Return a box; its bounds are the lanes' own, numbers, or a program's."""
        lows, highs = (
            tuple(
                self.pick((0, size))
                if self.pick((True, False))
                else self.number(64) % (size + 1)
                for size in shape
            )
            for _ in range(2)
        )
        return Box(lows, highs, shape)

    def dense(
        self, bits: int, shape: tuple[int, ...], element: str, *, marks: bool
    ) -> Dense:
        """Return lanes written out, some undefined."""
        whole = (*self.pick(_PARTS), *shape)
        array = self.array(bits, whole, element)
        if not (marks and self.pick((False, True))):
            return Dense(array)
        own = tuple(self.pick((size, 1)) for size in whole)
        return Dense(array, self.array(1, own))

    def value(
        self,
        bits: int,
        shape: tuple[int, ...],
        element: str,
        *,
        marks: bool,
        form: str = "",
    ) -> Value:
        """Return a value of a form, or of any."""
        if not shape:
            return self.scalar(bits, element, marks=marks)
        forms = ("affine", "dense", "box") if bits == 1 else ("affine", "dense")
        form = form or self.pick(forms)
        if form == "box":
            return self.box(shape)
        if form == "affine":
            return self.affine(bits, shape, element)
        return self.dense(bits, shape, element, marks=marks)


def _tapes(lanes: int) -> st.SearchStrategy[_Tape]:
    """Enough bytes for the lanes of all programs, and for their marks."""
    count = 64 + 2 * math.prod(PROGRAMS) * lanes
    return st.binary(min_size=count, max_size=count).map(_Tape)


def numbers(bits: int) -> st.SearchStrategy[Scalar]:
    """Scalars: a number, or an array over programs; shrink to zeros."""
    return _tapes(1).map(lambda tape: tape.number(bits))


def values(
    bits: int,
    shape: tuple[int, ...] = (),
    *,
    element: str = "",
    marks: bool = True,
    form: str = "",
) -> st.SearchStrategy[Drawn]:
    """Values of one type in any form that holds them; shrink to zeros.

    Args:
        bits: Of an element.
        shape: Lanes; none: a scalar.
        element: Name of a float; else it is the integer of so many bits.
        marks: Whether some may be undefined.
        form: Of lanes: ``"affine"``, ``"dense"`` or ``"box"``; else it is drawn.
    """

    def drawn(tape: _Tape) -> Drawn:
        value = tape.value(bits, shape, element, marks=marks, form=form)
        kind = kind_of(element or f"i{bits}", shape)
        return Drawn(kind, value, *written(value, dtype_of(bits), shape))

    return _tapes(math.prod(shape)).map(drawn)


def _whole(array: Any, shape: tuple[int, ...] = ()) -> Array:
    """Return a scalar, or lanes, over all programs and lanes."""
    parts = np.asarray(array)
    if parts.ndim <= 2:
        parts = np.atleast_2d(parts)
        parts = parts.reshape(*parts.shape, *(1,) * len(shape))
    return np.broadcast_to(parts, (*PROGRAMS, *shape))


def written(
    value: Value,
    dtype: Any,  # Any: NumPy's
    shape: tuple[int, ...],
) -> tuple[Array, Array]:
    """Return the numbers and marks of a value, both over all programs and lanes."""
    whole = (*PROGRAMS, *shape)
    marks = np.zeros(whole, bool)
    assert isinstance(value, (Affine, Box, Dense)) == bool(shape)
    if isinstance(value, Affine):
        assert value.shape == shape
        assert value.base.dtype == dtype
        assert all(step.__class__ is int or step.dtype == dtype for step in value.steps)
        return _sum_of_steps(value).astype(dtype), marks
    if isinstance(value, Box):
        assert value.shape == shape
        inside = np.ones(whole, bool)
        for dim, (low, high) in enumerate(zip(value.low, value.high)):
            index = _index(shape, dim)
            inside &= (index >= _whole(low, shape)) & (index < _whole(high, shape))
        return inside, marks
    array = value
    if isinstance(value, (Dense, Partial)):
        array = value.array if isinstance(value, Dense) else value.value
        marks = marks if value.undefined is None else _whole(value.undefined, shape)
    assert array.dtype == dtype
    if shape:
        assert array.shape[2:] == shape
    return _whole(array, shape), marks


def _sum_of_steps(value: Affine) -> Array:
    """Return base and steps added up modulo 64 bits."""
    whole = _whole(value.base, value.shape)
    lanes: Array = whole if whole.dtype == bool else whole.astype(np.int64)
    for dim, step in enumerate(value.steps):
        number = step if isinstance(step, np.ndarray) else int(step) % 2**64
        typed = np.array(number).astype(np.uint64).view(np.int64)
        if typed.any():
            lanes = lanes + _whole(typed, value.shape) * _index(value.shape, dim)
    return lanes


def _index(shape: tuple[int, ...], dim: int) -> Array:
    return cast("Array", np.indices(shape)[dim])


@cache
def _built(text: str) -> dict[str, BuiltFunction]:
    return build_module(parse_module(text))


def evaluated(
    lines: Sequence[str], given: Sequence[Drawn], returned: str = ""
) -> Outcome:
    """Run lines of TTIR on values named ``%a0``, ``%a1`` and so on.

    Args:
        lines: Operations; each stands at `PLACE` unless it names a location.
        given: The arguments.
        returned: Names of what is wanted of them; none: the lines return it.
    """
    passed = ", ".join(f"%a{i}: {each.kind}" for i, each in enumerate(given))
    body = [
        line if line.endswith(("{", ":")) or " loc(" in line else f"{line} loc(#at)"
        for line in (*lines, *([f"tt.return {returned}"] if returned else []))
    ]
    text = "\n".join(
        [
            '#at = loc("/home/me/drawn.py":7:3)',
            "module {",
            f"tt.func public @drawn({passed}) attributes {{noinline = false}} {{",
            *body,
            "} loc(#at)",
            "} loc(#at)",
        ]
    )
    return run_text(text, [each.value for each in given])


def run_text(text: str, arguments: Sequence[Value]) -> Outcome:
    """Run the only function of a module on all programs of the grid."""
    functions = _built(text)
    (built,) = functions.values()
    (domain,) = grid_domains(GRID, 100)
    memory = cast("LaunchMemory", None)  # no line of these loads or stores
    run = Run(memory, GRID, functions, Allowance())
    frame = Frame(built.template, domain, run)
    for slot, value in zip(built.function.arguments, arguments, strict=True):
        frame.values[slot] = value
    with np.errstate(all="ignore"):
        results = built.run(frame)
    return Outcome(results, run.missteps.missteps())


def assert_is(
    value: Value,
    lanes: Array,
    marks: Array | None = None,
) -> None:
    """Assert that a value has these marks, and these lanes where none is set."""
    shape = lanes.shape[2:]
    seen, seen_marks = written(value, lanes.dtype, shape)
    marks = np.zeros(lanes.shape, bool) if marks is None else marks
    np.testing.assert_array_equal(seen_marks, np.broadcast_to(marks, lanes.shape))
    np.testing.assert_array_equal(seen[~seen_marks], lanes[~seen_marks])
