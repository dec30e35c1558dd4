"""Floats on values of any form against real numbers, lane by lane.

A float is decoded by the definition of its format, and rounded once from numbers that
are wide enough to hold the exact result, or to round it as if it were exact.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.floats import FLOAT_COMPARISONS
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.ir import FLOAT_BITS
from tests.executors.footprint.drawn_lanes import (
    PROGRAMS,
    Drawn,
    assert_is,
    evaluated,
    kind_of,
    values,
    written,
)

WIDE = ("f16", "bf16", "f32", "f64")
NARROW = {
    "f8E4M3FN": (3, 7, True),
    "f8E4M3FNUZ": (3, 8, False),
    "f8E5M2": (2, 15, True),
    "f8E5M2FNUZ": (2, 16, False),
}
"""Bits of the mantissa, bias of the exponent, and whether zero has a sign."""
KNOWN = (*WIDE, *NARROW)
SHAPES = ((), (4,), (2, 2))

ORDERED: dict[str, Callable[[Array, Array], Any]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "ne": operator.ne,
}


def _narrow_number(bits: int, element: str) -> float:
    """Return what 8 bits stand for."""
    mantissa_bits, bias, has_negative_zero = NARROW[element]
    body, sign = bits & 127, -1.0 if bits & 128 else 1.0
    exponent, rest = body >> mantissa_bits, body & ((1 << mantissa_bits) - 1)
    if not has_negative_zero and bits == 128:
        return math.nan
    if element == "f8E4M3FN" and body == 127:
        return math.nan
    if element == "f8E5M2" and exponent == 31:
        return math.nan if rest else sign * math.inf
    whole = rest + ((1 << mantissa_bits) if exponent else 0)
    return sign * math.ldexp(whole, max(exponent, 1) - bias - mantissa_bits)


_NUMBERS = {
    element: np.array([_narrow_number(bits, element) for bits in range(256)])
    for element in NARROW
}


def reals(bits: Array, element: str) -> Array:
    """Return the numbers, float64, that bit patterns stand for."""
    if element in NARROW:
        return np.asarray(_NUMBERS[element][bits.view(np.uint8)])
    if element == "bf16":
        bits, element = bits.astype(np.int32) << 16, "f32"
    kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[element]
    with np.errstate(all="ignore"):  # a NaN may signal
        return np.ascontiguousarray(bits).view(kind).astype(np.float64)


def nearest(exact: Array, element: str) -> Array:
    """Return the nearest numbers of a format, float64; of bf16 via float32."""
    with np.errstate(all="ignore"):
        if element != "bf16":
            kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[element]
            return exact.astype(kind).astype(np.float64)
        singles = exact.astype(np.float32)
        low = singles.view(np.uint32).astype(np.uint64)
        even = ((low + 0x7FFF + (low >> 16 & 1)) >> 16 << 16).astype(np.uint32)
        found = np.where(np.isnan(singles), singles, even.view(np.float32))
        return found.astype(np.float64)


def assert_reals(outcome: Any, element: str, exact: Array, marks: Array) -> None:
    """Assert that a result has these numbers where it is defined."""
    dtype = np.dtype(f"int{FLOAT_BITS[element]}")
    bits, seen = written(outcome.values[0], dtype, exact.shape[2:])
    np.testing.assert_array_equal(seen, marks)
    np.testing.assert_array_equal(reals(bits, element)[~marks], exact[~marks])


def _drawn(data: st.DataObject, element: str, *, marks: bool = True) -> Drawn:
    shape = data.draw(st.sampled_from(SHAPES))
    return data.draw(values(FLOAT_BITS[element], shape, element=element, marks=marks))


def _another(data: st.DataObject, element: str, like: Drawn) -> Drawn:
    bits, shape = FLOAT_BITS[element], like.lanes.shape[2:]
    return data.draw(values(bits, shape, element=element))


@settings(max_examples=60)
@given(data=st.data(), element=st.sampled_from(KNOWN))
def test_comparisons_are_ordered_or_not_as_they_say(
    data: st.DataObject, element: str
) -> None:
    x = _drawn(data, element)
    y = _another(data, element, x)
    names = sorted(FLOAT_COMPARISONS)
    lines = [f"%{name} = arith.cmpf {name}, %a0, %a1 : {x.kind}" for name in names]
    outcome = evaluated(lines, [x, y], ", ".join(f"%{name}" for name in names))
    left, right = reals(x.lanes, element), reals(y.lanes, element)
    unordered = np.isnan(left) | np.isnan(right)
    for name, value in zip(names, outcome.values, strict=True):
        if name in ("ord", "uno"):
            lanes = unordered == (name == "uno")
        else:
            holds = ORDERED[name[1:]](left, right)
            lanes = np.where(unordered, name[0] == "u", holds)
        assert_is(value, lanes, x.marks | y.marks)


def _largest(x: float, y: float) -> float:
    return math.nan if math.isnan(x) or math.isnan(y) else max(x, y)


def _smallest(x: float, y: float) -> float:
    return math.nan if math.isnan(x) or math.isnan(y) else min(x, y)


def _number_of(pick: Callable[[float, float], float]) -> Callable[..., float]:
    def picked(x: float, y: float) -> float:
        if math.isnan(x) or math.isnan(y):
            return y if math.isnan(x) else x
        return pick(x, y)

    return picked


ARITHMETIC: dict[str, Callable[[Array, Array], Any]] = {
    "arith.addf": operator.add,
    "arith.subf": operator.sub,
    "arith.mulf": operator.mul,
    "arith.divf": operator.truediv,
    "arith.maximumf": np.vectorize(_largest, [float]),
    "arith.minimumf": np.vectorize(_smallest, [float]),
    "arith.maxnumf": np.vectorize(_number_of(max), [float]),
    "arith.minnumf": np.vectorize(_number_of(min), [float]),
}


@settings(max_examples=80)
@given(
    data=st.data(),
    name=st.sampled_from(sorted(ARITHMETIC)),
    element=st.sampled_from(WIDE),
)
def test_operation_is_rounded_to_the_nearest(
    data: st.DataObject, name: str, element: str
) -> None:
    x = _drawn(data, element)
    y = _another(data, element, x)
    outcome = evaluated([f"%r = {name} %a0, %a1 : {x.kind}"], [x, y], "%r")
    with np.errstate(all="ignore"):
        exact = ARITHMETIC[name](reals(x.lanes, element), reals(y.lanes, element))
    assert_reals(outcome, element, nearest(exact, element), x.marks | y.marks)


@settings(max_examples=30)
@given(data=st.data(), element=st.sampled_from(KNOWN))
def test_negation_turns_the_highest_bit_round(
    data: st.DataObject, element: str
) -> None:
    x = _drawn(data, element)
    outcome = evaluated([f"%r = arith.negf %a0 : {x.kind}"], [x], "%r")
    top = 2 ** (FLOAT_BITS[element] - 1)
    unsigned = x.lanes.view(f"u{x.lanes.dtype.itemsize}")
    turned = np.where(unsigned >= top, unsigned - top, unsigned + top)
    lanes = turned.astype(unsigned.dtype).view(x.lanes.dtype)
    assert_is(outcome.values[0], lanes, x.marks)


@settings(max_examples=120)
@given(
    data=st.data(),
    source=st.sampled_from(KNOWN),
    target=st.sampled_from(KNOWN),
    rounding=st.sampled_from(("", "", ", rounding = rtne", ", rounding = rtz")),
)
def test_cast_between_floats_rounds_once_or_is_not_judged(
    data: st.DataObject, source: str, target: str, rounding: str
) -> None:
    x = _drawn(data, source, marks=target in WIDE)
    to = kind_of(target, x.lanes.shape[2:])
    line = f"%r = tt.fp_to_fp %a0{rounding} : {x.kind} -> {to}"
    exact = reals(x.lanes, source)
    if rounding.endswith("rtz"):
        with pytest.raises(NotJudgedError, match="toward zero"):
            evaluated([line], [x], "%r")
        return
    _assert_cast(line, x, exact, target, twice=target == "bf16" and source == "f64")


@settings(max_examples=80)
@given(
    data=st.data(),
    name=st.sampled_from(("arith.sitofp", "arith.uitofp")),
    bits=st.sampled_from((1, 8, 16, 32, 64)),
    target=st.sampled_from(KNOWN),
)
def test_integer_becomes_the_nearest_float_or_is_not_judged(
    data: st.DataObject, name: str, bits: int, target: str
) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    x = data.draw(values(bits, shape, marks=target in WIDE))
    line = f"%r = {name} %a0 : {x.kind} to {kind_of(target, shape)}"
    lanes = x.lanes if bits > 1 else -x.lanes.astype(np.int64)
    if name == "arith.uitofp":
        lanes = x.lanes if bits == 1 else x.lanes.view(f"u{bits // 8}")
    # 64 bits and more of mantissa: every integer is exact, and is rounded once.
    _assert_cast(line, x, lanes.astype(np.longdouble), target, twice=target == "bf16")


def test_integer_just_above_the_middle_of_two_floats_is_not_rounded_twice() -> None:
    # float32 and float64 both cut the last bit off, and leave a tie.
    x = Drawn("i64", np.int64(2**62 + 2**54 + 1), np.zeros(1), np.zeros(1))
    with pytest.raises(NotJudgedError, match=r"arith\.sitofp on bf16"):
        evaluated(["%r = arith.sitofp %a0 : i64 to bf16"], [x], "%r")


def _assert_cast(
    line: str, x: Drawn, exact: Array, target: str, *, twice: bool
) -> None:
    """Assert that a cast is right; it may stop where it cannot be exact.

    Args:
        line: The cast.
        x: Its operand.
        exact: The numbers.
        target: The format.
        twice: Whether numbers that float32 does not hold would be rounded twice.
    """
    with np.errstate(all="ignore"):
        singles = exact.astype(np.float32)
    if target in NARROW:
        may_stop = not np.isin(exact, _NUMBERS[target]).all()
    else:
        may_stop = twice and not np.array_equal(singles, exact)
    if may_stop:
        with pytest.raises(NotJudgedError, match=f"on {target} at"):
            evaluated([line], [x], "%r")
        return
    outcome = evaluated([line], [x], "%r")
    if target not in NARROW:
        exact = nearest(exact, target)
    assert_reals(outcome, target, exact.astype(np.float64), x.marks)


@settings(max_examples=80)
@given(
    data=st.data(),
    name=st.sampled_from(("arith.fptosi", "arith.fptoui")),
    source=st.sampled_from(KNOWN),
    bits=st.sampled_from((8, 16, 32, 64)),
)
def test_float_is_cut_toward_zero_or_is_not_judged(
    data: st.DataObject, name: str, source: str, bits: int
) -> None:
    _assert_cut(name, source, bits, _drawn(data, source, marks=False))


@given(
    name=st.sampled_from(("arith.fptosi", "arith.fptoui")),
    bits=st.sampled_from((8, 16, 32, 64)),
    less=st.integers(0, 1),
    sign=st.sampled_from((1.0, -1.0)),
    toward=st.sampled_from((0.0, math.inf, None)),
)
def test_float_at_the_border_of_an_integer_is_cut_or_is_not_judged(
    name: str, bits: int, less: int, sign: float, toward: float | None
) -> None:
    number = np.float32(sign * 2.0 ** (bits - less))
    if toward is not None:
        number = np.nextafter(number, np.float32(sign * toward))
    lanes = number.view(np.int32)
    x = Drawn("f32", lanes, np.broadcast_to(lanes, (3, 2)), np.zeros((3, 2), bool))
    _assert_cut(name, "f32", bits, x)


def _assert_cut(name: str, source: str, bits: int, x: Drawn) -> None:
    line = f"%r = {name} %a0 : {x.kind} to {kind_of(f'i{bits}', x.lanes.shape[2:])}"
    numbers = [float(number) for number in reals(x.lanes, source).reshape(-1)]
    low, high = (
        (-(2 ** (bits - 1)), 2 ** (bits - 1))
        if name == "arith.fptosi"
        else (0, 2**bits)
    )
    if not all(math.isfinite(n) and low <= math.trunc(n) < high for n in numbers):
        with pytest.raises(NotJudgedError, match=f"on {source} at"):
            evaluated([line], [x], "%r")
        return
    outcome = evaluated([line], [x], "%r")
    exact = np.array([math.trunc(n) % 2**64 for n in numbers], np.uint64)
    lanes = exact.view(np.int64).astype(f"int{bits}").reshape(x.lanes.shape)
    assert_is(outcome.values[0], lanes)


@settings(max_examples=80)
@given(data=st.data(), element=st.sampled_from(KNOWN))
def test_constant_is_the_float_that_is_printed(
    data: st.DataObject, element: str
) -> None:
    width = FLOAT_BITS[element]
    drawn = data.draw(values(width, (4,), element=element, form="dense")).lanes[0, 0]
    numbers = reals(drawn, element).tolist()
    unsigned = drawn.view(f"u{width // 8}").tolist()
    is_hex = data.draw(st.booleans())
    words = [
        f"{number:.17e}" if math.isfinite(number) and not is_hex else f"0x{bits:X}"
        for number, bits in zip(numbers, unsigned)
    ]
    lines = [
        f"%s = arith.constant {words[0]} : {element}",
        f"%t = arith.constant dense<{words[0]}> : tensor<4x{element}>",
        f"%u = arith.constant dense<[{', '.join(words)}]> : tensor<4x{element}>",
    ]
    scalar, same, each = evaluated(lines, [], "%s, %t, %u").values
    assert int(scalar) == int(drawn[0])
    assert_is(same, np.broadcast_to(drawn[0], (*PROGRAMS, 4)))
    assert_is(each, np.broadcast_to(drawn, (*PROGRAMS, 4)))


@settings(max_examples=20)
@given(number=st.floats(0.5, 1e30) | st.sampled_from((0.0, 1e-40, 65520.0, 1e300)))
def test_constant_that_no_format_of_ours_holds_is_not_judged(number: float) -> None:
    lines = [f"%s = arith.constant {number!r} : f8E4M3B11FNUZ"]
    if number == 0:
        assert int(evaluated(lines, [], "%s").values[0]) == 0
        return
    with pytest.raises(NotJudgedError, match=r"constant .* at drawn\.py:7"):
        evaluated(lines, [], "%s")
    lines = [f"%s = arith.constant {number!r} : f16"]
    if number < 65520:
        value = evaluated(lines, [], "%s").values[0]
        assert int(value) == int(np.float16(number).view(np.int16))
        return
    with pytest.raises(NotJudgedError, match=r"constant .* at drawn\.py:7"):
        evaluated(lines, [], "%s")


@given(
    data=st.data(),
    element=st.sampled_from(("f8E5M2", "f8E4M3FN", "tf32", "f8E4M3B11FNUZ")),
    name=st.sampled_from(sorted(ARITHMETIC)),
)
@settings(max_examples=20)
def test_arithmetic_that_is_the_machines_is_not_judged(
    data: st.DataObject, element: str, name: str
) -> None:
    x = data.draw(values(FLOAT_BITS[element], element=element))
    with pytest.raises(NotJudgedError, match=f"{name} on {element} at drawn.py:7"):
        evaluated([f"%r = {name} %a0, %a0 : {element}"], [x], "%r")
