"""Launch limits: both sides of every row, and the order in which they are met."""

from ctypes import c_int32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.limits import (
    LIMITS,
    LaunchShape,
    broken_limits,
    launch_fate,
    wrapped_int32,
)

INT32 = 2**31 - 1
BOTH_SIDES = {
    "launcher-int32": (LaunchShape((INT32, 1, 1)), LaunchShape((INT32 + 1, 1, 1))),
    "nvidia-product": (
        LaunchShape((32768, 256, 255)),
        LaunchShape((32768, 256, 256)),
    ),
    "amd-product": (
        LaunchShape((65536, 65535, 1)),
        LaunchShape((65536, 65536, 1)),
    ),
    "cuda-x": (
        LaunchShape((2**30 - 1, 1, 1), num_ctas=2),
        LaunchShape((2**30, 1, 1), num_ctas=2),
    ),
    "cuda-y": (LaunchShape((1, 65535, 1)), LaunchShape((1, 65536, 1))),
    "cuda-z": (LaunchShape((1, 1, 65535)), LaunchShape((1, 1, 65536))),
    "hip-work-items": (
        LaunchShape((16_777_215, 1, 1), num_warps=4),
        LaunchShape((16_777_216, 1, 1), num_warps=4),
    ),
    "hip-y": (LaunchShape((1, 65535, 1)), LaunchShape((1, 65536, 1))),
    "hip-z": (LaunchShape((1, 1, 65535)), LaunchShape((1, 1, 65536))),
}


def names(shape: LaunchShape) -> list[str]:
    return [limit.name for limit in broken_limits(shape)]


@pytest.mark.parametrize("name", [limit.name for limit in LIMITS])
def test_each_row_holds_up_to_its_threshold_and_no_further(name: str) -> None:
    inside, outside = BOTH_SIDES[name]
    assert name not in names(inside)
    assert name in names(outside)


def test_no_row_is_untested() -> None:
    assert list(BOTH_SIDES) == [limit.name for limit in LIMITS]


@pytest.mark.parametrize(
    ("grid", "cuda", "hip"),
    [
        ((1, 1, 1), "runs", "runs"),
        ((6870, 181, 10), "runs", "runs"),
        ((32768, 256, 255), "runs", "runs"),
        ((32768, 256, 256), "skipped", "runs"),
        ((6870, 181, 2336), "skipped", "runs"),
        ((6870, 181, 1728), "skipped", "runs"),
        ((65536, 65536, 1), "skipped", "skipped"),
        ((131072, 32769, 1), "runs", "runs"),
        ((1, 65536, 1), "rejected", "runs"),
        ((1, 1, 65536), "rejected", "runs"),
        ((2**31, 1, 1), "rejected", "rejected"),
        ((2**24, 1, 1), "runs", "rejected"),
        ((0, 1, 1), "runs", "runs"),
    ],
)
def test_a_launch_meets_the_fate_that_was_seen(
    grid: tuple[int, int, int], cuda: str, hip: str
) -> None:
    shape = LaunchShape(grid)
    assert launch_fate(shape, "cuda")[0] == cuda
    assert launch_fate(shape, "hip")[0] == hip


def test_a_skip_is_reported_before_an_over_wide_dimension() -> None:
    shape = LaunchShape((65536, 65536, 1))
    assert names(shape) == ["nvidia-product", "amd-product", "cuda-y", "hip-y"]
    _, limit = launch_fate(shape, "cuda")
    assert limit is not None
    assert limit.name == "nvidia-product"


def test_a_dimension_that_the_launcher_cannot_parse_comes_first() -> None:
    _, limit = launch_fate(LaunchShape((2**32, 1, 1)), "cuda")
    assert limit is not None
    assert limit.name == "launcher-int32"


def test_a_cost_never_decides_a_fate() -> None:
    assert names(LaunchShape((1, 65536, 1))) == ["cuda-y", "hip-y"]
    assert launch_fate(LaunchShape((1, 65536, 1)), "hip") == ("runs", None)


@pytest.mark.parametrize(("warps", "most"), [(1, 2**26 - 1), (8, 2**23 - 1)])
def test_work_items_count_warps(warps: int, most: int) -> None:
    assert "hip-work-items" not in names(LaunchShape((most, 1, 1), warps))
    assert "hip-work-items" in names(LaunchShape((most + 1, 1, 1), warps))


@given(st.integers(-(2**70), 2**70))
@example(2**31 - 1)
@example(2**31)
@example(-(2**31) - 1)
def test_wrapping_is_that_of_c(value: int) -> None:
    assert wrapped_int32(value) == c_int32(value & 0xFFFFFFFF).value


dimensions = st.one_of(
    st.integers(0, 70_000),
    st.integers(0, 32).flatmap(lambda bits: st.integers(2**bits - 1, 2**bits + 1)),
)


@given(st.tuples(dimensions, dimensions, dimensions), st.sampled_from(["cuda", "hip"]))
def test_a_launch_runs_exactly_if_no_row_of_its_platform_stops_it(
    grid: tuple[int, int, int], backend: str
) -> None:
    shape = LaunchShape(grid)
    stopping = [
        limit
        for limit in broken_limits(shape)
        if limit.platform in ("any", backend) and limit.effect != "cost"
    ]
    fate, limit = launch_fate(shape, backend)
    assert (fate == "runs") == (not stopping)
    assert limit == (stopping[0] if stopping else None)


@given(st.tuples(dimensions, dimensions, dimensions))
def test_on_cuda_a_launch_that_runs_has_a_positive_wrapped_product(
    grid: tuple[int, int, int],
) -> None:
    shape = LaunchShape(grid)
    if launch_fate(shape, "cuda")[0] == "runs" and shape.programs:
        assert c_int32(shape.programs & 0xFFFFFFFF).value > 0
        assert max(grid[1:]) <= 65535
