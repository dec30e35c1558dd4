"""Integer operations against Python's integers, which have no width."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.executors.footprint.arithmetic import (
    BINARY,
    CASTS,
    COMPARISONS,
    binary_of,
    comparison_of,
)
from kvzero.executors.footprint.values import wrapped

WIDTHS = (1, 8, 16, 32, 64)


def typed(value: int, bits: int) -> Any:  # Any: a number of that width
    if bits == 1:
        return np.bool_(value & 1)
    return np.dtype(f"int{bits}").type(wrapped(value, bits))


def as_signed(value: Any, bits: int) -> int:
    return wrapped(int(value), bits) if bits > 1 else -int(value)


def as_unsigned(value: Any, bits: int) -> int:
    return int(value) % (1 << bits)


def truncating(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


SIGNED: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda x, y: x + y,
    "arith.subi": lambda x, y: x - y,
    "arith.muli": lambda x, y: x * y,
    "arith.andi": lambda x, y: x & y,
    "arith.ori": lambda x, y: x | y,
    "arith.xori": lambda x, y: x ^ y,
    "arith.divsi": truncating,
    "arith.remsi": lambda x, y: x - y * truncating(x, y),
    "arith.floordivsi": lambda x, y: x // y,
    "arith.ceildivsi": lambda x, y: -(-x // y),
    "arith.shrsi": lambda x, y: x >> y,
    "arith.maxsi": max,
    "arith.minsi": min,
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "arith.divui": lambda x, y: x // y,
    "arith.remui": lambda x, y: x % y,
    "arith.shli": lambda x, y: x << y,
    "arith.shrui": lambda x, y: x >> y,
    "arith.maxui": max,
    "arith.minui": min,
}
DIVISIONS = [name for name in BINARY if "div" in name or "rem" in name]
SHIFTS = [name for name in BINARY if "sh" in name]
ORDER: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}

operands = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)


def test_every_binary_operation_has_a_reference() -> None:
    # sanity check
    assert {*SIGNED, *UNSIGNED, "tt.mulhiui"} == set(BINARY)


@pytest.mark.parametrize("name", sorted({*SIGNED, *UNSIGNED}))
@given(x=operands, y=operands, bits=st.sampled_from(WIDTHS))
@example(x=-7, y=2, bits=32)
@example(x=7, y=-2, bits=8)
@example(x=-(2**63), y=3, bits=64)
@example(x=1, y=0, bits=1)
def test_operation_wraps_at_its_width(name: str, x: int, y: int, bits: int) -> None:
    if bits == 1 and name in (*DIVISIONS, *SHIFTS):
        bits = 8
    left, right = typed(x, bits), typed(y, bits)
    if name in SHIFTS:
        right = typed(y % bits, bits)
    rule = binary_of(name, bits)
    with np.errstate(all="ignore"):
        if rule.trap is not None and rule.trap(left, right):
            return
        result = rule.fn(left, right)
    assert result.dtype == left.dtype
    if name in SIGNED:
        exact = SIGNED[name](as_signed(left, bits), as_signed(right, bits))
    else:
        exact = UNSIGNED[name](as_unsigned(left, bits), as_unsigned(right, bits))
    assert as_unsigned(result, bits) == exact % 2**bits


@given(x=operands, y=operands, bits=st.sampled_from((8, 16, 32, 64)))
def test_upper_half_of_a_product_is_exact(x: int, y: int, bits: int) -> None:
    left, right = typed(x, bits), typed(y, bits)
    with np.errstate(all="ignore"):
        result = BINARY["tt.mulhiui"].fn(left, right)
    exact = as_unsigned(left, bits) * as_unsigned(right, bits) >> bits
    assert as_unsigned(result, bits) == exact


@pytest.mark.parametrize("name", sorted(DIVISIONS))
@given(x=operands, bits=st.sampled_from((8, 16, 32, 64)))
def test_division_by_zero_is_trapped(name: str, x: int, bits: int) -> None:
    rule = BINARY[name]
    assert rule.trap is not None
    assert rule.suspects is not None
    assert rule.trap(typed(x, bits), typed(0, bits))
    assert rule.suspects(typed(0, bits))


@pytest.mark.parametrize("name", ["arith.divsi", "arith.remsi"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_lowest_integer_by_minus_one_is_trapped(name: str, bits: int) -> None:
    trap = BINARY[name].trap
    assert trap is not None
    assert trap(typed(-(2 ** (bits - 1)), bits), typed(-1, bits))
    assert not trap(typed(-5, bits), typed(-1, bits))


@pytest.mark.parametrize("name", sorted(SHIFTS))
@given(amount=operands, bits=st.sampled_from((8, 16, 32, 64)))
def test_shift_by_its_width_or_more_is_trapped(
    name: str, amount: int, bits: int
) -> None:
    trap = BINARY[name].trap
    assert trap is not None
    right = typed(amount, bits)
    assert bool(trap(typed(1, bits), right)) == (as_unsigned(right, bits) >= bits)


@pytest.mark.parametrize("name", sorted(SHIFTS))
@given(
    less=st.integers(-1, 1),
    bits=st.sampled_from((8, 16, 32, 64)),
    amounts=st.lists(st.integers(0, 7), max_size=3),
)
def test_shifts_of_which_one_is_as_wide_as_the_type_are_looked_at(
    name: str, less: int, bits: int, amounts: list[int]
) -> None:
    rule = BINARY[name]
    assert rule.trap is not None
    assert rule.suspects is not None
    right = np.array([*amounts, bits - less], f"int{bits}")
    is_wide = [amount >= bits for amount in right.tolist()]
    assert rule.suspects(right).tolist() == is_wide
    assert rule.trap(np.ones_like(right), right).tolist() == is_wide
    assert [bool(rule.suspects(each)) for each in right] == is_wide


@pytest.mark.parametrize("predicate", sorted(COMPARISONS))
@given(x=operands, y=operands, bits=st.sampled_from(WIDTHS))
def test_comparison_orders_by_its_signedness(
    predicate: str, x: int, y: int, bits: int
) -> None:
    left, right = typed(x, bits), typed(y, bits)
    convert = as_unsigned if predicate.startswith("u") else as_signed
    exact = ORDER[predicate[-2:]](convert(left, bits), convert(right, bits))
    assert bool(comparison_of(predicate, bits)(left, right)) == exact


@given(x=operands, bits=st.sampled_from(WIDTHS), wide=st.sampled_from((8, 16, 32, 64)))
@example(x=1, bits=1, wide=32)
def test_extension_keeps_the_value_of_its_signedness(
    x: int, bits: int, wide: int
) -> None:
    value, dtype = typed(x, bits), np.dtype(f"int{wide}")
    if wide <= bits:
        result = CASTS["arith.trunci"](value, np.dtype(f"int{wide}"))
        assert as_unsigned(result, wide) == as_unsigned(value, bits) % 2**wide
        return
    assert as_signed(CASTS["arith.extsi"](value, dtype), wide) == as_signed(value, bits)
    extended = CASTS["arith.extui"](value, dtype)
    assert as_unsigned(extended, wide) == as_unsigned(value, bits)
