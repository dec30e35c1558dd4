from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from kvzero.campaign.coverage import (
    Coverage,
    coverage_from_json,
    nearness,
    pairs,
    total_features,
)
from kvzero.limits import CUDA_MAX_YZ, LaunchShape, broken_limits
from kvzero.observation import Launch
from kvzero.strategies.features import FEATURES

names = st.frozensets(st.sampled_from(sorted(FEATURES)))
grids = st.tuples(*[st.integers(1, 2**33)] * 3)


def launch(grid: tuple[int, int, int]) -> Launch:
    return Launch(0, "zero", "kernels.py:1", LaunchShape(grid))


@given(st.lists(names, max_size=6))
def test_coverage_counts_each_feature_and_each_pair_once(
    cases: list[frozenset[str]],
) -> None:
    coverage = Coverage()
    for case in cases:
        coverage.add(Coverage(pairs(case)))
    together = {pair for case in cases for pair in combinations(sorted(case), 2)}
    assert coverage.names == sorted(frozenset().union(*cases))
    assert coverage.features == len(coverage.names) <= total_features()
    assert coverage.num_pairs == len(together)


@given(names, names)
def test_a_case_is_new_where_it_brings_a_pair_that_was_not_there(
    first: frozenset[str], second: frozenset[str]
) -> None:
    coverage = Coverage(pairs(first))
    assert coverage.add(Coverage(pairs(second))) is not (second <= first)
    assert not coverage.add(Coverage(pairs(second)))


@given(names, st.lists(grids, max_size=3))
def test_coverage_travels_as_plain_data(
    case: frozenset[str], launches: list[tuple[int, int, int]]
) -> None:
    coverage = Coverage(pairs(case), nearness(map(launch, launches)))
    assert coverage_from_json(coverage.as_json()) == coverage


@given(grids)
def test_a_launch_beyond_a_limit_is_not_near_it(grid: tuple[int, int, int]) -> None:
    near = nearness([launch(grid)])
    broken = {limit.name for limit in broken_limits(LaunchShape(grid))}
    assert ("y" not in near) == ("cuda-y" in broken)
    assert ("x" not in near) == ("cuda-x" in broken)
    assert ("work items" not in near) == ("hip-work-items" in broken)


def test_a_case_that_comes_nearer_to_a_limit_is_new() -> None:
    coverage = Coverage(0, nearness([launch((1, 1000, 1))]))
    assert not coverage.add(Coverage(0, nearness([launch((1, 900, 1))])))
    assert coverage.add(Coverage(0, nearness([launch((1, CUDA_MAX_YZ, 1))])))
