"""Promises of lanes of every width and form, against Python's integers one by one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.arithmetic import COMPARISONS
from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.promises import CONSTANCY, CONTIGUITY, DIVISIBILITY
from kvzero.executors.footprint.values import (
    MAX_DENSE_ELEMENTS,
    Affine,
    Dense,
    Partial,
)
from kvzero.observation import Misstep
from tests.executors.footprint.drawn_lanes import (
    PLACE,
    PROGRAMS,
    Drawn,
    dtype_of,
    evaluated,
    kind_of,
    numbers,
    values,
    written,
)
from tests.executors.footprint.test_arithmetic import ORDER
from tests.executors.footprint.test_elementwise_drawn import exact_results
from tests.executors.footprint.test_promises_drawn import breaks

SHAPES = ((), (8,), (1,), (7,), (4, 3), (3, 6), (1, 4), (2, 3, 4))
POINTEES = {"i8": 1, "i1": 1, "f16": 2, "i32": 4, "f64": 8}
RULES = {
    DIVISIBILITY: ("tl.multiple_of", "a multiple of"),
    CONTIGUITY: ("tl.max_contiguous", "contiguous in groups of"),
    CONSTANCY: ("tl.max_constancy", "constant in groups of"),
}
any_number = st.sampled_from((1, 2, 3, 4, 6, 8, 16, 128, 200, 2**20))


@st.composite
def kinds(draw: st.DrawFn) -> tuple[int, str, int]:
    """Bits of an element, its name, and what one more lane adds if contiguous."""
    bits = draw(st.sampled_from((8, 16, 32, 64)))
    if bits < 64 or draw(st.booleans()):
        return bits, f"i{bits}", 1
    to = draw(st.sampled_from(sorted(POINTEES)))
    return 64, f"!tt.ptr<{to}>", POINTEES[to]


@st.composite
def walks(draw: st.DrawFn, bits: int, shape: tuple[int, ...], unit: int) -> Drawn:
    """Lanes that mostly go on as a promise wants, here and there not; some undefined.

    They shrink to zeros.
    """
    dim, size = draw(st.integers(0, len(shape) - 1)), int(np.prod(shape))
    held = draw(values(bits, shape, form="dense"))
    base, marks = held.value.array, held.value.undefined
    rate = draw(st.sampled_from((0, 0, unit, unit, -unit, 1)))
    moves = draw(st.lists(st.sampled_from((0, 0, 0, 1, 2, 4, -3)), max_size=size))
    moves += [0] * (size - len(moves))
    jumps = np.cumsum(np.array(moves).reshape(shape), axis=dim)
    ramp = np.indices(shape)[dim] * rate + jumps
    first = base[(..., *(slice(1),) * len(shape))]  # one number a program
    times = draw(st.sampled_from((1, 4, 6)))
    typed = dtype_of(bits).type
    with np.errstate(all="ignore"):
        lanes = first * typed(times) + ramp.astype(typed)
    value = Dense(lanes, marks)
    return Drawn("", value, *written(value, dtype_of(bits), shape))


@st.composite
def promised(draw: st.DrawFn, bits: int, shape: tuple[int, ...], unit: int) -> Drawn:
    """Values of any form, often such as a promise speaks of; shrink to zeros."""
    if not shape or draw(st.integers(0, 3)) == 0:
        return draw(values(bits, shape))
    if draw(st.booleans()):
        return draw(walks(bits, shape, unit))
    steps = tuple(
        draw(st.sampled_from((0, unit, 4, 6, -unit, 2 ** (bits - 3)))) for _ in shape
    )
    with np.errstate(all="ignore"):
        scale = dtype_of(bits).type(draw(st.sampled_from((1, 4, 6))))
        value = Affine(draw(numbers(bits)) * scale, steps, shape)
    return Drawn("", value, *written(value, dtype_of(bits), shape))


def bad_lanes(
    name: str, drawn: Drawn, dim: int, number: int, unit: int
) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield each program that breaks a promise, with the first lane that does."""
    shape = drawn.lanes.shape[2:]
    for at in np.ndindex(*PROGRAMS):
        own = {lane: int(drawn.lanes[*at, *lane]) for lane in np.ndindex(shape)}
        bits = drawn.lanes.dtype.itemsize * 8
        for lane in breaks(name, own, dim, number, unit, bits):
            if not drawn.marks[*at, *lane]:
                yield at, own[lane]
                break


def assert_told(missteps: tuple[Misstep, ...], bad: list[Any], starts: Any) -> None:
    """Assert that one misstep tells of all programs, and of the first one's number."""
    assert [(m.kind, m.place, m.count) for m in missteps] == [
        ("false-promise", PLACE, len(bad))
    ] * bool(bad)
    for misstep in missteps:
        (row, col), seen = bad[0]
        assert misstep.program == (col, row, 0)
        assert misstep.text.startswith(starts(seen))


@settings(max_examples=250)
@given(data=st.data(), kind=kinds(), shape=st.sampled_from(SHAPES))
def test_promise_is_false_where_a_lane_breaks_it(
    data: st.DataObject, kind: tuple[int, str, int], shape: tuple[int, ...]
) -> None:
    bits, element, unit = kind
    drawn = data.draw(promised(bits, shape, unit), "value")
    name = data.draw(st.sampled_from((DIVISIBILITY, CONTIGUITY, CONSTANCY)), "promise")
    made = data.draw(st.lists(any_number, min_size=1, max_size=3), "numbers")
    printed = f"dense<[{', '.join(map(str, made))}]> : tensor<{len(made)}xi32>"
    whole = kind_of(element, shape)
    if not shape:
        printed = f"{made[0]} : i32"
    line = f"%r = tt.bitcast %a0 {{{name} = {printed}}} : {whole} -> {whole}"
    outcome = evaluated([line], [drawn._replace(kind=whole)], "%r")
    is_checked = bool(shape) or name == DIVISIBILITY
    bad: list[Any] = []
    texts = []
    for dim, number in enumerate(made[: max(len(shape), 1)] if is_checked else ()):
        found = list(bad_lanes(name, drawn, dim, number, unit))
        bad += found
        texts += [number] * bool(found)
    word, rule = RULES[name]
    assert_told(
        outcome.missteps,
        bad,
        lambda seen: f"{word}: value={seen}, but must be {rule} {texts[0]}: ",
    )


@settings(max_examples=60)
@given(data=st.data(), kind=kinds(), number=any_number)
def test_multiple_of_a_number_is_asked_of_a_scalar_of_every_program(
    data: st.DataObject, kind: tuple[int, str, int], number: int
) -> None:
    bits, element, unit = kind
    drawn = data.draw(values(bits), "value")
    if data.draw(st.booleans(), "mostly multiples"):
        array = (drawn.lanes.astype(np.int64) % 7 - 3) * number
        drawn = drawn._replace(lanes=array.astype(drawn.lanes.dtype))
        held = Partial(drawn.lanes, drawn.marks) if drawn.marks.any() else drawn.lanes
        drawn = drawn._replace(value=held)
    line = f"%r = tt.bitcast %a0 {{{DIVISIBILITY} = {number} : i32}}"
    outcome = evaluated(
        [f"{line} : {element} -> {element}"], [drawn._replace(kind=element)], "%r"
    )
    bad = list(bad_lanes(DIVISIBILITY, drawn, 0, number, unit))
    assert_told(
        outcome.missteps,
        bad,
        lambda seen: f"tl.multiple_of: value={seen}, but must be a multiple of ",
    )


@settings(max_examples=20)
@given(
    data=st.data(),
    shape=st.sampled_from(((8,), (4, 3))),
    name=st.sampled_from((DIVISIBILITY, CONTIGUITY, CONSTANCY)),
    number=any_number,
)
def test_masks_are_promised_nothing(
    data: st.DataObject, shape: tuple[int, ...], name: str, number: int
) -> None:
    mask = data.draw(values(1, shape), "mask")
    made = ", ".join([str(number)] * len(shape))
    line = (
        f"%r = tt.bitcast %a0 {{{name} = dense<[{made}]> : tensor<{len(shape)}xi32>}}"
    )
    outcome = evaluated([f"{line} : {mask.kind} -> {mask.kind}"], [mask], "%r")
    assert outcome.missteps == ()


@settings(max_examples=40)
@given(
    base=numbers(32),
    number=st.sampled_from((2, 3, 16)),
    unit=st.sampled_from((1, 2, 4)),
    name=st.sampled_from((DIVISIBILITY, CONTIGUITY, CONSTANCY)),
)
def test_promises_that_affine_lanes_keep_are_seen_without_writing_them_out(
    base: Any, number: int, unit: int, name: str
) -> None:
    # Written out, so many lanes are refused.
    shape = (MAX_DENSE_ELEMENTS, 2)
    steps = (number, unit)
    made = [1, number]
    if name != DIVISIBILITY:
        steps = (5, unit if name == CONTIGUITY else 0)
    element = {1: "i64", 2: "!tt.ptr<i16>", 4: "!tt.ptr<f32>"}[unit]
    whole = kind_of(element, shape)
    wide = (base.astype(np.int64) % 2**20) * number
    value = Affine(np.broadcast_to(wide, PROGRAMS).copy(), steps, shape)
    line = f"%r = tt.bitcast %a0 {{{name} = dense<{made}> : tensor<2xi32>}}"
    none = np.zeros(1, bool)
    drawn = Drawn(whole, value, none, none)
    outcome = evaluated([f"{line} : {whole} -> {whole}"], [drawn], "%r")
    assert outcome.missteps == ()


@settings(max_examples=80)
@given(
    data=st.data(),
    predicate=st.sampled_from(sorted(COMPARISONS)),
    bits=st.sampled_from((8, 32, 64)),
    is_compared=st.booleans(),
)
def test_assumption_is_false_for_the_programs_that_it_does_not_hold_for(
    data: st.DataObject, predicate: str, bits: int, is_compared: bool
) -> None:
    x, y = (data.draw(values(bits)) for _ in range(2))
    flag = data.draw(values(1))
    lines = [
        f"%c = arith.cmpi {predicate}, %a0, %a1 : {x.kind}",
        f"%d = arith.andi %c, %a2 : {flag.kind}",
        f"llvm.intr.assume {'%c' if is_compared else '%d'} : i1",
    ]
    outcome = evaluated(lines, [x, y, flag], "%a0")
    is_signed = not predicate.startswith("u")
    exact = exact_results(ORDER[predicate[-2:]], x.lanes, y.lanes, signed=is_signed)
    holds = np.array(exact, bool).reshape(PROGRAMS)
    unknown = x.marks | y.marks
    if not is_compared:
        is_false = (~holds & ~unknown) | (~flag.lanes & ~flag.marks)
        holds, unknown = holds & flag.lanes, (unknown | flag.marks) & ~is_false
    broken: Array = ~holds & ~unknown
    bad: list[Any] = [
        (at, (int(x.lanes[at]), int(y.lanes[at]))) for at in zip(*np.nonzero(broken))
    ]
    sign = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    shown = f" {sign[predicate[-2:]]} "
    assert_told(
        outcome.missteps,
        bad,
        lambda pair: (
            f"tl.assume is false{': ' + shown.join(map(str, pair)) * is_compared}"
        ).removesuffix(": "),
    )
