"""Integer arithmetic as the IR defines it, on NumPy numbers and arrays alike.

Integers wrap at their width, division truncates toward zero, and what has no defined
result is reported by a *trap*: a function of the operands that says where it happens.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Ints = Any  # a NumPy number or array of bool or a signed integer dtype
Fn = Callable[..., Ints]


def unsigned(x: Ints) -> Ints:
    """Return the same bits as an unsigned integer."""
    return x if x.dtype == bool else x.view(f"u{x.dtype.itemsize}")


def _bits(x: Ints) -> int:
    return 1 if x.dtype == bool else int(x.dtype.itemsize) * 8


def _divsi(x: Ints, y: Ints) -> Ints:
    quotient = np.floor_divide(x, y)
    if not np.any(x < 0) and not np.any(y < 0):
        return quotient
    inexact = (x - quotient * y != 0) & ((x ^ y) < 0)
    return quotient + inexact.astype(quotient.dtype)


def _remsi(x: Ints, y: Ints) -> Ints:
    return x - _divsi(x, y) * y


def _floordivsi(x: Ints, y: Ints) -> Ints:
    return np.floor_divide(x, y)


def _ceildivsi(x: Ints, y: Ints) -> Ints:
    quotient = np.floor_divide(x, y)
    return quotient + (x - quotient * y != 0).astype(quotient.dtype)


def _on_unsigned(fn: Fn) -> Fn:
    def result(x: Ints, y: Ints) -> Ints:
        if x.dtype == bool:
            return fn(x, y)
        return fn(unsigned(x), unsigned(y)).view(x.dtype)

    return result


def _maxsi(x: Ints, y: Ints) -> Ints:
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.maximum(x, y)
    return x if x >= y else y


def _minsi(x: Ints, y: Ints) -> Ints:
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return np.minimum(x, y)
    return x if x <= y else y


def _mulhi(x: Ints, y: Ints) -> Ints:
    """Return the upper half of an unsigned product."""
    bits = _bits(x)
    if bits < 64:
        wide = unsigned(x).astype(np.uint64) * unsigned(y).astype(np.uint64)
        return (wide >> np.uint64(bits)).astype(x.dtype)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    a, b = unsigned(x), unsigned(y)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & low)
    return (a_high * b_high + (middle >> half) + (other >> half)).view(x.dtype)


def _division_by_zero(x: Ints, y: Ints) -> Ints:
    del x
    return y == 0


def _bad_signed_division(x: Ints, y: Ints) -> Ints:
    lowest = np.iinfo(x.dtype).min if x.dtype != bool else 1
    return (y == 0) | ((y == -1) & (x == lowest))


def _wide_shift(x: Ints, y: Ints) -> Ints:
    return unsigned(y) >= _bits(x)


def _is_wide(y: Ints) -> Ints:
    if not isinstance(y, np.ndarray):
        return not 0 <= int(y) < _bits(y)
    return unsigned(y) >= _bits(y)


def _is_zero(y: Ints) -> Ints:
    return y == 0


def _is_zero_or_minus_one(y: Ints) -> Ints:
    return (y == 0) | (y == -1)


def overflow_trap(name: str) -> Fn | None:
    """Return where an operation flagged ``nsw`` leaves its width, up to 32 bits."""
    exact = {"arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply}
    fn = exact.get(name)
    if fn is None:
        return None

    def trap(x: Ints, y: Ints) -> Ints:
        if _bits(x) > 32 or x.dtype == bool:
            return np.bool_(0)
        info = np.iinfo(x.dtype)
        wide = fn(x.astype(np.int64), y.astype(np.int64))
        return (wide < info.min) | (wide > info.max)

    return trap


class Binary(NamedTuple):
    """An operation on two integers of one width.

    Attributes:
        fn: Its result.
        trap: Where it has none.
        rule: What the trap says, in words.
        suspects: Which right operands can trap at all; the cheap question.
        absorbs: The operand that fixes the result whatever the other one is.
    """

    fn: Fn
    trap: Fn | None = None
    rule: str = ""
    suspects: Fn | None = None
    absorbs: int | None = None


_UNSIGNED = ("the divisor is not 0", _is_zero)
_SIGNED = (
    "the divisor is not 0, nor -1 under the lowest integer",
    _is_zero_or_minus_one,
)
_SHIFT = ("the shift is below the width", _is_wide)

BINARY: dict[str, Binary] = {
    "arith.addi": Binary(operator.add),
    "arith.subi": Binary(operator.sub),
    "arith.muli": Binary(operator.mul, absorbs=0),
    "arith.andi": Binary(operator.and_, absorbs=0),
    "arith.ori": Binary(operator.or_, absorbs=-1),
    "arith.xori": Binary(operator.xor),
    "arith.divsi": Binary(_divsi, _bad_signed_division, *_SIGNED),
    "arith.remsi": Binary(_remsi, _bad_signed_division, *_SIGNED),
    "arith.floordivsi": Binary(_floordivsi, _bad_signed_division, *_SIGNED),
    "arith.ceildivsi": Binary(_ceildivsi, _bad_signed_division, *_SIGNED),
    "arith.divui": Binary(_on_unsigned(np.floor_divide), _division_by_zero, *_UNSIGNED),
    "arith.remui": Binary(_on_unsigned(np.remainder), _division_by_zero, *_UNSIGNED),
    "arith.shli": Binary(operator.lshift, _wide_shift, *_SHIFT),
    "arith.shrsi": Binary(operator.rshift, _wide_shift, *_SHIFT),
    "arith.shrui": Binary(_on_unsigned(np.right_shift), _wide_shift, *_SHIFT),
    "arith.maxsi": Binary(_maxsi),
    "arith.minsi": Binary(_minsi),
    "arith.maxui": Binary(_on_unsigned(np.maximum)),
    "arith.minui": Binary(_on_unsigned(np.minimum)),
    "tt.mulhiui": Binary(_mulhi),
}

_ON_BITS: dict[str, Fn] = {
    "arith.addi": operator.xor,
    "arith.subi": operator.xor,
    "arith.maxsi": operator.and_,
    "arith.minsi": operator.or_,
}
"""What differs on i1, whose set value is -1 and which NumPy does not add modulo 2."""


def binary_of(name: str, bits: int) -> Binary:
    """Return an operation on two integers of so many bits."""
    rule = BINARY[name]
    return rule._replace(fn=_ON_BITS[name]) if bits == 1 and name in _ON_BITS else rule


COMPARISONS: dict[str, Fn] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
    "ult": lambda x, y: unsigned(x) < unsigned(y),
    "ule": lambda x, y: unsigned(x) <= unsigned(y),
    "ugt": lambda x, y: unsigned(x) > unsigned(y),
    "uge": lambda x, y: unsigned(x) >= unsigned(y),
}
MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}
"""The same comparison of numbers whose order is turned round."""


def comparison_of(predicate: str, bits: int) -> Fn:
    """Return a comparison of integers of so many bits; a set i1 is below a clear one.

    That is what a sign makes of it: it is -1.
    """
    is_turned = bits == 1 and predicate in MIRRORED
    return COMPARISONS[MIRRORED[predicate] if is_turned else predicate]


def extended(x: Ints, dtype: Any) -> Ints:
    """Return a wider integer with the sign kept; a true i1 becomes -1."""
    return -x.astype(dtype) if x.dtype == bool else x.astype(dtype)


def zero_extended(x: Ints, dtype: Any) -> Ints:
    """Return a wider integer with zeros above; a true i1 becomes 1."""
    return unsigned(x).astype(dtype)


def truncated(x: Ints, dtype: Any) -> Ints:
    """Return the low bits."""
    is_bit = np.dtype(dtype) == np.bool_
    return (x & 1).astype(bool) if is_bit else x.astype(dtype)


CASTS: dict[str, Callable[[Ints, Any], Ints]] = {
    "arith.extsi": extended,
    "arith.extui": zero_extended,
    "arith.trunci": truncated,
    "arith.index_cast": lambda x, dtype: x.astype(dtype),
}

REDUCTIONS: dict[str, Fn] = {
    "arith.addi": lambda x, axis: (
        np.add.reduce(x, axis=axis, dtype=x.dtype)
        if x.dtype != bool
        else np.logical_xor.reduce(x, axis=axis)
    ),
    "arith.muli": lambda x, axis: np.multiply.reduce(x, axis=axis, dtype=x.dtype),
    "arith.andi": lambda x, axis: np.bitwise_and.reduce(x, axis=axis),
    "arith.ori": lambda x, axis: np.bitwise_or.reduce(x, axis=axis),
    "arith.xori": lambda x, axis: np.bitwise_xor.reduce(x, axis=axis),
    "arith.maxsi": lambda x, axis: np.maximum.reduce(x, axis=axis),
    "arith.minsi": lambda x, axis: np.minimum.reduce(x, axis=axis),
    "arith.maxui": lambda x, axis: np.maximum.reduce(unsigned(x), axis=axis).view(
        x.dtype
    ),
    "arith.minui": lambda x, axis: np.minimum.reduce(unsigned(x), axis=axis).view(
        x.dtype
    ),
}
"""Reductions along an axis by one operation; i1 is left to `unsigned` and `signed`."""
