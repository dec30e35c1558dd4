"""The little floating-point arithmetic that address code holds.

A float is its bit pattern, decoded and encoded around each operation. Formats that
NumPy does not know are moved, and stop at arithmetic.
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


def _float_dtype(kind: Type, op: Op) -> Any:  # Any: a NumPy float type
    if kind.element not in FLOAT_DTYPES:
        raise NotJudgedError(f"{op.name} on {kind.element} at {op.place}")
    return FLOAT_DTYPES[kind.element]


def build_float_binary(op: Op, function: Function) -> Step:
    """Build an operation on two floats."""
    fn, kind = FLOAT_BINARY[op.name], op.result_types[0]

    def on_bits(x: Any, y: Any) -> Any:  # Any: bit patterns
        dtype = _float_dtype(kind, op)
        return fn(x.view(dtype), y.view(dtype)).view(x.dtype)

    return build_mapped(on_bits)(op, function)


def build_float_compare(op: Op, function: Function) -> Step:
    """Build a comparison of floats."""
    kind = function.types[op.operands[0]]
    predicate = op.attributes["words"][0]
    if predicate not in FLOAT_COMPARISONS:
        return stopping(op, f"arith.cmpf {predicate}")
    fn = FLOAT_COMPARISONS[predicate]

    def on_bits(x: Any, y: Any) -> Any:  # Any: bit patterns
        dtype = _float_dtype(kind, op)
        return fn(x.view(dtype), y.view(dtype))

    return build_mapped(on_bits)(op, function)


def build_float_cast(op: Op, function: Function) -> Step:
    """Build a change between floats, or from an integer to a float."""
    source, target = function.types[op.operands[0]], op.result_types[0]

    def on_bits(x: Any) -> Any:  # Any: bit patterns or integers
        dtype = _float_dtype(target, op)
        if source.is_float:
            x = x.view(_float_dtype(source, op))
        elif op.name == "arith.uitofp":
            x = unsigned(x)
        else:
            x = extended(x, np.int64)
        return x.astype(dtype).view(target.dtype)

    return build_mapped(on_bits)(op, function)


FLOATS: dict[str, Builder] = {
    **dict.fromkeys(FLOAT_BINARY, build_float_binary),
    **dict.fromkeys(
        ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "tt.fp_to_fp"),
        build_float_cast,
    ),
    "arith.cmpf": build_float_compare,
}
