"""Integer operations on values of any form against Python's integers, lane by lane."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.arithmetic import BINARY, CASTS, COMPARISONS
from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.values import Affine, Box, wrapped
from kvzero.observation import Misstep
from tests.executors.footprint.drawn_lanes import (
    PLACE,
    SHAPES,
    Drawn,
    assert_is,
    dtype_of,
    evaluated,
    kind_of,
    numbers,
    values,
    written,
)
from tests.executors.footprint.test_arithmetic import (
    DIVISIONS,
    ORDER,
    SHIFTS,
    SIGNED,
    UNSIGNED,
)

WIDTHS = (8, 16, 32, 64)
ABSORBING = {"arith.muli": 0, "arith.andi": 0, "arith.ori": -1}
NSW = ("arith.addi", "arith.subi", "arith.muli")
any_shape = st.sampled_from(((), *SHAPES))


def numbers_of(array: Array, *, signed: bool) -> list[int]:
    """Return lanes as Python's integers; a set i1 is -1, or 1."""
    if array.dtype == bool:
        return [-int(bit) if signed else int(bit) for bit in array.reshape(-1)]
    flat = array if signed else array.view(f"u{array.dtype.itemsize}")
    return [int(number) for number in flat.reshape(-1)]


def lanes_from(exact: list[int], like: Array, bits: int) -> Array:
    """Return integers without a width as lanes of one."""
    held = [n & 1 if bits == 1 else wrapped(n, bits) for n in exact]
    return np.array(held).astype(dtype_of(bits)).reshape(like.shape)


def exact_results(
    fn: Callable[[int, int], Any],  # Any: an int or a bool
    x: Array,
    y: Array,
    *,
    signed: bool,
) -> list[Any]:
    """Return a function of each pair of lanes; 0 where it has none."""
    found = []
    for a, b in zip(numbers_of(x, signed=signed), numbers_of(y, signed=signed)):
        try:
            found.append(fn(a, b))
        except (ZeroDivisionError, ValueError, OverflowError):
            found.append(0)
    return found


def model(name: str, x: Array, y: Array, bits: int) -> Array:
    """Return the operation lane by lane."""
    if name in SHIFTS:  # what is over-wide is undefined, and too much for an int
        y = np.where(over_wide(y, bits), y.dtype.type(0), y)
    if name == "tt.mulhiui":
        exact = exact_results(lambda a, b: a * b >> bits, x, y, signed=False)
    elif name in SIGNED:
        exact = exact_results(SIGNED[name], x, y, signed=True)
    else:
        exact = exact_results(UNSIGNED[name], x, y, signed=False)
    return lanes_from(exact, x, bits)


def over_wide(y: Array, bits: int) -> Array:
    return np.asarray((y < 0) | (y >= bits))


def undefined_results(name: str, x: Array, y: Array, bits: int) -> Array:
    """Return which lanes have no result."""
    if name in SHIFTS:
        return over_wide(y, bits)
    if name not in DIVISIONS:
        return np.zeros(x.shape, bool)
    lowest = np.zeros(x.shape, bool)
    if name in SIGNED:
        lowest = (y == -1) & (x == -(2 ** (bits - 1)))
    return np.asarray((y == 0) | lowest)


def combined_marks(name: str, x: Drawn, y: Drawn) -> Array:
    """Return which results are undefined: those that an undefined lane can change."""
    marks = x.marks | y.marks
    if name in ABSORBING:
        fixed = x.lanes.dtype.type(ABSORBING[name])
        for one in (x, y):
            marks = marks & ~(~one.marks & (one.lanes == fixed))
    return marks


def assert_reported(missteps: tuple[Misstep, ...], bad: Array, divisors: Array) -> None:
    """Assert that exactly the programs with a bad lane are told, by its operand."""
    programs = bad.reshape(*bad.shape[:2], -1).any(axis=-1)
    if not programs.any():
        assert missteps == ()
        return
    (misstep,) = missteps
    row, col = divmod(int(np.argmax(programs)), programs.shape[1])
    first = divisors[row, col][bad[row, col]].reshape(-1)[0]
    assert misstep.kind == "undefined-arithmetic"
    assert misstep.count == int(np.count_nonzero(programs))
    assert misstep.program == (col, row, 0)
    assert f" by {int(first)}, but must" in f" {misstep.text}"


def names_of(bits: int) -> list[str]:
    """Return the operations that integers of so many bits have."""
    partly = (*DIVISIONS, *SHIFTS, "tt.mulhiui")
    return sorted(name for name in BINARY if bits > 1 or name not in partly)


def placed(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return lines with a place of their own each, and those places."""
    numbers = range(100, 100 + len(lines))
    return (
        [f'{line} loc("/home/me/d.py":{at}:0)' for line, at in zip(lines, numbers)],
        [f"d.py:{at}" for at in numbers],
    )


@settings(max_examples=120)
@given(data=st.data(), bits=st.sampled_from((1, *WIDTHS, *WIDTHS)), shape=any_shape)
def test_operations_equal_themselves_on_lanes_written_out(
    data: st.DataObject, bits: int, shape: tuple[int, ...]
) -> None:
    x, y = (data.draw(values(bits, shape)) for _ in range(2))
    names = names_of(bits)
    lines, places = placed(
        [f"%r{i} = {name} %a0, %a1 : {x.kind}" for i, name in enumerate(names)]
    )
    returned = ", ".join(f"%r{i}" for i in range(len(names)))
    outcome = evaluated(lines, [x, y], returned)
    for name, place, value in zip(names, places, outcome.values, strict=True):
        bad = undefined_results(name, x.lanes, y.lanes, bits)
        own = tuple(m for m in outcome.missteps if m.place == place)
        assert_reported(own, bad & ~x.marks & ~y.marks, y.lanes)
        marks = combined_marks(name, x, y)
        seen, seen_marks = written(value, x.lanes.dtype, shape)
        np.testing.assert_array_equal(seen_marks, marks)
        is_known = ~marks & ~bad
        exact = model(name, x.lanes, y.lanes, bits)
        np.testing.assert_array_equal(seen[is_known], exact[is_known])


@settings(max_examples=60)
@given(data=st.data(), name=st.sampled_from(NSW), bits=st.sampled_from(WIDTHS))
def test_overflow_is_reported_where_none_is_promised(
    data: st.DataObject, name: str, bits: int
) -> None:
    shape = data.draw(any_shape)
    x, y = (data.draw(values(bits, shape)) for _ in range(2))
    line = f"%r = {name} %a0, %a1 overflow<nsw> : {x.kind}"
    outcome = evaluated([line], [x, y], "%r")
    assert {misstep.place for misstep in outcome.missteps} <= {PLACE}
    exact = exact_results(SIGNED[name], x.lanes, y.lanes, signed=True)
    half = 2 ** (bits - 1)
    over = [bits < 64 and not -half <= number < half for number in exact]
    bad = np.array(over).reshape(x.lanes.shape) & ~x.marks & ~y.marks
    assert_reported(outcome.missteps, bad, y.lanes)
    lanes = model(name, x.lanes, y.lanes, bits)
    seen, _ = written(outcome.values[0], lanes.dtype, shape)
    is_known = ~combined_marks("", x, y)
    np.testing.assert_array_equal(seen[is_known], lanes[is_known])


@settings(max_examples=80)
@given(data=st.data(), bits=st.sampled_from((1, *WIDTHS)), shape=any_shape)
def test_comparisons_equal_themselves_on_lanes_written_out(
    data: st.DataObject, bits: int, shape: tuple[int, ...]
) -> None:
    x, y = (data.draw(values(bits, shape)) for _ in range(2))
    names = sorted(COMPARISONS)
    lines = [f"%{name} = arith.cmpi {name}, %a0, %a1 : {x.kind}" for name in names]
    outcome = evaluated(lines, [x, y], ", ".join(f"%{name}" for name in names))
    for name, value in zip(names, outcome.values, strict=True):
        is_signed = not name.startswith("u")
        exact = exact_results(ORDER[name[-2:]], x.lanes, y.lanes, signed=is_signed)
        lanes = np.array(exact, bool).reshape(x.lanes.shape)
        assert_is(value, lanes, x.marks | y.marks)


@st.composite
def lanes_and_bounds(draw: st.DrawFn) -> list[Drawn]:
    """Lanes along one dimension, and a number near one of them or far from all.

    Those are the hard cases: an interval is short of a lane, or a distance wraps.
    """
    bits, shape, dim = (
        draw(st.sampled_from((32, 64, 64))),
        (3, 7),
        draw(st.integers(0, 1)),
    )
    step = draw(st.integers(-5, 5) | st.integers(-(2**40), 2**40))
    steps = tuple(wrapped(step, bits) if d == dim else 0 for d in range(2))
    left = Affine(draw(numbers(bits)), steps, shape)
    beside = draw(st.integers(-1, shape[dim])) * step + draw(st.integers(-2, 2))
    with np.errstate(all="ignore"):
        near = left.base + dtype_of(bits).type(wrapped(beside, bits))
    base = draw(st.sampled_from((near, ~left.base)))
    both = []
    for value in (left, Affine(base, (0, 0), shape)):
        lanes, marks = written(value, dtype_of(bits), shape)
        both.append(Drawn(kind_of(f"i{bits}", shape), value, lanes, marks))
    return both[::-1] if draw(st.booleans()) else both


@settings(max_examples=200)
@given(lanes_and_bounds(), st.sampled_from(sorted(COMPARISONS)))
def test_mask_of_lanes_along_one_dimension_is_an_interval_of_them(
    both: list[Drawn], predicate: str
) -> None:
    line = f"%r = arith.cmpi {predicate}, %a0, %a1 : {both[0].kind}"
    outcome = evaluated([line], both, "%r")
    x, y = (each.lanes for each in both)
    is_signed = not predicate.startswith("u")
    exact = exact_results(ORDER[predicate[-2:]], x, y, signed=is_signed)
    assert_is(outcome.values[0], np.array(exact, bool).reshape(x.shape))


@settings(max_examples=150)
@given(data=st.data(), name=st.sampled_from(sorted(CASTS)))
def test_cast_equals_itself_on_lanes_written_out(
    data: st.DataObject, name: str
) -> None:
    widths = (1, *WIDTHS)
    low, high = data.draw(
        st.sampled_from([(a, b) for a in widths for b in widths if a < b])
    )
    if name == "arith.index_cast":
        bits, to = data.draw(st.sampled_from(((32, 64), (64, 32))))
    else:
        bits, to = (high, low) if name == "arith.trunci" else (low, high)
    shape = data.draw(any_shape)
    x = data.draw(values(bits, shape))
    line = f"%r = {name} %a0 : {x.kind} to {kind_of(f'i{to}', shape)}"
    outcome = evaluated([line], [x], "%r")
    exact = numbers_of(x.lanes, signed=name != "arith.extui")
    assert_is(outcome.values[0], lanes_from(exact, x.lanes, to), x.marks)


@settings(max_examples=80)
@given(data=st.data(), bits=st.sampled_from((1, *WIDTHS)))
def test_selection_equals_itself_on_lanes_written_out(
    data: st.DataObject, bits: int
) -> None:
    shape = data.draw(any_shape)
    condition = data.draw(values(1, data.draw(st.sampled_from((shape, ())))))
    x, y = (data.draw(values(bits, shape)) for _ in range(2))
    line = f"%r = arith.select %a0, %a1, %a2 : {condition.kind}, {x.kind}"
    outcome = evaluated([line], [condition, x, y], "%r")
    lanes = condition.lanes.reshape(
        *condition.lanes.shape, *(1,) * (x.lanes.ndim - condition.lanes.ndim)
    )
    own = condition.marks.reshape(lanes.shape)
    marks = np.where(lanes, x.marks, y.marks) | own
    assert_is(outcome.values[0], np.where(lanes, x.lanes, y.lanes), marks)


@settings(max_examples=15)
@given(data=st.data(), bits=st.sampled_from(WIDTHS))
def test_absolute_value_equals_itself_on_lanes_written_out(
    data: st.DataObject, bits: int
) -> None:
    x = data.draw(values(bits, data.draw(any_shape)))
    outcome = evaluated([f"%r = math.absi %a0 : {x.kind}"], [x], "%r")
    exact = [abs(number) for number in numbers_of(x.lanes, signed=True)]
    assert_is(outcome.values[0], lanes_from(exact, x.lanes, bits), x.marks)


@settings(max_examples=40)
@given(data=st.data(), name=st.sampled_from(("arith.addi", "arith.subi", "arith.shli")))
def test_results_that_are_affine_stay_so(data: st.DataObject, name: str) -> None:
    # Written out they are as right, but no launch of millions of lanes is fast.
    x = Affine(data.draw(numbers(16)).astype(np.int32), (3, -1), (2, 4))
    y = Affine(np.int32(data.draw(st.integers(0, 31))), (0, 0), (2, 4))
    kind = kind_of("i32", (2, 4))
    none = np.zeros((1,), bool)
    operands = [Drawn(kind, value, none, none) for value in (x, y)]
    lines = [
        f"%r = {name} %a0, %a1 : {kind}",
        f"%s = arith.muli %r, %a1 : {kind}",
        "%t = arith.trunci %s : tensor<2x4xi32> to tensor<2x4xi16>",
        "%u = arith.extsi %a0 : tensor<2x4xi32> to tensor<2x4xi64>",
        "%v = arith.index_cast %a0 : tensor<2x4xi32> to tensor<2x4xi64>",
    ]
    outcome = evaluated(lines, operands, "%r, %s, %t, %u, %v")
    assert {value.__class__ for value in outcome.values} == {Affine}


@settings(max_examples=40)
@given(
    data=st.data(),
    predicate=st.sampled_from(("slt", "sle", "sgt", "sge", "eq")),
    element=st.sampled_from(("i32", "i64")),
)
def test_masks_of_small_lanes_are_boxes(
    data: st.DataObject, predicate: str, element: str
) -> None:
    def lanes(step: int) -> Drawn:
        base = data.draw(numbers(16)).astype(element.replace("i", "int"))
        none = np.zeros((1,), bool)
        value = Affine(base, (step, 0), (8, 2))
        return Drawn(kind_of(element, (8, 2)), value, none, none)

    x, y, z = lanes(data.draw(st.integers(1, 99))), lanes(0), lanes(0)
    lines = [
        f"%r = arith.cmpi {predicate}, %a0, %a1 : {x.kind}",
        f"%s = arith.cmpi {predicate}, %a0, %a2 : {x.kind}",
        f"%t = arith.andi %r, %s : {kind_of('i1', (8, 2))}",
    ]
    outcome = evaluated(lines, [x, y, z], "%r, %s, %t")
    assert {value.__class__ for value in outcome.values} == {Box}


@st.composite
def boxes(draw: st.DrawFn, shape: tuple[int, ...], *, has_own: bool) -> Drawn:
    """Boxes around the middle; shrink to the half before it.

    Args:
        draw: Hypothesis's.
        shape: Lanes.
        has_own: Whether programs have bounds of their own; else they are numbers.
    """
    ends: list[list[Any]] = [[], []]
    for size in shape:
        half = size // 2
        for bounds, least in zip(ends, (0, size - half)):
            if has_own:
                more = draw(numbers(8)) % np.int8(half + 1)
                bounds.append(more.astype(np.int64) + least)
            else:
                bounds.append(draw(st.integers(least, least + half)))
    value = Box(tuple(ends[0]), tuple(ends[1]), shape)
    return Drawn(kind_of("i1", shape), value, *written(value, np.dtype(bool), shape))


@settings(max_examples=60)
@given(data=st.data(), shape=st.sampled_from(((8,), (6, 3))))
def test_boxes_meet_in_a_box(data: st.DataObject, shape: tuple[int, ...]) -> None:
    owners = st.sampled_from((False, False, True))
    x, y = (data.draw(boxes(shape, has_own=data.draw(owners))) for _ in range(2))
    (met,) = evaluated([f"%r = arith.andi %a0, %a1 : {x.kind}"], [x, y], "%r").values
    assert met.__class__ is Box
    assert_is(met, x.lanes & y.lanes)


@settings(max_examples=30)
@given(
    low=st.integers(0, 3),
    steps=st.tuples(st.integers(-9, 9), st.integers(-9, 9)),
    more=st.sampled_from((0, -1)),
)
def test_lanes_from_zero_on_stay_affine_where_they_are_widened_without_a_sign(
    low: int, steps: tuple[int, int], more: int
) -> None:
    shape = (4, 2)
    base = low * 2 + more - sum(min(s, 0) * (n - 1) for s, n in zip(steps, shape))
    value = Affine(np.int32(base), steps, shape)
    lanes, marks = written(value, np.dtype(np.int32), shape)
    narrow, wide = kind_of("i32", shape), kind_of("i64", shape)
    drawn = Drawn(narrow, value, lanes, marks)
    line = f"%r = arith.extui %a0 : {narrow} to {wide}"
    (found,) = evaluated([line], [drawn], "%r").values
    is_affine = value.is_splat or int(lanes.min()) >= 0
    assert (found.__class__ is Affine) == is_affine
    exact = numbers_of(np.ascontiguousarray(lanes), signed=False)
    assert_is(found, lanes_from(exact, lanes, 64))
