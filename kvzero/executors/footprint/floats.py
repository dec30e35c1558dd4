"""The little floating-point arithmetic that address code holds.

A float is its bit pattern, decoded and encoded around each operation. The formats of 8
bits are moved and converted where that is exact, and stop at arithmetic: how they round
and saturate is the machine's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kvzero.executors.footprint.arithmetic import extended, unsigned
from kvzero.executors.footprint.elementwise import (
    Builder,
    Step,
    build_mapped,
    stopping,
)
from kvzero.executors.footprint.float_bits import TORCH_FLOATS, decoded, rounded
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.ir import Function, Op, Type

Fn = Callable[..., Any]  # Any: numbers or arrays of a float dtype

FLOAT_DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}

FLOAT_BINARY: dict[str, Fn] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
}

FLOAT_COMPARISONS: dict[str, Fn] = {
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": lambda x, y: (x < y) | (x > y),
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    "uno": lambda x, y: np.isnan(x) | np.isnan(y),
    "une": np.not_equal,
    "ueq": lambda x, y: ~((x < y) | (x > y)),
    "ugt": lambda x, y: ~(x <= y),
    "uge": lambda x, y: ~(x < y),
    "ult": lambda x, y: ~(x >= y),
    "ule": lambda x, y: ~(x > y),
}


def _refused(kind: Type, op: Op) -> NotJudgedError:
    return NotJudgedError(f"{op.name} on {kind.element} at {op.place}")


def _numbers(bits: Any, kind: Type, op: Op) -> Any:  # Any: bit patterns; NumPy floats
    """Return the numbers that some bits stand for, in a format that NumPy has."""
    if kind.element in FLOAT_DTYPES:
        return bits.view(FLOAT_DTYPES[kind.element])
    if kind.element not in TORCH_FLOATS:
        raise _refused(kind, op)
    return decoded(bits, kind.element)


def _encoded(numbers: Any, kind: Type, op: Op) -> Any:  # Any: NumPy floats; bits
    """Return the bits of the nearest numbers; of 8 bits only where that is exact."""
    if kind.element in FLOAT_DTYPES:
        return numbers.astype(FLOAT_DTYPES[kind.element]).view(kind.dtype)
    if kind.element not in TORCH_FLOATS:
        raise _refused(kind, op)
    bits = rounded(numbers, kind.element)
    if kind.bits == 8 and not np.array_equal(decoded(bits, kind.element), numbers):
        raise _refused(kind, op)
    return bits


def _refuse_bytes(kind: Type, op: Op) -> None:
    if kind.bits == 8:
        raise _refused(kind, op)


def build_float_binary(op: Op, function: Function) -> Step:
    """Build an operation on two floats.

    Not judged: floats of 8 bits.
    """
    fn, kind = FLOAT_BINARY[op.name], op.result_types[0]

    def on_bits(x: Any, y: Any) -> Any:  # Any: bit patterns
        _refuse_bytes(kind, op)
        numbers = (_numbers(bits, kind, op) for bits in (x, y))
        return _encoded(fn(*numbers), kind, op)

    return build_mapped(on_bits)(op, function)


def build_negation(op: Op, function: Function) -> Step:
    """Build a float with its sign turned around."""
    bits = op.result_types[0].bits
    return build_mapped(lambda x: x ^ x.dtype.type(-(2 ** (bits - 1))))(op, function)


def build_float_compare(op: Op, function: Function) -> Step:
    """Build a comparison of floats."""
    kind = function.types[op.operands[0]]
    predicate = op.attributes["words"][0]
    if predicate not in FLOAT_COMPARISONS:
        return stopping(op, f"arith.cmpf {predicate}")
    fn = FLOAT_COMPARISONS[predicate]

    def on_bits(x: Any, y: Any) -> Any:  # Any: bit patterns
        return fn(_numbers(x, kind, op), _numbers(y, kind, op))

    return build_mapped(on_bits)(op, function)


def build_float_cast(op: Op, function: Function) -> Step:
    """Build a change between floats, or from an integer to a float.

    Not judged: values that a float of 8 bits does not hold exactly; a rounding other
    than to nearest.
    """
    source, target = function.types[op.operands[0]], op.result_types[0]

    def on_bits(x: Any) -> Any:  # Any: bit patterns or integers
        if source.is_float:
            x = _numbers(x, source, op)
        elif op.name == "arith.uitofp":
            x = unsigned(x)
        else:
            x = extended(x, np.int64)
        return _encoded(_singles(x, source, target, op), target, op)

    if "rtz" in op.attributes.get("words", ()):
        return stopping(op, "tt.fp_to_fp toward zero")
    return build_mapped(on_bits)(op, function)


def _singles(numbers: Any, source: Type, target: Type, op: Op) -> Any:  # Any: NumPy's
    """Return numbers as they are, or as float32 on their way to a smaller format.

    Numbers that float32 does not hold would round twice.
    """
    if target.element not in TORCH_FLOATS or (source.is_float and source.bits <= 32):
        return numbers
    singles = numbers.astype(np.float32)
    # As Python's numbers: float64 does not hold all integers of 64 bits either.
    if singles.tolist() != numbers.tolist():
        raise _refused(target, op)
    return singles


def build_float_to_int(op: Op, function: Function) -> Step:
    """Build an integer from a float, cut toward zero.

    Not judged: numbers that the integer does not hold, for which it is undefined.
    """
    source, target = function.types[op.operands[0]], op.result_types[0]
    is_signed = op.name == "arith.fptosi"
    low = -(2.0 ** (target.bits - 1)) if is_signed else 0.0
    high = 2.0 ** (target.bits - 1 if is_signed else target.bits)

    def on_bits(x: Any) -> Any:  # Any: bit patterns
        whole = np.trunc(_numbers(x, source, op).astype(np.float64))
        if not np.all((whole >= low) & (whole < high)):
            raise _refused(source, op)
        wide = np.int64 if is_signed else np.uint64
        return whole.astype(wide).astype(target.dtype)

    return build_mapped(on_bits)(op, function)


FLOATS: dict[str, Builder] = {
    **dict.fromkeys(FLOAT_BINARY, build_float_binary),
    **dict.fromkeys(
        ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "tt.fp_to_fp"),
        build_float_cast,
    ),
    **dict.fromkeys(("arith.fptosi", "arith.fptoui"), build_float_to_int),
    "arith.cmpf": build_float_compare,
    "arith.negf": build_negation,
}
