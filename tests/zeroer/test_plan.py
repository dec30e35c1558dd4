"""The plan is the whole box of rows, chunks and blocks, within every launch limit."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.limits import LIMITS, Grid, LaunchShape, broken_limits
from kvzero.zeroer import KVBlockZeroer
from kvzero.zeroer.chunks import CHUNK_BYTES, WIDEST_ROW, ChunkGroup
from kvzero.zeroer.plan import (
    FEWEST_PROGRAMS,
    MOST_EACH,
    MOST_PROGRAMS,
    MOST_X,
    MOST_Y,
    NUM_WARPS,
    PROGRAM_BYTES,
    blocks_of_a_program,
    plan_launches,
)

counts = st.integers(0, 40).flatmap(lambda e: st.integers(0, 2**e))


@st.composite
def group_lists(draw: st.DrawFn) -> tuple[ChunkGroup, ...]:
    """Draw neighbouring groups of rows."""
    groups = [ChunkGroup(0, 0, draw(st.integers(1, 2**24 + 2)), 1)]
    for width in sorted(draw(st.sets(st.integers(2, WIDEST_ROW), max_size=3))):
        groups.append(groups[-1].next(draw(st.integers(1, 2**12)), width))
    return tuple(groups[draw(st.integers(0, len(groups) - 1)) :])


def work(n_blocks: int, groups: tuple[ChunkGroup, ...]) -> int:
    return n_blocks * sum(group.chunks for group in groups)


@given(st.integers(0, 2**26), group_lists(), st.booleans(), st.integers(1, 8))
@example(1, (ChunkGroup(0, 0, MOST_X, 1),), True, 1)
@example(1, (ChunkGroup(0, 0, MOST_X + 1, 1),), True, 1)
@example(1, (ChunkGroup(0, 0, MOST_Y + 1, 1),), False, 1)
@example(MOST_X + 1, (ChunkGroup(0, 0, 1, 1),), False, 1)
@example(2 * MOST_X + 1, (ChunkGroup(0, 0, 1, 1),), False, 2)
@example(MOST_Y + 1, (ChunkGroup(0, 0, 1, 1),), True, 1)
@example(MOST_Y, (ChunkGroup(0, 0, 2**15 + 1, 1),), True, 1)
@example(2**15 + 1, (ChunkGroup(0, 0, MOST_Y, 1),), False, 1)
@example(MOST_Y + 1, (ChunkGroup(0, 0, 1, 2),), False, 1)
@example(1, (ChunkGroup(0, 0, MOST_Y + 1, 2),), True, 1)
@example(1, (ChunkGroup(3, 3, MOST_Y + 5, 2),), True, 1)
@example(1, (ChunkGroup(0, 0, 2**13, WIDEST_ROW),), True, 1)
@example(2**13, (ChunkGroup(0, 0, 1, WIDEST_ROW),), True, 1)
def test_launches_fit_every_limit_and_make_the_whole_box(
    n_blocks: int, groups: tuple[ChunkGroup, ...], rows_inside: bool, each: int
) -> None:
    n_blocks = min(n_blocks, 2000 * MOST_X // work(1, groups))
    launches = plan_launches(
        n_blocks, groups, rows_inside=rows_inside, blocks_each=each
    )
    for launch in launches:
        assert not broken_limits(LaunchShape(launch.grid, launch.num_warps))
        (group,) = (
            g for g in groups if launch.chunks.start - g.first_chunk in range(g.chunks)
        )
        row, rest = divmod(launch.chunks.start - group.first_chunk, group.width)
        assert (launch.first_row, rest) == (group.first_row + row, 0)
        assert (launch.row_chunks, launch.blocks_each) == (group.width, each)
        sizes = [len(launch.chunks) // group.width, -(-len(launch.blocks) // each)]
        assert len(launch.chunks) % group.width == 0
        assert launch.rows_inside == rows_inside
        axes = sizes if rows_inside else sizes[::-1]
        assert [*launch.grid] == (
            [*axes, 1] if group.width == 1 else [group.width, *axes]
        )
        assert launch.programs == group.width * sizes[0] * sizes[1] > 0
    assert work(n_blocks, groups) == sum(
        len(launch.blocks) * len(launch.chunks) for launch in launches
    )
    parts = sorted(
        (p.chunks.start, p.blocks.start, p.chunks.stop, p.blocks.stop) for p in launches
    )
    for (chunk, block, last_chunk, last_block), after in pairwise(parts):
        assert after[:2] == (
            (chunk, last_block) if last_block < n_blocks else (last_chunk, 0)
        ), "launches leave nothing between them"
        assert block < last_block


@given(st.integers(1, 2**18), st.integers(1, 2**18), st.booleans(), st.integers(1, 8))
@example(1, 2**26 - 1, True, 1)
@example(2**26 - 1, 1, False, 8)
def test_launches_are_as_few_as_whole_blocks_allow(
    n_programs: int, n_rows: int, rows_inside: bool, each: int
) -> None:
    launches = plan_launches(
        n_programs * each,
        (ChunkGroup(0, 0, n_rows, 1),),
        rows_inside=rows_inside,
        blocks_each=each,
    )
    outer = n_programs if rows_inside else n_rows
    inner = n_rows if rows_inside else n_programs
    at_once = min(MOST_Y, MOST_PROGRAMS // inner)
    assert len(launches) <= 2 * -(-outer // at_once)
    if n_programs * n_rows <= MOST_PROGRAMS and outer <= MOST_Y:
        assert len(launches) == 1


@given(st.integers(1, MOST_Y), st.integers(1, MOST_Y), st.integers(2, WIDEST_ROW))
def test_rows_of_many_chunks_are_one_launch_within_the_limits(
    n_blocks: int, n_rows: int, width: int
) -> None:
    n_blocks = min(n_blocks, max(1, MOST_PROGRAMS // (n_rows * width)))
    groups = (ChunkGroup(0, 0, n_rows, width),)
    if n_rows * width <= MOST_PROGRAMS:
        assert len(plan_launches(n_blocks, groups, rows_inside=True)) == 1


@pytest.mark.parametrize("each", [1, 2, 8])
def test_more_blocks_a_program_make_longer_launches(each: int) -> None:
    groups = (ChunkGroup(0, 0, 1, 1),)
    for n_blocks, launches in ((each * MOST_X, 1), (each * MOST_X + 1, 2)):
        planned = plan_launches(n_blocks, groups, rows_inside=False, blocks_each=each)
        assert len(planned) == launches


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**30), st.integers(1, CHUNK_BYTES))
@example(16_384, 122, 642)
@example(512, 64, 2048)
def test_programs_of_short_chunks_take_several_blocks_but_leave_no_gpu_idle(
    n_blocks: int, num_chunks: int, chunk_bytes: int
) -> None:
    each = blocks_of_a_program(n_blocks, num_chunks, num_chunks * chunk_bytes)
    assert 1 <= each <= MOST_EACH
    if each > 1:
        assert (each - 1) * chunk_bytes < PROGRAM_BYTES
        assert n_blocks * num_chunks >= each * FEWEST_PROGRAMS
    if chunk_bytes >= PROGRAM_BYTES or n_blocks * num_chunks < 2 * FEWEST_PROGRAMS:
        assert each == 1
    assert (
        each == MOST_EACH
        or each * chunk_bytes >= PROGRAM_BYTES
        or n_blocks * num_chunks < (each + 1) * FEWEST_PROGRAMS
    ), "one block more would still do"


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
