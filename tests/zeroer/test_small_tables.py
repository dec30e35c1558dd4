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
def small_limits(single: int, most_x: int, most_y: int) -> Iterator[None]:
    """Make rows of many chunks, and launches, begin at a few chunks."""
    with (
        mock.patch.object(chunks, "MAX_SINGLE_CHUNKS", single),
        mock.patch.object(chunks, "ROW_SHIFTS", (2, 4)),
        mock.patch.object(plan, "MOST_X", most_x),
        mock.patch.object(plan, "MOST_Y", most_y),
    ):
        plan.plan_launches.cache_clear()
        yield
    plan.plan_launches.cache_clear()


@st.composite
def packed_cases(draw: st.DrawFn) -> Case:
    """Draw blocks of a few pages of up to thirty chunks, with odd sizes and gaps."""
    num_blocks = draw(st.integers(1, 4), label="num_blocks")
    runs, at = [], draw(st.integers(0, 20), label="offset")
    pages = st.integers(1, 40) | st.integers(0, 30).flatmap(
        lambda n: st.integers(max(1, 4096 * n - 20), 4096 * n + 20)
    )
    sizes = draw(st.lists(pages, min_size=1, max_size=3), label="pages")
    gaps = draw(st.lists(st.sampled_from([0, 1, 5, 16, 112]), min_size=4, max_size=4))
    stride = at + sum(sizes) + sum(gaps)
    for size, gap in zip(sizes, gaps):
        runs.append(Run(size, stride, at))
        at += size + gap
    layout = Layout(num_blocks, (Allocation(stride * num_blocks),), tuple(runs))
    ids = draw(st.lists(st.integers(0, num_blocks - 1), max_size=5), label="ids")
    on_device = draw(st.booleans(), label="on the device")
    bad = [-1, num_blocks, 2**40, -(2**40)]
    if on_device:  # such ids cannot be refused by the host, and write nothing
        ids += draw(st.lists(st.sampled_from(bad), max_size=2), label="bad ids")
    call = Call(id_runs(ids), "device" if on_device else "list")
    return Case(layout, (call,), PLATFORM)


@pytest.mark.slow
@given(
    packed_cases(),
    st.sampled_from([(2**20, 2**24), (0, 2**24), (2, 2**24), (3, 64), (2**20, 5)]),
    st.sampled_from([2, 3, 2**16 - 1]),
)
@settings(max_examples=40)
def test_small_tables_and_launches_zero_exactly_the_listed_pages(
    footprint: Executor, case: Case, limits: tuple[int, int], most_y: int
) -> None:
    with small_limits(*limits, most_y):
        seen = footprint.run(KVZERO, case)
    results = judge(case, seen, KVZERO.contract)
    broken = [result for result in results if isinstance(result, Broken)]
    assert broken == []
