"""Bugs planted in the evaluator, one at a time, for the differential witness to find.

Each is a function that breaks one small thing until a context ends. Compiled kernels
and what the interpreter left of them are made once and evaluated under every bug.
`python -m tests.executors.footprint.planted_bugs` prints which kernel kills which.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from kvzero.executors.footprint import (
    accesses,
    control,
    elementwise,
    evaluate,
    lanes,
    shapes,
)
from kvzero.executors.footprint.arithmetic import (
    BINARY,
    CASTS,
    COMPARISONS,
    zero_extended,
)
from kvzero.executors.footprint.launch_memory import LaunchMemory
from kvzero.executors.footprint.parse import parse_module
from kvzero.executors.footprint.values import Affine, where
from tests.executors.footprint.differential import Compiled, Witness
from tests.executors.footprint.random_campaign import arguments, drawn, in_batches, say
from tests.executors.footprint.random_crew import Crew, Lost

Planted = AbstractContextManager[object]
Bug = Callable[[], Planted]
Fn = Callable[..., Any]  # Any: numbers or arrays of any dtype


def _binary(name: str, fn: Fn) -> Planted:
    return patch.dict(BINARY, {name: BINARY[name]._replace(fn=fn)})


def _builder(name: str, build: Fn) -> Planted:
    table: Any = control.BUILDERS if name in control.BUILDERS else control.STRUCTURED
    return patch.dict(table, {name: build})


def _floor_division() -> Planted:
    return _binary("arith.divsi", np.floor_divide)


def _floor_remainder() -> Planted:
    return _binary("arith.remsi", np.remainder)


def _zero_for_sign_extension() -> Planted:
    return patch.dict(CASTS, {"arith.extsi": zero_extended})


def _sign_for_zero_extension() -> Planted:
    return patch.dict(CASTS, {"arith.extui": CASTS["arith.extsi"]})


def _bit_extended_to_one() -> Planted:
    return patch.dict(CASTS, {"arith.extsi": lambda x, dtype: x.astype(dtype)})


def _products_saturate() -> Planted:
    """Let 32-bit products stop at the ends of their type instead of wrapping."""
    original = BINARY["arith.muli"].fn

    def saturated(x: Any, y: Any) -> Any:  # Any: numbers or arrays
        if x.dtype != np.int32:
            return original(x, y)
        wide = x.astype(np.int64) * y.astype(np.int64)
        return np.clip(wide, -(2**31), 2**31 - 1).astype(np.int32)

    return _binary("arith.muli", saturated)


def _lanes_never_wrap() -> Planted:
    return patch.object(Affine, "fits", lambda self: self.shape != ())


def _mask_off_by_one() -> Planted:
    original = lanes._ceiling
    return patch.object(lanes, "_ceiling", lambda a, step: original(a, step) + 1)


def _other_is_stale() -> Planted:
    original = accesses._loaded

    def loaded(values: Any, active: Any, other: Any, dims: int) -> Any:
        stale = None if other is None else values.dtype.type(0)
        return original(values, active, stale, dims)

    return patch.object(accesses, "_loaded", loaded)


def _axes_not_swapped() -> Planted:
    """Let a transposition only change the shape."""

    def build(op: Any, function: Any) -> Any:
        reshaped = replace(op, name="tt.reshape")
        return shapes.build_reshape(reshaped, function)

    return _builder("tt.trans", build)


def _promises_ignored() -> Planted:
    return patch.object(control, "with_promises", lambda *arguments: arguments[2])


def _offsets_without_sign() -> Planted:
    return patch.object(accesses, "extended", zero_extended)


def _select_swapped() -> Planted:
    original = elementwise.selected

    def selected(condition: Any, first: Any, second: Any, shape: Any) -> Any:
        return original(condition, second, first, shape)

    return patch.object(elementwise, "selected", selected)


def _extremes_swapped() -> Planted:
    swapped = {
        "arith.maxsi": BINARY["arith.minsi"],
        "arith.minsi": BINARY["arith.maxsi"],
    }
    return patch.dict(BINARY, swapped)


def _unsigned_compared_as_signed() -> Planted:
    signed = {
        f"u{name[1:]}": COMPARISONS[name] for name in ("slt", "sle", "sgt", "sge")
    }
    return patch.dict(COMPARISONS, signed)


def _arithmetic_shift_is_logical() -> Planted:
    return _binary("arith.shrsi", BINARY["arith.shrui"].fn)


def _logical_shift_is_arithmetic() -> Planted:
    return _binary("arith.shrui", BINARY["arith.shrsi"].fn)


def _loop_stops_early() -> Planted:
    original = control.trip_counts

    def fewer(*bounds: Any, is_unsigned: bool) -> Any:
        return np.maximum(original(*bounds, is_unsigned=is_unsigned) - 1, 0)

    return patch.object(control, "trip_counts", fewer)


def _branches_swapped() -> Planted:
    original = control.build_if

    def build(op: Any, function: Any, template: Any) -> Any:
        return original(replace(op, regions=op.regions[::-1]), function, template)

    return _builder("scf.if", build)


def _truncation_saturates() -> Planted:
    def saturated(x: Any, dtype: Any) -> Any:
        if np.dtype(dtype) == np.bool_:
            return x != 0
        info = np.iinfo(dtype)
        return np.clip(x, info.min, info.max).astype(dtype)

    return patch.dict(CASTS, {"arith.trunci": saturated})


def _stores_too_narrow() -> Planted:
    original = accesses._element_store

    def narrow(*arguments: Any) -> Any:
        store = original(*arguments)
        if not store.is_zero and store.values.shape[1] > 1:
            store.values = store.values[:, :-1]
        return store

    return patch.object(accesses, "_element_store", narrow)


def _program_ids_of_wrong_axis() -> Planted:
    return patch.object(shapes, "_AXES", ("y", "x", "z"))


def _broadcast_along_wrong_axis() -> Planted:
    original = shapes._broadcast

    def broadcast(value: Any, shape: tuple[int, ...]) -> Any:
        result = original(value, shape)
        if isinstance(result, Affine):
            return Affine(result.base, result.steps[::-1], shape)
        return result

    return patch.object(shapes, "_broadcast", broadcast)


def _own_stores_unseen() -> Planted:
    return patch.object(LaunchMemory, "_patch", lambda *_: None)


def _merged_the_wrong_way() -> Planted:
    """Give programs that went one way what the others computed."""

    def other_way(condition: Any, first: Any, second: Any) -> Any:
        return where(~condition, first, second)

    return patch.object(elementwise, "where", other_way)


def _high_product_is_low() -> Planted:
    return _binary("tt.mulhiui", lambda x, y: x * y)


BUGS: dict[str, Bug] = {
    "floor division": _floor_division,
    "floor remainder": _floor_remainder,
    "zero- for sign-extension": _zero_for_sign_extension,
    "sign- for zero-extension": _sign_for_zero_extension,
    "i1 extended to 1 instead of -1": _bit_extended_to_one,
    "no wrap at 32 bits: products saturate": _products_saturate,
    "no wrap at 32 bits: lanes": _lanes_never_wrap,
    "mask off by one": _mask_off_by_one,
    "stale other": _other_is_stale,
    "axes not swapped": _axes_not_swapped,
    "promises ignored": _promises_ignored,
    "addptr without sign extension": _offsets_without_sign,
    "select swapped": _select_swapped,
    "min and max swapped": _extremes_swapped,
    "unsigned compared as signed": _unsigned_compared_as_signed,
    "arithmetic shift is logical": _arithmetic_shift_is_logical,
    "logical shift is arithmetic": _logical_shift_is_arithmetic,
    "loop one turn short": _loop_stops_early,
    "branches swapped": _branches_swapped,
    "truncation saturates": _truncation_saturates,
    "store too narrow": _stores_too_narrow,
    "program id of wrong axis": _program_ids_of_wrong_axis,
    "broadcast along wrong axis": _broadcast_along_wrong_axis,
    "own stores unseen": _own_stores_unseen,
    "scalar select inverted": _merged_the_wrong_way,
    "high product is the low one": _high_product_is_low,
}


def kernels_needed(bug: str, kernels: Sequence[Compiled]) -> int | None:
    """Return how many kernels it takes until one shows a bug; None: none does."""
    with BUGS[bug]():
        for count, kernel in enumerate(kernels, 1):
            if _shows(kernel):
                return count
    return None


def _shows(kernel: Compiled) -> bool:
    try:
        return kernel.disagreement() is not None
    except Exception:  # a crash shows a bug too
        return True


@dataclass(frozen=True)
class Hunt:
    """Kernels to hold against bugs that none before them has killed."""

    seed: int
    numbers: range
    bugs: tuple[str, ...]


def hunted(made: Witness, hunt: Hunt) -> dict[str, int]:
    """Return the number of the first kernel that kills each bug, of those killed."""
    parse = cache(parse_module)  # every bug evaluates the same text
    with patch.object(evaluate, "parse_module", parse):
        kernels = made.batch([drawn(hunt.seed, number) for number in hunt.numbers])
        numbered = list(zip(hunt.numbers, kernels))
        # A kernel on which the sides differ anyway would kill everything.
        sound = [(number, kernel) for number, kernel in numbered if not _shows(kernel)]
        killed = {}
        for bug in hunt.bugs:
            needed = kernels_needed(bug, [kernel for _, kernel in sound])
            if needed is not None:
                killed[bug] = sound[needed - 1][0]
    return killed


def kills(
    seed: int, count: int, crew: Crew[Hunt, dict[str, int]], bugs: Iterable[str] = BUGS
) -> dict[str, int]:
    """Return the first kernel that kills each bug; survivors are not in it.

    A bug that ends or blocks the process of its evaluator is killed by that.
    """
    killed: dict[str, int] = {}
    waiting = deque(Hunt(seed, n, tuple(bugs)) for n in in_batches(count))
    for hunt, answer in crew.answers(waiting):
        if not isinstance(answer, Lost):
            found = answer
        elif len(hunt.bugs) > 1:
            waiting.extendleft(replace(hunt, bugs=(bug,)) for bug in hunt.bugs)
            continue
        else:
            say(f"{hunt.bugs[0]}: {answer.why}")
            found = dict.fromkeys(hunt.bugs, hunt.numbers[-1])
        for bug, number in found.items():
            killed[bug] = min(number, killed.get(bug, number))
        _spare(waiting, killed)
    return killed


def _spare(waiting: deque[Hunt], killed: dict[str, int]) -> None:
    """Take what is dead by an earlier kernel out of the hunts that wait."""
    rest = []
    for hunt in waiting:
        alive = [
            b for b in hunt.bugs if killed.get(b, hunt.numbers[0]) >= hunt.numbers[0]
        ]
        if alive:
            rest.append(replace(hunt, bugs=tuple(alive)))
    waiting.clear()
    waiting.extend(rest)


def main() -> None:
    """Plant every bug and print the first kernel that kills it; 1 if one lives."""
    parsed = arguments(main.__doc__ or "").parse_args()
    begin = time.perf_counter()
    killed = kills(parsed.seed, parsed.kernels, Crew(hunted, parsed.workers))
    spent = time.perf_counter() - begin
    say("kernel  bug")
    for bug in sorted(BUGS, key=lambda bug: killed.get(bug, parsed.kernels)):
        say(f"{killed.get(bug, 'none'):>6}  {bug}")
    say(
        f"{len(killed)} of {len(BUGS)} killed within {parsed.kernels} kernels of seed "
        f"{parsed.seed}, {spent:.0f} s"
    )
    sys.exit(int(len(killed) < len(BUGS)))


if __name__ == "__main__":
    main()
