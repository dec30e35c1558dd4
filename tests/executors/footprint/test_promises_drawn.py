"""Promises of drawn lanes, checked one lane at a time."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.ir import Type
from kvzero.executors.footprint.promises import (
    CONSTANCY,
    CONTIGUITY,
    DIVISIBILITY,
    with_promises,
)
from kvzero.executors.footprint.values import Affine, Dense, Partial, Value
from tests.executors.footprint.stage import (
    GRIDS,
    Program,
    Stage,
    integer,
    over_programs,
    pointer,
    scalars,
    signed,
)

NUMBERS = (1, 2, 3, 4, 6, 8)
near = st.integers(-12, 12)
numbers = near | near.map(lambda n: 4 * n) | st.integers(-(2**31), 2**31 - 1)


def breaks(
    name: str,
    lanes: dict[tuple[int, ...], int],
    dim: int,
    number: int,
    unit: int,
    bits: int,
) -> Iterator[tuple[int, ...]]:
    """Yield the lanes of one program that break a promise, in order."""
    for lane, value in lanes.items():
        index = lane[dim] if lane else 0
        before = (*lane[:dim], index - 1, *lane[dim + 1 :])
        follows = {
            step: bool(index) and value == signed(lanes[before] + step, bits)
            for step in (0, unit)
        }
        if name == DIVISIBILITY:
            broken = not follows[unit] and value % number != 0
        else:
            step = unit if name == CONTIGUITY else 0
            broken = index % number != 0 and not follows[step]
        if broken and number > 1:
            yield lane


@st.composite
def promised(draw: st.DrawFn, stage: Stage, kind: Type, unit: int) -> Value:
    """Values of a type, often such as a promise speaks of; some are undefined."""
    shape, dtype = kind.shape, kind.dtype
    flags = over_programs(st.booleans(), stage, bool, shape)
    if not shape:
        base = draw(scalars(numbers, stage, dtype))
        mark = draw(st.none() | scalars(st.booleans(), stage, bool))
        return base if mark is None else Partial(base, mark)
    if draw(st.booleans()):
        wide = st.sampled_from((0, unit, 2, 4, -unit, 2**30))
        steps = tuple(draw(st.just(unit) | wide) for _ in shape)
        return Affine(draw(scalars(numbers, stage, dtype)), steps, shape)
    groups = draw(over_programs(st.sampled_from((0, 4, 6, 8)), stage, dtype, shape))
    ramp = np.indices(shape)[draw(st.integers(0, len(shape) - 1))]
    slope = draw(st.sampled_from((0, unit)))
    lanes = np.where(draw(flags), groups, 0) + (ramp * slope).astype(dtype)
    return Dense(lanes, draw(st.none() | flags))


@pytest.mark.parametrize("shape", [(), (8,), (2, 4), (4, 2), (1, 6)], ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_broken_promises_are_those_that_break_lane_by_lane(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    unit = data.draw(st.sampled_from((1, 2, 4)), "bytes of what is pointed to, or 1")
    kind = integer(32, shape) if unit == 1 else pointer(integer(8 * unit), shape)
    names = (DIVISIBILITY, CONTIGUITY, CONSTANCY) if shape else (DIVISIBILITY,)
    name = data.draw(st.sampled_from(names), "promise")
    each = st.sampled_from(NUMBERS)
    made = [data.draw(each, "number") for _ in shape] or [data.draw(each, "number")]
    value = data.draw(promised(stage, kind, unit), "value")
    check(stage, name, made, value, kind, unit)


def check(
    stage: Stage, name: str, made: list[int], value: Value, kind: Type, unit: int
) -> None:
    def put(frame: object) -> None:
        frame.values[1] = value  # type: ignore[attr-defined]  # a Frame

    stage.step(
        lambda op, function: with_promises(op, function, put),
        [kind],
        [value],
        kind,
        attributes={name: made},
    )
    lanes, marks = stage.lanes(value, kind.shape), stage.undefined(value, kind.shape)
    bad: list[tuple[Program, int]] = []
    count = 0
    for dim, number in enumerate(made):
        here: dict[Program, int] = {}
        for program in stage.programs:
            own = {lane: int(lanes[*program, *lane]) for lane in np.ndindex(kind.shape)}
            for lane in breaks(name, own, dim, number, unit, kind.bits):
                if not marks[*program, *lane]:
                    here.setdefault(program, own[lane])
        bad += here.items()
        count += len(here)
    assert [m.count for m in stage.missteps] == [count] * bool(bad)
    for misstep in stage.missteps:
        (program, seen), *_ = bad
        assert misstep.kind == "false-promise"
        assert misstep.program == stage.domain.program(*program)
        assert f"value={seen}, but must be" in misstep.text
