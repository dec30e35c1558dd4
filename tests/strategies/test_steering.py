import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.limits import LIMITS, LaunchLimit, LaunchShape
from kvzero.strategies.steering import closeness

ROWS = st.sampled_from(LIMITS)
SIDES = st.integers(1, 2**20)


@given(ROWS, st.tuples(SIDES, SIDES, SIDES))
def test_closeness_is_0_exactly_where_a_row_is_broken(
    limit: LaunchLimit, grid: tuple[int, int, int]
) -> None:
    shape = LaunchShape(grid)
    assert (closeness(limit, shape) == 0) == limit.breaks(shape)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_closeness_grows_towards_the_limit(limit: LaunchLimit) -> None:
    near, far = LaunchShape((2**13, 2**13, 2**4)), LaunchShape((2, 2, 2))
    assert closeness(limit, far) < closeness(limit, near) < 0


def test_closeness_counts_doublings() -> None:
    (row,) = (limit for limit in LIMITS if limit.name == "cuda-y")
    assert closeness(row, LaunchShape((1, 2**12, 1))) == -4
