"""Pointers that are moved, and accesses through undefined ones, in plain Python."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.accesses import (
    build_addptr,
    build_load,
    build_store,
    pointer_root,
)
from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.ir import Function, Op
from kvzero.executors.footprint.values import Dense, Partial, Value
from tests.executors.footprint.drawn_lanes import (
    GRID,
    assert_is,
    numbers,
    values,
)
from tests.executors.footprint.stage import Stage, integer, over_programs, pointer

SHAPES = ((), (4,), (2, 4))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_pointer_moves_by_elements_with_the_sign_of_the_offset(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    stage = Stage(GRID)
    size = data.draw(st.sampled_from((1, 2, 4, 8)), "size")
    bits = data.draw(st.sampled_from((8, 32, 64)), "bits of the offset")
    moved = data.draw(values(64, shape), "pointer")
    offset = data.draw(values(bits, shape), "offset")
    kind = pointer(integer(8 * size), shape)
    found = stage.step(
        build_addptr, [kind, integer(bits, shape)], [moved.value, offset.value], kind
    )
    with np.errstate(all="ignore"):
        lanes = moved.lanes + offset.lanes.astype(np.int64) * np.int64(size)
    assert_is(found, lanes, moved.marks | offset.marks)


@settings(max_examples=40)
@given(
    names=st.lists(
        st.sampled_from(("tt.addptr", "tt.splat", "tt.broadcast", "tt.bitcast")),
        max_size=4,
    ),
    other=st.sampled_from((None, "tt.load", "arith.select")),
    moves=st.sampled_from((0, 0, 250, 255, 256)),
)
def test_root_of_a_pointer_is_the_argument_that_moves_lead_to(
    names: list[str], other: str | None, moves: int
) -> None:
    names = ["tt.splat"] * moves + names + ([other] if other else [])
    last = len(names)
    function = Function("kernel", "k.py:1", [7, last])
    moved = [Op(name, "k.py:1", [i + 1, 0], [i]) for i, name in enumerate(names)]
    function.definitions = [*moved, None]
    expected = 1 if other is None and last < 256 else None
    assert pointer_root(0, function) == expected
    function.arguments = [7]
    assert pointer_root(0, function) is None


class Marked(NamedTuple):
    """A value with lanes that are undefined, and both written out."""

    value: Value
    lanes: Array
    marks: Array


def marked(
    data: st.DataObject,
    stage: Stage,
    shape: tuple[int, ...],
    spots: st.SearchStrategy[int],
    dtype: str,
) -> Marked:
    """Draw a value of which some lanes of some programs are undefined."""
    lanes = data.draw(over_programs(spots, stage, dtype, shape), "lanes")
    marks = data.draw(over_programs(st.booleans(), stage, bool, shape), "marks")
    if not data.draw(st.booleans(), "any undefined"):
        marks = np.zeros_like(marks)
    undefined = marks if marks.any() else None
    value: Value = Dense(lanes, undefined) if shape else lanes
    if not shape and undefined is not None:
        value = Partial(lanes, undefined)
    whole = (*stage.domain.shape, *shape)
    return Marked(value, *(np.broadcast_to(part, whole) for part in (lanes, marks)))


@pytest.mark.parametrize("is_store", [True, False])
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
@settings(max_examples=30)
@given(data=st.data())
def test_programs_that_access_by_undefined_lanes_are_named(
    shape: tuple[int, ...], is_store: bool, data: st.DataObject
) -> None:
    stage = Stage(data.draw(st.sampled_from(((1, 1, 1), (2, 1, 1), GRID)), "grid"))
    base = stage.bench.memory.data_ptr()
    where = marked(data, stage, shape, st.integers(0, 9).map(lambda i: base + i), "i8")
    stored = marked(data, stage, shape, st.integers(0, 2), "i1")
    mask = marked(data, stage, shape, st.booleans(), "bool")
    has_mask = data.draw(st.booleans(), "a mask")
    kinds = [pointer(integer(8), shape), integer(8, shape), integer(1, shape)]
    masked = [mask.value] if has_mask else []
    if is_store:
        given_values = [where.value, stored.value, *masked]
        stage.step(build_store, kinds[: len(given_values)], given_values)
    else:
        loading = [kinds[0], kinds[2]][: 1 + len(masked)]
        stage.step(build_load, loading, [where.value, *masked], kinds[1])
    active = mask.lanes if has_mask else np.ones_like(mask.lanes)
    verb = "store" if is_store else "load"
    wrong = [("a mask", mask.marks)] if has_mask else []
    wrong.append((f"the address of a {verb}", where.marks & active))
    if is_store:
        wrong.append(("a stored value", stored.marks & active))
    lanes = tuple(range(2, 2 + len(shape)))
    expected = []
    for what, marks in wrong:
        programs = np.argwhere(marks.any(axis=lanes)).tolist()
        if programs:
            first = stage.domain.program(*programs[0])
            expected.append((f"{what} depends on a lane", first, len(programs)))
    seen = [m for m in stage.missteps if m.kind == "undefined-value"]
    assert [
        (m.text.partition(" that")[0], m.program, m.count) for m in seen
    ] == expected


@settings(max_examples=20)
@given(
    bits=st.sampled_from((8, 32)), size=st.sampled_from((1, 2, 4, 8)), data=st.data()
)
def test_scalars_move_pointers_beyond_32_bits(
    bits: int, size: int, data: st.DataObject
) -> None:
    stage = Stage(GRID)
    offset = data.draw(numbers(bits), "offset")
    base = np.int64(2**44)
    kind = pointer(integer(8 * size))
    found = stage.step(build_addptr, [kind, integer(bits)], [base, offset], kind)
    expected = 2**44 + np.asarray(offset).astype(np.int64) * size
    assert (np.asarray(found) == expected).all()
