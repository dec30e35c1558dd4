"""Reductions and scans against Python's own, one line of lanes after the other."""

from collections.abc import Callable
from functools import reduce
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.values import Dense, wrapped
from tests.executors.footprint.drawn_lanes import (
    PROGRAMS,
    Drawn,
    assert_is,
    dtype_of,
    evaluated,
    kind_of,
    values,
)
from tests.executors.footprint.test_arithmetic import SIGNED, UNSIGNED

WIDTHS = (1, 8, 32, 64)
SHAPES = ((8,), (1,), (4, 2), (2, 4), (16, 1), (2, 2, 2))
Row = tuple[int, ...]  # one number an operand, as unsigned integers
ABSORBING = ("arith.muli", "arith.andi", "arith.ori")
NAMES = (
    *(f"arith.{name}" for name in ("addi", "muli", "andi", "ori", "xori")),
    *(f"arith.{name}" for name in ("maxsi", "minsi", "maxui", "minui")),
)


class Rule(NamedTuple):
    """An associative function.

    Attributes:
        operands: How many tensors it combines.
        body: Its lines, on ``%x0``, ``%y0`` and so on, after the type ``T``.
        ends: What it returns.
        fn: The same, of Python's integers and their bits.
        is_marked: Whether any undefined lane makes the result undefined.
        absorbs: Whether it does so only where NumPy's own reduction is used.
    """

    operands: int
    body: tuple[str, ...]
    ends: str
    fn: Callable[[Row, Row, int], Row]
    is_marked: bool = True
    absorbs: bool = False


def _signed(number: int, bits: int) -> int:
    return wrapped(number, bits) if bits > 1 else -number


def _single(name: str, *, is_turned: bool, is_known: bool) -> Rule:
    def fn(x: Row, y: Row, bits: int) -> Row:
        if name in SIGNED:
            exact = SIGNED[name](_signed(x[0], bits), _signed(y[0], bits))
        else:
            exact = UNSIGNED[name](x[0], y[0])
        return (exact % 2**bits,)

    pair = "%y0, %x0" if is_turned else "%x0, %y0"
    # A line that does nothing hides from NumPy's own reduction.
    idle = () if is_known else ("%i = arith.xori %x0, %x0 : T",)
    body = (f"%r = {name} {pair} : T", *idle)
    absorbs = name in ABSORBING
    return Rule(1, body, "%r", fn, is_known or not absorbs, absorbs)


def _last(x: Row, y: Row, bits: int) -> Row:
    del x, bits
    return y


def _composed(x: Row, y: Row, bits: int) -> Row:
    """Return one line ``a * t + b`` put into another; the order matters."""
    return (x[0] * y[0]) % 2**bits, (x[1] * y[0] + y[1]) % 2**bits


def _highest(x: Row, y: Row, bits: int) -> Row:
    return x if _signed(x[0], bits) >= _signed(y[0], bits) else y


LAST = Rule(1, ("%i = arith.xori %x0, %x0 : T",), "%y0", _last, is_marked=False)
COMPOSED = Rule(
    2,
    (
        "%r = arith.muli %x0, %y0 : T",
        "%p = arith.muli %x1, %y0 : T",
        "%s = arith.addi %p, %y1 : T",
    ),
    "%r, %s",
    _composed,
    is_marked=False,
)
HIGHEST = Rule(
    2,
    (
        "%c = arith.cmpi sge, %x0, %y0 : T",
        "%r = arith.select %c, %x0, %y0 : T",
        "%s = arith.select %c, %x1, %y1 : T",
    ),
    "%r, %s",
    _highest,
    is_marked=False,
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Associative functions; shrink to sums."""
    own = draw(st.sampled_from((None, LAST, COMPOSED, HIGHEST)))
    if own is not None:
        return own
    turned, known = draw(st.booleans()), draw(st.booleans())
    return _single(draw(st.sampled_from(NAMES)), is_turned=turned, is_known=known)


class Combined(NamedTuple):
    """A reduction or a scan, drawn."""

    rule: Rule
    bits: int
    shape: tuple[int, ...]
    axis: int
    given: list[Drawn]

    def lines(self, name: str, result: tuple[int, ...], extra: str = "") -> list[str]:
        """Return it as MLIR prints it."""
        count, element = self.rule.operands, f"i{self.bits}"
        operands = ", ".join(f"%a{i}" for i in range(count))
        arguments = ", ".join(
            f"%{side}{i}: {element} loc(unknown)" for side in "xy" for i in range(count)
        )
        kinds, results = (
            ", ".join([kind_of(element, shape)] * count)
            for shape in (self.shape, result)
        )
        wanted = f"({results})" if count > 1 else results
        return [
            f'%z{":2" if count > 1 else ""} = "{name}"({operands}) '
            f"<{{axis = {self.axis} : i32{extra}}}> ({{",
            f"^bb0({arguments}):",
            *(line.replace(": T", f": {element}") for line in self.rule.body),
            f"{name}.return {self.rule.ends} : {element}",
            f"}}) : ({kinds}) -> {wanted}",
        ]

    def returned(self) -> str:
        """Return the names of its results."""
        return "%z" if self.rule.operands == 1 else "%z#0, %z#1"

    def along(self, fn: Callable[[list[Row]], list[Row]], length: int) -> list[Array]:
        """Return what a function makes of each row of numbers along the axis."""
        moved = [np.moveaxis(each.lanes, self.axis + 2, -1) for each in self.given]
        unsigned = [
            m if m.dtype == bool else m.view(f"u{m.dtype.itemsize}")
            for m in map(np.ascontiguousarray, moved)
        ]
        whole = (*moved[0].shape[:-1], length)
        found = [np.zeros(whole, u.dtype) for u in unsigned]
        for at in np.ndindex(*whole[:-1]):
            rows = list(zip(*([int(n) for n in u[at]] for u in unsigned)))
            for target, numbers in zip(found, zip(*fn(rows))):
                target[at] = numbers
        return [
            np.moveaxis(f.view(each.lanes.dtype), -1, self.axis + 2)
            for f, each in zip(found, self.given)
        ]


@st.composite
def combinations(draw: st.DrawFn, *, scans: bool = False) -> Combined:
    """Reductions or scans; shrink to few."""
    rule, shape = draw(rules()), draw(st.sampled_from(SHAPES))
    bits = draw(st.sampled_from(WIDTHS))
    is_plain = not rule.is_marked or (rule.absorbs and (scans or bits == 1))
    given_ = [
        draw(values(bits, shape, marks=not is_plain)) for _ in range(rule.operands)
    ]
    return Combined(rule, bits, shape, draw(st.integers(0, len(shape) - 1)), given_)


@settings(max_examples=80)
@given(combinations())
def test_reduction_combines_lanes_in_their_order(drawn: Combined) -> None:
    result = (*drawn.shape[: drawn.axis], *drawn.shape[drawn.axis + 1 :])
    outcome = evaluated(drawn.lines("tt.reduce", result), drawn.given, drawn.returned())
    exact = drawn.along(
        lambda rows: [reduce(lambda x, y: drawn.rule.fn(x, y, drawn.bits), rows)], 1
    )
    for value, lanes, each in zip(outcome.values, exact, drawn.given, strict=True):
        marks = np.asarray(each.marks.any(axis=drawn.axis + 2))
        assert_is(value, lanes.reshape(*PROGRAMS, *result), marks)


@settings(max_examples=60)
@given(combinations(scans=True), st.booleans())
def test_scan_combines_all_lanes_up_to_each(drawn: Combined, is_reversed: bool) -> None:
    extra = f", reverse = {str(is_reversed).lower()}"
    lines = drawn.lines("tt.scan", drawn.shape, extra)
    outcome = evaluated(lines, drawn.given, drawn.returned())
    order = -1 if is_reversed else 1

    def scanned(rows: list[Row]) -> list[Row]:
        found = accumulate(rows[::order], lambda x, y: drawn.rule.fn(x, y, drawn.bits))
        return list(found)[::order]

    axis = drawn.axis + 2
    exact = drawn.along(scanned, drawn.shape[drawn.axis])
    for value, lanes, each in zip(outcome.values, exact, drawn.given, strict=True):
        turned = np.flip(each.marks, axis) if is_reversed else each.marks
        marks = np.maximum.accumulate(turned, axis)
        assert_is(value, lanes, np.flip(marks, axis) if is_reversed else marks)


@settings(max_examples=30)
@given(
    combinations(),
    st.sampled_from((("tt.reduce", ""), ("tt.scan", ", reverse = false"))),
    st.integers(0, 3),
)
def test_function_that_is_not_known_to_be_associative_is_refused_wherever_it_stands(
    drawn: Combined, form: tuple[str, str], at: int
) -> None:
    name, extra = form
    body = list(drawn.rule.body)
    body.insert(len(body) - at % (len(body) + 1), "%o = math.absi %x0 : T")
    drawn = drawn._replace(rule=drawn.rule._replace(body=tuple(body)))
    lines = drawn.lines(name, drawn.shape, extra)
    with pytest.raises(NotJudgedError, match=f"{name} by math.absi"):
        evaluated(lines, drawn.given, drawn.returned())


@settings(max_examples=30)
@given(
    name=st.sampled_from(ABSORBING),
    bits=st.sampled_from((8, 32, 64)),
    turned=st.booleans(),
    marked=st.integers(0, 3),
    fixed=st.integers(0, 3),
)
def test_undefined_lane_makes_a_known_reduction_undefined_whatever_the_others_hold(
    name: str, bits: int, turned: bool, marked: int, fixed: int
) -> None:
    rule = _single(name, is_turned=turned, is_known=True)
    # One lane alone settles an exact result: zero of a product, all bits of a union.
    lanes = np.full((*PROGRAMS, 4), 5, dtype_of(bits))
    lanes[..., fixed] = -1 if name == "arith.ori" else 0
    marks = np.zeros(lanes.shape, bool)
    marks[0, :, marked] = True
    given_ = Drawn(kind_of(f"i{bits}", (4,)), Dense(lanes, marks), lanes, marks)
    drawn = Combined(rule, bits, (4,), 0, [given_])
    (value,) = evaluated(drawn.lines("tt.reduce", ()), [given_], "%z").values
    assert_is(value, lanes[..., fixed], np.asarray(marks.any(axis=-1)))
