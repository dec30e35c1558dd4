"""Affine lanes and boxes against the same lanes written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.executors.footprint.arithmetic import BINARY, COMPARISONS
from kvzero.executors.footprint.domain import Array, Scalar, agreed, pick_where
from kvzero.executors.footprint.elementwise import selected, tensor_binary
from kvzero.executors.footprint.lanes import compared
from kvzero.executors.footprint.values import (
    Affine,
    Box,
    Dense,
    merged,
    taken,
    written_out,
)

SHAPES = ((8,), (1,), (4, 4), (2, 8))
numbers = st.integers(-40, 40) | st.integers(-(2**31), 2**31 - 1)


@st.composite
def affine_lanes(draw: st.DrawFn, shape: tuple[int, ...]) -> Affine:
    """Lanes of one or three by two programs; shrink to zeros."""
    lanes: Scalar
    if draw(st.booleans()):
        base = np.array(draw(st.lists(numbers, min_size=6, max_size=6)), np.int32)
        lanes = base.reshape(3, 2)
    else:
        lanes = np.int32(draw(numbers))
    steps = tuple(draw(st.integers(-4, 4) | numbers) for _ in shape)
    return Affine(lanes, steps, shape)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Affine, Affine]:
    """Two tensors of one shape."""
    shape = draw(st.sampled_from(SHAPES))
    return draw(affine_lanes(shape)), draw(affine_lanes(shape))


def whole(lanes: Array) -> Array:
    return np.broadcast_to(lanes, (3, 2, *lanes.shape[2:]))


@pytest.mark.parametrize("name", ["arith.addi", "arith.subi", "arith.muli"])
@given(pair=pairs())
def test_affine_arithmetic_equals_arithmetic_on_lanes(
    name: str, pair: tuple[Affine, Affine]
) -> None:
    x, y = pair
    with np.errstate(all="ignore"):
        result = tensor_binary(name, BINARY[name], x, y, x.shape)
        exact = BINARY[name].fn(whole(written_out(x)), whole(written_out(y)))
        np.testing.assert_array_equal(whole(written_out(result)), exact)


@pytest.mark.parametrize("predicate", sorted(COMPARISONS))
@given(pair=pairs())
def test_comparison_solved_for_the_lane_equals_comparison_of_lanes(
    predicate: str, pair: tuple[Affine, Affine]
) -> None:
    x, y = pair
    with np.errstate(all="ignore"):
        mask = compared(predicate, x, y)
        exact = COMPARISONS[predicate](whole(written_out(x)), whole(written_out(y)))
        if mask is not None:
            np.testing.assert_array_equal(whole(written_out(mask)), exact)


@given(st.lists(st.integers(0, 8), min_size=4, max_size=4), st.booleans())
def test_boxes_meet_where_both_masks_are_true(bounds: list[int], second: bool) -> None:
    low, high, other_low, other_high = (np.int64(b) for b in bounds)
    box = Box((low,), (high,), (8,))
    other = (
        Box((other_low,), (other_high,), (8,))
        if second
        else Affine(np.bool_(bounds[2] % 2), (0,), (8,))
    )
    rule = BINARY["arith.andi"]
    both = tensor_binary("arith.andi", rule, box, other, (8,))
    assert not isinstance(both, Dense)
    exact = written_out(box) & written_out(other)
    np.testing.assert_array_equal(written_out(both), exact)


@given(pairs(), st.lists(st.booleans(), min_size=6, max_size=6))
def test_value_split_by_a_condition_is_whole_again_when_merged(
    pair: tuple[Affine, Affine], chosen: list[bool]
) -> None:
    condition = np.array(chosen).reshape(3, 2)
    if condition.all() or not condition.any():
        return
    x, y = pair
    picks = [pick_where(condition), pick_where(~condition)]
    with np.errstate(all="ignore"):
        pieces = [(pick, taken(v, pick)) for pick, v in zip(picks, (x, y))]
        together = merged((3, 2), pieces)
        mask = condition.reshape(3, 2, *(1,) * len(x.shape))
        exact = np.where(mask, whole(written_out(x)), whole(written_out(y)))
        np.testing.assert_array_equal(whole(written_out(together)), exact)


@given(pairs(), st.lists(st.booleans(), min_size=6, max_size=6))
def test_selection_by_program_equals_selection_of_lanes(
    pair: tuple[Affine, Affine], chosen: list[bool]
) -> None:
    x, y = pair
    condition = np.array(chosen).reshape(3, 2)
    with np.errstate(all="ignore"):
        result = selected(condition, x, y, x.shape)
        mask = condition.reshape(3, 2, *(1,) * len(x.shape))
        exact = np.where(mask, whole(written_out(x)), whole(written_out(y)))
        np.testing.assert_array_equal(whole(written_out(result)), exact)


@pytest.mark.parametrize("shape", [(3, 1), (1, 2), (3, 2)])
@given(data=st.data())
def test_part_of_a_value_depends_on_rows_or_columns_as_the_value_does(
    shape: tuple[int, int], data: st.DataObject
) -> None:
    size = shape[0] * shape[1]
    flags = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    condition = np.array(flags).reshape(shape)
    if condition.all() or not condition.any():
        return
    full = np.broadcast_to(condition, (3, 2))
    pick = pick_where(condition)
    for value in (np.arange(6), np.arange(3)[:, None], np.arange(2)[None, :]):
        array = value.reshape(3, 2) if value.ndim == 1 else value
        part = np.broadcast_to(pick.take(array), pick.shape((3, 2)))
        expected = np.broadcast_to(array, (3, 2))[full]
        np.testing.assert_array_equal(part.reshape(-1), expected)


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_programs_agree_where_all_of_them_say_the_same(flags: list[bool]) -> None:
    said = set(flags)
    assert agreed(np.array(flags)[:, None]) is (None if len(said) == 2 else flags[0])
    assert agreed(np.bool_(flags[0])) is flags[0]


@pytest.mark.parametrize("predicate", sorted(COMPARISONS))
@given(x=affine_lanes((8,)), base=numbers)
def test_lanes_compared_with_a_number_equal_lanes_compared_one_by_one(
    predicate: str, x: Affine, base: int
) -> None:
    bound = Affine(np.int32(base), (0,), (8,))
    with np.errstate(all="ignore"):
        mask = compared(predicate, x, bound)
        exact = COMPARISONS[predicate](whole(written_out(x)), np.int32(base))
        if mask is not None:
            np.testing.assert_array_equal(whole(written_out(mask)), exact)
