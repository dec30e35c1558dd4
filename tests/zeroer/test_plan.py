"""The plan is the whole rectangle of blocks and chunks, within every launch limit."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.limits import LIMITS, Grid, LaunchShape, broken_limits
from kvzero.zeroer import KVBlockZeroer
from kvzero.zeroer.chunks import ChunkGroup
from kvzero.zeroer.plan import (
    MOST_PROGRAMS,
    MOST_X,
    MOST_Y,
    NUM_WARPS,
    plan_launches,
)

counts = st.integers(0, 40).flatmap(lambda e: st.integers(0, 2**e))


@st.composite
def group_lists(draw: st.DrawFn) -> tuple[ChunkGroup, ...]:
    """Draw neighbouring groups of rows."""
    groups = [ChunkGroup(0, 0, draw(st.integers(1, 2**24 + 2)), 0)]
    for shift in sorted(draw(st.sets(st.integers(1, 18), max_size=3))):
        groups.append(groups[-1].next(draw(st.integers(1, 2**12)), shift))
    return tuple(groups)


def work(n_blocks: int, groups: tuple[ChunkGroup, ...]) -> int:
    return n_blocks * sum(group.chunks for group in groups)


@given(st.integers(0, 2**26), group_lists(), st.booleans())
@example(1, (ChunkGroup(0, 0, MOST_X, 0),), True)
@example(1, (ChunkGroup(0, 0, MOST_X + 1, 0),), True)
@example(1, (ChunkGroup(0, 0, MOST_Y + 1, 0),), False)
@example(MOST_X + 1, (ChunkGroup(0, 0, 1, 0),), False)
@example(MOST_Y + 1, (ChunkGroup(0, 0, 1, 0),), True)
@example(MOST_Y, (ChunkGroup(0, 0, 2**15 + 1, 0),), True)
@example(2**15 + 1, (ChunkGroup(0, 0, MOST_Y, 0),), False)
def test_launches_fit_every_limit_and_make_the_whole_rectangle(
    n_blocks: int, groups: tuple[ChunkGroup, ...], chunks_inside: bool
) -> None:
    n_blocks = min(n_blocks, 2000 * MOST_X // work(1, groups))
    launches = plan_launches(n_blocks, groups, chunks_inside=chunks_inside)
    for launch in launches:
        assert not broken_limits(LaunchShape(launch.grid, launch.num_warps))
        assert launch.programs > 0
        (group,) = (
            g for g in groups if launch.chunks.start - g.first_chunk in range(g.chunks)
        )
        row, rest = divmod(launch.chunks.start - group.first_chunk, 2**group.shift)
        assert (launch.first_row, rest) == (group.first_row + row, 0)
        assert launch.row_shift == group.shift
        assert launch.chunks_inside == (chunks_inside or group.shift > 0)
        sizes = (len(launch.chunks), len(launch.blocks))
        assert launch.grid == (*(sizes if launch.chunks_inside else sizes[::-1]), 1)
    assert sum(launch.programs for launch in launches) == work(n_blocks, groups)
    parts = sorted(
        (p.chunks.start, p.blocks.start, p.chunks.stop, p.blocks.stop) for p in launches
    )
    for (chunk, block, last_chunk, last_block), after in pairwise(parts):
        assert after[:2] == (
            (chunk, last_block) if last_block < n_blocks else (last_chunk, 0)
        ), "launches leave nothing between them"
        assert block < last_block


@given(st.integers(1, 2**18), st.integers(1, 2**18), st.booleans())
def test_launches_are_as_few_as_whole_blocks_allow(
    n_blocks: int, n_chunks: int, chunks_inside: bool
) -> None:
    launches = plan_launches(
        n_blocks, (ChunkGroup(0, 0, n_chunks, 0),), chunks_inside=chunks_inside
    )
    outer = n_blocks if chunks_inside else n_chunks
    inner = n_chunks if chunks_inside else n_blocks
    at_once = min(MOST_Y, MOST_PROGRAMS // inner)
    assert len(launches) <= 2 * -(-outer // at_once)
    if n_blocks * n_chunks <= MOST_PROGRAMS and outer <= MOST_Y:
        assert len(launches) == 1


@pytest.mark.parametrize(
    ("grid", "limit"),
    [
        ((MOST_X + 1, 1, 1), "hip-work-items"),
        ((1, MOST_Y + 1, 1), "cuda-y"),
        ((2**16, 2**15, 1), "nvidia-product"),
    ],
)
def test_one_more_program_would_break_a_limit(grid: Grid, limit: str) -> None:
    broken = {limit.name for limit in broken_limits(LaunchShape(grid, NUM_WARPS))}
    assert limit in broken
    assert (MOST_X, MOST_Y, MOST_PROGRAMS) == (67_108_863, 65_535, 2**31 - 1)


def test_seed_geometry_is_one_launch_of_its_chunks() -> None:
    pages = [9344 * 4, 292 * 4] * 91
    addresses = [2**30 * i for i in range(181)]
    zeroer = KVBlockZeroer.from_segments(
        addresses, [40_000] * 181, pages[:181], 6870, "cpu"
    )
    (launch,) = zeroer.plan(6870)
    # 91 pages of 37,376 B are 10 chunks each, 90 of 1,168 B one.
    assert launch.programs == 6870 * (91 * 10 + 90)
    assert launch.grid == (6870, 91 * 10 + 90, 1)


@pytest.mark.parametrize("segments", [0, 1])
def test_no_work_is_no_launch(segments: int) -> None:
    zeroer = KVBlockZeroer.from_segments(
        [0] * segments, [16] * segments, [8] * segments, 4, "cpu"
    )
    assert zeroer.plan(0) == ()
    assert bool(zeroer.plan(1)) == bool(segments)


def test_all_limits_are_known_here() -> None:  # sanity check
    assert {limit.effect for limit in LIMITS} == {"skipped", "rejected", "cost"}
