"""Affine lanes against Python's integers, which have no width and cannot wrap."""

from itertools import product
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.arithmetic import CASTS, COMPARISONS
from kvzero.executors.footprint.lanes import compared
from kvzero.executors.footprint.values import (
    Affine,
    Box,
    Dense,
    Partial,
    fits_in,
    wrapped,
)
from tests.executors.footprint.drawn_lanes import (
    Drawn,
    assert_is,
    dtype_of,
    evaluated,
    kind_of,
    values,
    written,
)
from tests.executors.footprint.test_arithmetic import ORDER, SIGNED
from tests.executors.footprint.test_elementwise_drawn import (
    exact_results,
    lanes_from,
    numbers_of,
)

WIDTHS = (8, 16, 32, 64)
SHAPES = ((8,), (1,), (4, 2), (2, 1), (3, 5), (2, 2, 2))
any_width = st.sampled_from(WIDTHS)
any_shape = st.sampled_from(SHAPES)


def affine(data: st.DataObject, bits: int, shape: tuple[int, ...]) -> Drawn:
    """Return affine lanes that may wrap, and whose steps may differ by program.

    Numbers that all programs have as steps may be beyond the width, too, as a reshape
    leaves them.
    """
    drawn = data.draw(values(bits, shape, form="affine"))
    over = data.draw(st.sampled_from((0, 0, 1, -1))) * 2**bits
    drawn.value.steps = tuple(
        step + over if step.__class__ is int else step for step in drawn.value.steps
    )
    return drawn


def plain_lanes(base: int, steps: tuple[int, ...], bits: int) -> Drawn:
    """Return lanes of three by five that all programs share."""
    value = Affine(dtype_of(bits).type(base), steps, (3, 5))
    written_out = written(value, dtype_of(bits), (3, 5))
    return Drawn(kind_of(f"i{bits}", (3, 5)), value, *written_out)


def each_of(number: Any) -> set[int]:  # Any: an int or a scalar
    return {int(each) for each in np.asarray(number, object).reshape(-1)}


def exact_span(value: Affine) -> tuple[int, int]:
    """Return the lowest and highest lane, had each its own base and steps."""
    choices = [each_of(value.base)]
    for step, size in zip(value.steps, value.shape):
        choices.append({each * lane for each in each_of(step) for lane in range(size)})
    sums = [sum(chosen) for chosen in product(*choices)]
    return min(sums), max(sums)


@settings(max_examples=100)
@given(data=st.data(), bits=any_width, shape=any_shape)
def test_span_is_from_the_lowest_lane_to_the_highest(
    data: st.DataObject, bits: int, shape: tuple[int, ...]
) -> None:
    value = affine(data, bits, shape).value
    low, high = exact_span(value)
    assert (value.span(), value.span()) == ((low, high), (low, high))
    half = 2 ** (bits - 1)
    assert fits_in(value.base.dtype, (low, high)) == (-half <= low and high < half)
    are_ints = [step.__class__ is int for step in value.steps]
    assert value.has_plain_steps == all(are_ints)
    assert value.is_splat == all(
        is_int and step == 0 for is_int, step in zip(are_ints, value.steps)
    )
    assert value.fits() == (value.is_splat or (-half <= low and high < half))


@settings(max_examples=60)
@given(low=st.integers(-2, 2), high=st.integers(-2, 2), bits=any_width)
def test_numbers_fit_a_width_up_to_its_borders(low: int, high: int, bits: int) -> None:
    half = 2 ** (bits - 1)
    fits = low >= 0 and high < 0
    assert fits_in(dtype_of(bits), (low - half, high + half)) == fits
    for near in (low - half, high + half, low - 2 * half, high + 2 * half, low):
        held = wrapped(near, bits)
        assert -half <= held < half
        assert (held - near) % (2 * half) == 0


@settings(max_examples=120)
@given(data=st.data(), bits=any_width, shape=any_shape)
def test_arithmetic_of_affine_lanes_is_exact_and_stays_affine(
    data: st.DataObject, bits: int, shape: tuple[int, ...]
) -> None:
    x, y = (affine(data, bits, shape) for _ in range(2))
    factor = data.draw(values(bits))
    names = ("arith.addi", "arith.subi", "arith.muli")
    lines = [
        f"%f = tt.splat %a2 : i{bits} -> {x.kind}",
        *(f"%r{i} = {name} %a0, %a1 : {x.kind}" for i, name in enumerate(names)),
        f"%s = arith.muli %a0, %f : {x.kind}",
        f"%t = arith.muli %f, %a0 : {x.kind}",
    ]
    given_ = [x, y, factor]
    found = evaluated(lines, given_, "%r0, %r1, %r2, %s, %t").values
    for name, value in zip(names, found):
        exact = exact_results(SIGNED[name], x.lanes, y.lanes, signed=True)
        assert_is(value, lanes_from(exact, x.lanes, bits))
    assert [value.__class__ for value in found[:2]] == [Affine, Affine]
    for value in found[3:]:
        by = np.broadcast_to(
            factor.lanes.reshape(*factor.lanes.shape, *(1,) * len(shape)), x.lanes.shape
        )
        marks = np.broadcast_to(
            factor.marks.reshape(*factor.lanes.shape, *(1,) * len(shape)), x.lanes.shape
        )
        exact = exact_results(SIGNED["arith.muli"], x.lanes, by, signed=True)
        absorbed = (x.lanes == 0) & marks
        assert_is(value, lanes_from(exact, x.lanes, bits), marks & ~absorbed)
        is_partial = factor.value.__class__ is Partial
        assert value.__class__ is (Dense if is_partial else Affine)


@settings(max_examples=60)
@given(data=st.data(), bits=any_width, shape=any_shape, by=st.integers(0, 63))
def test_shift_by_one_number_is_exact_and_stays_affine(
    data: st.DataObject, bits: int, shape: tuple[int, ...], by: int
) -> None:
    by %= bits
    x = affine(data, bits, shape)
    lines = [
        f"%b = arith.constant dense<{by}> : {x.kind}",
        f"%r = arith.shli %a0, %b : {x.kind}",
    ]
    (value,) = evaluated(lines, [x], "%r").values
    exact = [number << by for number in numbers_of(x.lanes, signed=True)]
    assert_is(value, lanes_from(exact, x.lanes, bits))
    assert value.__class__ is Affine


@settings(max_examples=120)
@given(data=st.data(), bits=any_width, shape=any_shape)
def test_casts_of_affine_lanes_stay_affine_where_no_lane_has_wrapped(
    data: st.DataObject, bits: int, shape: tuple[int, ...]
) -> None:
    x = affine(data, bits, shape)
    value: Affine = x.value
    low, high = exact_span(value)
    half = 2 ** (bits - 1)
    fits = value.is_splat or (-half <= low and high < half)
    for name in sorted(CASTS):
        for to in WIDTHS:
            if (to >= bits) if name == "arith.trunci" else (to <= bits):
                continue
            line = f"%r = {name} %a0 : {x.kind} to {kind_of(f'i{to}', shape)}"
            (found,) = evaluated([line], [x], "%r").values
            exact = numbers_of(x.lanes, signed=name != "arith.extui")
            assert_is(found, lanes_from(exact, x.lanes, to))
            is_clear = low >= 0 or value.is_splat or name != "arith.extui"
            is_affine = name == "arith.trunci" or (fits and is_clear)
            assert (found.__class__ is Affine) == is_affine


@settings(max_examples=60)
@given(data=st.data(), bits=any_width, shape=any_shape)
def test_choice_by_program_stays_affine(
    data: st.DataObject, bits: int, shape: tuple[int, ...]
) -> None:
    condition = data.draw(values(1, marks=False))
    x, y = (affine(data, bits, shape) for _ in range(2))
    if data.draw(st.booleans()):  # so that some steps are the same
        y.value.steps = (x.value.steps[0], *y.value.steps[1:])
        y = Drawn(y.kind, y.value, *written(y.value, y.lanes.dtype, shape))
    line = f"%r = arith.select %a0, %a1, %a2 : i1, {x.kind}"
    (value,) = evaluated([line], [condition, x, y], "%r").values
    holds = condition.lanes.reshape(*condition.lanes.shape, *(1,) * len(shape))
    assert_is(value, np.where(holds, x.lanes, y.lanes))
    assert value.__class__ is Affine
    for a, b, step in zip(x.value.steps, y.value.steps, value.steps):
        are_ints = a.__class__ is int and b.__class__ is int
        is_one = are_ints and (a == b or not isinstance(condition.value, np.ndarray))
        assert not is_one or step.__class__ is int


@st.composite
def near_borders(draw: st.DrawFn) -> tuple[Drawn, Drawn]:
    """Lanes whose numbers, or differences, come near the borders of a width.

    They shrink to zeros.
    """
    bits = draw(any_width)
    tops = [2 ** (bits - 1), 2 ** (bits - 2), 0]
    both = []
    for _ in range(2):
        base = draw(st.sampled_from((0, *tops))) * draw(st.sampled_from((1, -1)))
        base = wrapped(base + draw(st.integers(-14, 14)), bits)
        steps = tuple(draw(st.sampled_from((0, 0, 1, -1, 3, -4))) for _ in range(2))
        both.append(plain_lanes(base, steps, bits))
    return both[0], both[1]


def is_exact(predicate: str, x: Affine, y: Affine) -> bool:
    """Return whether lanes compare as signed numbers whose differences fit 64 bits."""
    spans = [exact_span(each) for each in (x, y)]
    bits = x.base.dtype.itemsize * 8
    lowest, highest = min(low for low, _ in spans), max(high for _, high in spans)
    half = 2 ** (bits - 1)
    for each, (low, high) in zip((x, y), spans):
        if not each.is_splat and not (-half <= low and high < half):
            return False
    if predicate.startswith("u") and lowest < 0:
        return False
    return bits < 64 or (lowest > -(2**62) and highest < 2**62)


@settings(max_examples=150)
@given(near_borders())
@example((plain_lanes(2**62 - 5, (0, 1), 64), plain_lanes(2**62 - 1, (0, 0), 64)))
@example((plain_lanes(2**62 - 6, (0, 1), 64), plain_lanes(2**62 - 1, (0, 0), 64)))
@example((plain_lanes(-(2**62), (0, 1), 64), plain_lanes(0, (0, 0), 64)))
@example((plain_lanes(-(2**62) + 1, (0, 1), 64), plain_lanes(0, (0, 0), 64)))
@example((plain_lanes(0, (0, 1), 32), plain_lanes(-1, (0, 0), 32)))
def test_comparison_is_solved_where_lanes_differ_along_one_dimension_only(
    both: tuple[Drawn, Drawn],
) -> None:
    x, y = (each.value for each in both)
    steps = [a - b for a, b in zip(x.steps, y.steps)]
    along = sum(step != 0 for step in steps)
    for predicate in sorted(COMPARISONS):
        with np.errstate(all="ignore"):
            mask = compared(predicate, x, y)
        lanes = (each.lanes for each in both)
        is_signed = not predicate.startswith("u")
        exact = exact_results(ORDER[predicate[-2:]], *lanes, signed=is_signed)
        if mask is not None:
            whole = np.array(exact, bool).reshape(both[0].lanes.shape)
            assert_is(mask, whole)
        are_comparable = is_exact(predicate, x, y) or (x.is_splat and y.is_splat)
        is_interval = along <= (0 if predicate == "ne" else 1)
        if are_comparable and is_interval:
            assert mask.__class__ is (Box if along else Affine)
        else:
            assert mask is None
