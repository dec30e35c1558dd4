"""Layouts: expansion of runs, bounds, overlaid segments, and what is refused."""

from itertools import product, zip_longest
from time import perf_counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.errors import LayoutError
from kvzero.layout import (
    MAX_SEGMENTS,
    Allocation,
    Axis,
    Layout,
    Run,
    Segment,
    SegmentTable,
    Tile,
    expand_runs,
    widest_per_address,
)

axes = st.lists(
    st.builds(Axis, st.integers(1, 4), st.integers(-9, 9), st.integers(0, 3)),
    max_size=3,
).map(tuple)
runs = st.builds(
    Run,
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 9),
    st.integers(0, 3),
    axes,
    st.booleans(),
)


def segments_of(run: Run) -> list[Segment]:
    """Expand one run the slow way."""
    return [
        Segment(
            run.allocation
            + sum(i * axis.step_allocations for i, axis in zip(at, run.axes)),
            run.offset_bytes
            + sum(i * axis.step_bytes for i, axis in zip(at, run.axes)),
            run.stride_bytes,
            run.page_bytes,
        )
        for at in product(*(range(axis.count) for axis in run.axes))
    ]


def expand_slowly(all_runs: list[Run]) -> list[Segment]:
    groups: list[list[list[Segment]]] = []
    for index, run in enumerate(all_runs):
        if run.interleaved and index:
            groups[-1].append(segments_of(run))
        else:
            groups.append([segments_of(run)])
    return [
        segment
        for group in groups
        for row in zip_longest(*group)
        for segment in row
        if segment is not None
    ]


def rows(table: SegmentTable) -> list[Segment]:
    return [table.segment(index) for index in range(len(table))]


@given(st.lists(runs, max_size=5))
@example([Run(8, 16), Run(4, 16, 8, axes=(Axis(2, 1),), interleaved=True)])
@example([Run(8, 16, interleaved=True)])
def test_runs_expand_in_table_order(all_runs: list[Run]) -> None:
    table = expand_runs(tuple(all_runs))
    assert rows(table) == expand_slowly(all_runs)
    assert len(table) == sum(run.segments for run in all_runs)
    assert {column.dtype for column in table} == {np.dtype(np.int64)}


def test_interleaved_runs_alternate_until_the_shorter_ends() -> None:
    wide = Run(8, 64, axes=(Axis(3, 16),))
    narrow = Run(2, 64, 8, axes=(Axis(2, 16),), interleaved=True)
    table = expand_runs((wide, narrow, Run(1, 64, 60)))
    assert table.offset_bytes.tolist() == [0, 8, 16, 24, 32, 60]
    assert table.page_bytes.tolist() == [8, 2, 8, 2, 8, 1]


@given(
    st.lists(
        st.builds(
            Segment,
            st.integers(0, 1),
            st.integers(0, 3),
            st.just(64),
            st.integers(1, 9),
        ),
        max_size=12,
    )
)
def test_one_segment_per_address_keeps_the_first_place_and_the_widest_page(
    segments: list[Segment],
) -> None:
    columns = np.array(segments, np.int64).reshape(-1, 4).T
    widest: dict[tuple[int, int], Segment] = {}
    for segment in segments:
        known = widest.setdefault(segment[:2], segment)
        page = max(known.page_bytes, segment.page_bytes)
        widest[segment[:2]] = known._replace(page_bytes=page)
    assert rows(widest_per_address(SegmentTable(*columns))) == list(widest.values())


def test_overlaid_segments_must_agree_on_their_stride() -> None:
    with pytest.raises(LayoutError, match="segments 0 and 2 begin at one address with"):
        Layout(
            1,
            (Allocation(64),),
            (Run(8, 16), Run(8, 16, 32), Run(8, 32)),
            widest_per_address=True,
        )


def test_overlaid_groups_are_one_table() -> None:
    groups = (Run(8, 64, axes=(Axis(3, 16),)), Run(12, 64, axes=(Axis(2, 16),)))
    layout = Layout(4, (Allocation(256),), groups, widest_per_address=True)
    assert layout.table.page_bytes.tolist() == [12, 12, 8]


def test_allocations_may_come_in_equal_pieces() -> None:
    pieces = (Allocation(32, 2), Allocation(8), Allocation(16, 3))
    layout = Layout(2, pieces, (Run(8, 8, axes=(Axis(6, 0, 1),)),)[:0])
    assert layout.num_allocations == 6
    assert layout.allocation_sizes.tolist() == [32, 32, 8, 16, 16, 16]


def test_a_layout_may_hold_nothing() -> None:
    layout = Layout(0, (), ())
    assert len(layout.table) == layout.num_allocations == 0


def test_segments_of_no_blocks_need_no_room() -> None:
    assert len(Layout(0, (Allocation(1),), (Run(8, 16, 99),)).table) == 1


@given(st.data())
def test_a_layout_is_refused_exactly_if_a_page_leaves_its_allocation(
    data: st.DataObject,
) -> None:
    size = data.draw(st.integers(1, 64), label="size")
    num_blocks = data.draw(st.integers(1, 4), label="num_blocks")
    run = Run(
        data.draw(st.integers(1, 8), label="page"),
        data.draw(st.integers(8, 16), label="stride"),
        data.draw(st.integers(0, 64), label="offset"),
    )
    end = run.offset_bytes + (num_blocks - 1) * run.stride_bytes + run.page_bytes
    if end <= size:
        assert len(Layout(num_blocks, (Allocation(size),), (run,)).table) == 1
    else:
        with pytest.raises(LayoutError, match=f"to {end} of allocation 0"):
            Layout(num_blocks, (Allocation(size),), (run,))


REFUSED = [
    (lambda: Allocation(0), "size_bytes=0, but must be an int from 1 to"),
    (lambda: Allocation(8, 0), "count=0, but must"),
    (lambda: Axis(0), "count=0, but must be an int from 1"),
    (lambda: Axis(2, 2**46 + 1), "step_bytes=70368744177665, but"),
    (lambda: Axis(2, 0, -1), "step_allocations=-1, but"),
    (lambda: Run(0, 8), "page_bytes=0, but must"),
    (lambda: Run(8, 0), "stride_bytes=0, but must"),
    (lambda: Run(8, 8, -1), "offset_bytes=-1, but must"),
    (lambda: Run(8, 8, 0, -1), "allocation=-1, but must"),
    (lambda: Run(True, 8), "page_bytes=True, but must be an int"),
    (lambda: Run(8.0, 8), "page_bytes=8.0, but must be an int"),  # type: ignore[arg-type]  # the refusal under test
    (lambda: Tile(8, 0), "count=0, but must"),
    (lambda: Tile(2**40, 2**40), "bytes from the first tile to the last="),
    (lambda: Layout(-1, (), ()), "num_blocks=-1, but must"),
    (
        lambda: Layout(1, (Allocation(8),), (Run(8, 8, 0, 1),)),
        r"segment 0: allocation=1, but must be in range\(1\)",
    ),
    (
        lambda: Layout(1, (Allocation(8),), (Run(8, 8, axes=(Axis(2, -8),)),)),
        "segment 1: bytes -8 to 0 of allocation 0, but must lie within its 8 B",
    ),
    (
        lambda: Layout(2**40, (Allocation(8),), (Run(8, 2**30),)),
        "segment 0: block 1099511627775 lies beyond",
    ),
    (
        lambda: Layout(1, (), (Run(1, 1, axes=(Axis(MAX_SEGMENTS),) * 3),)),
        "segments of all runs=73786976294838206464, but must",
    ),
    (lambda: Layout(1, (Allocation(8, 2**20),) * 2, ()), "allocations=2097152, but"),
    (lambda: Layout(1, (Allocation(2**46, 3),), ()), "bytes of all allocations=2111"),
    (
        lambda: Layout(2, (Allocation(64),), (Run(17, 16),)),
        "block 0 of segment 0 and block 1 of segment 0 share byte 16 of allocation 0",
    ),
    (
        lambda: Layout(3, (Allocation(64),), (Run(8, 8), Run(8, 8, 8))),
        "block . of segment . and block . of segment . share byte",
    ),
    (
        lambda: Layout(1, (Allocation(8),), (), (Tile(8, 1, 0, 1),)),
        r"tiles\[0\]: a block begins outside its allocation",
    ),
    (
        lambda: Layout(1, (Allocation(8),), (), (Tile(8, 1), Tile(8, 2))),
        r"tiles\[1\]: a block begins outside its allocation",
    ),
    (
        lambda: Layout(1, (Allocation(8),), (), (Tile(1, 1, axes=(Axis(2**12),) * 2),)),
        "tiles with their axes=16777216, but must",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_no_memory_could_have_is_refused(make, message) -> None:  # type: ignore[no-untyped-def]  # one table of lambdas
    with pytest.raises(LayoutError, match=message):
        make()


def test_an_overlap_names_both_pages() -> None:
    with pytest.raises(LayoutError) as caught:
        Layout(4, (Allocation(400),), (Run(16, 64), Run(40, 64, 100)))
    assert str(caught.value) == (
        "block 0 of segment 1 and block 2 of segment 0 share byte 128 of allocation 0, "
        "but pages of different blocks must be disjoint"
    )


def test_a_tile_may_stick_out_at_the_end() -> None:
    layout = Layout(2, (Allocation(24),), (Run(8, 16),), (Tile(16, 2),))
    assert layout.tiles[0].count == 2


def heads_outside_blocks() -> float:
    """Build the table of 65,536 segments from one run; return the seconds."""
    start = perf_counter()
    plane = 150 * 2**20
    run_axes = (Axis(32, 32 * plane), Axis(32, plane), Axis(64, 16384))
    run = Run(16384, 2**20, axes=run_axes)
    layout = Layout(150, (Allocation(1024 * plane),), (run,))
    assert len(layout.table) == 65_536
    return perf_counter() - start


def test_65536_segments_are_one_run_and_quickly_checked() -> None:
    assert min(heads_outside_blocks() for _ in range(2)) < 1
