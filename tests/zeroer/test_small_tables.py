"""The kernel on tables and launches that only gigabytes would need, made small.

Rows of many chunks, and calls that take several launches, are met where blocks have
gigabytes of pages: far more programs than can be evaluated. Here the limits are a few
chunks, so that small cases are full of both, and the footprint judges each byte.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.case import Call, Case, id_runs
from kvzero.executors import Executor, executor_named
from kvzero.layout import Allocation, Layout, Run
from kvzero.properties import Broken, judge
from kvzero.subjects.ours import KVZERO
from kvzero.zeroer import chunks, plan

MOST_PROGRAMS = 3_000
PLATFORM = "cuda:90"


@pytest.fixture(scope="module")
def footprint() -> Executor:
    return executor_named("footprint", max_programs=MOST_PROGRAMS)


@contextmanager
def small_limits(
    most_rows: int, most_x: int, most_y: int, fewest: int
) -> Iterator[None]:
    """Make a few chunks need rows of many, further launches, several of a program."""
    with (
        mock.patch.object(chunks, "MAX_ROWS", most_rows),
        mock.patch.object(chunks, "ROW_WIDTHS", (1, 4, 16)),
        mock.patch.object(plan, "MOST_X", most_x),
        mock.patch.object(plan, "MOST_Y", most_y),
        mock.patch.object(plan, "FEWEST_PROGRAMS", fewest),
    ):
        plan.plan_launches.cache_clear()
        yield
    plan.plan_launches.cache_clear()


PAGES = (
    st.integers(1, 40)
    | st.integers(4_050, 6_200)
    | st.integers(0, 30).flatmap(
        lambda n: st.integers(max(1, 4096 * n - 20), 4096 * n + 20)
    )
)
GAPS = st.lists(st.sampled_from([0, 1, 5, 16, 112]), min_size=4, max_size=4)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw blocks of a few pages of up to thirty chunks, with odd sizes and gaps."""
    num_blocks = draw(st.integers(1, 4), label="num_blocks")
    sizes = draw(st.lists(PAGES, min_size=1, max_size=3), label="pages")
    gaps, at = draw(GAPS, label="gaps"), draw(st.integers(0, 20), label="offset")
    if draw(st.booleans(), label="apart"):
        strides = [at + size + gap for size, gap in zip(sizes, gaps)]
        apart = [
            Run(*sizes_of, at, i) for i, sizes_of in enumerate(zip(sizes, strides))
        ]
        room = tuple(Allocation(stride * num_blocks) for stride in strides)
        return Layout(num_blocks, room, tuple(apart))
    runs, stride = [], at + sum(sizes) + sum(gaps)
    for size, gap in zip(sizes, gaps):
        runs.append(Run(size, stride, at))
        at += size + gap
    return Layout(num_blocks, (Allocation(stride * num_blocks),), tuple(runs))


@st.composite
def small_cases(draw: st.DrawFn) -> Case:
    """Draw a call with a list of up to twenty ids."""
    layout = draw(layouts())
    num_blocks = layout.num_blocks
    ids = draw(st.lists(st.integers(0, num_blocks - 1), max_size=20), label="ids")
    on_device = draw(st.booleans(), label="on the device")
    bad = [-1, num_blocks, 2**40, -(2**40)]
    if on_device:  # such ids cannot be refused by the host, and write nothing
        ids += draw(st.lists(st.sampled_from(bad), max_size=2), label="bad ids")
    call = Call(id_runs(ids), "device" if on_device else "list")
    return Case(layout, (call,), PLATFORM)


@pytest.mark.slow
@given(
    small_cases(),
    st.sampled_from([(2**20, 2**24), (0, 2**24), (2, 2**24), (3, 64), (2**20, 5)]),
    st.sampled_from([2, 3, 2**16 - 1]),
    st.sampled_from([1, 4, 768]),
)
@settings(max_examples=40)
def test_small_tables_and_launches_zero_exactly_the_listed_pages(
    footprint: Executor,
    case: Case,
    limits: tuple[int, int],
    most_y: int,
    fewest: int,
) -> None:
    with small_limits(*limits, most_y, fewest):
        seen = footprint.run(KVZERO, case)
    results = judge(case, seen, KVZERO.contract)
    broken = [result for result in results if isinstance(result, Broken)]
    assert broken == []


@pytest.mark.parametrize("most_y", [2, 2**16 - 1])
@pytest.mark.parametrize("n_blocks", [1, 2, 7, 8, 9, 20, 23])
def test_programs_of_several_blocks_zero_each_of_them(
    footprint: Executor, n_blocks: int, most_y: int
) -> None:
    layout = Layout(30, (Allocation(64 * 30),), (Run(40, 64, 3),))
    ids = [(7 * i) % 30 for i in range(n_blocks)]
    case = Case(layout, (Call(id_runs(ids), "device"),), PLATFORM)
    with small_limits(2**20, 2**24, most_y, fewest=1):
        seen = footprint.run(KVZERO, case)
    grids = [launch.shape.grid for launch in seen.launches[1:]]  # after the warm-up
    assert sum(grid[1] for grid in grids) == -(-n_blocks // min(8, n_blocks))
    assert len(grids) == (2 if n_blocks > 16 and most_y == 2 else 1)
    results = judge(case, seen, KVZERO.contract)
    assert [result for result in results if isinstance(result, Broken)] == []
