from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.limits import CUDA_MAX_YZ, INT32_MAX, LIMITS, LaunchShape
from kvzero.strategies import counts
from kvzero.strategies.counts import grid_of, limit_edges, spans
from kvzero.strategies.sampling import drawn, minimal


@given(st.data(), st.integers(1, 2**40), st.integers(0, 2**40))
def test_counts_stay_within_their_bounds(
    data: st.DataObject, low: int, more: int
) -> None:
    assert low <= data.draw(counts(min_value=low, max_value=low + more)) <= low + more


@pytest.mark.parametrize("threshold", [1, 2, 7, 1000, CUDA_MAX_YZ + 1, 123_456, 2**31])
def test_counts_shrink_exactly_to_a_threshold(threshold: int) -> None:
    assert minimal(counts(), lambda count: count >= threshold) == threshold


def test_counts_shrink_to_the_smallest_odd_one_above_a_threshold() -> None:
    assert minimal(counts(), lambda count: count > 5000 and count % 2 == 1) == 5001


@pytest.mark.slow
def test_counts_reach_both_sides_of_every_edge_of_the_limits() -> None:
    found = set(drawn(counts(), 2500))
    for edge in limit_edges():
        assert any(edge - 2 <= count < edge for count in found)
        assert any(edge <= count <= edge + 2 for count in found)


def test_counts_are_small_as_often_as_large() -> None:
    found = drawn(counts(max_value=2**20), 1000)
    assert sum(count <= 2**10 for count in found) > len(found) * 0.4
    assert sum(count > 2**10 for count in found) > len(found) * 0.2


def test_edges_are_the_first_numbers_that_break_a_row() -> None:
    def broken(programs: int) -> set[tuple[str, int]]:
        shapes = ((axis, LaunchShape(grid_of(programs, axis))) for axis in range(3))
        return {(r.name, axis) for axis, s in shapes for r in LIMITS if r.breaks(s)}

    assert {CUDA_MAX_YZ + 1, INT32_MAX + 1} <= set(limit_edges())
    for edge in limit_edges():
        assert broken(edge) - broken(edge - 1)


@given(st.integers(1, 2**40))
def test_a_close_span_follows_a_general_one_that_holds_it(max_value: int) -> None:
    found = spans(max_value)
    assert found[0] == (1, 1)
    assert found[-1].high == max_value
    for before, span in pairwise(found):
        assert span.low == 1 or (before.low == 1 and before.high >= span.high)
