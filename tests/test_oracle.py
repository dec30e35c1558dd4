"""The oracle against brute force: sets of bytes, one by one."""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero import oracle
from kvzero.case import Arrival, Call, Case, IdRun, id_runs
from kvzero.layout import Allocation, Axis, Layout, Run, Tile, View

Stretches = list[tuple[int, int]]
Algebra = Callable[[oracle.Intervals, oracle.Intervals], oracle.Intervals]
STRETCHES = st.lists(st.tuples(st.integers(-40, 60), st.integers(-2, 12)), max_size=12)


def intervals(stretches: Stretches) -> oracle.Intervals:
    starts = torch.tensor([s for s, _ in stretches], dtype=torch.int64)
    lengths = torch.tensor([n for _, n in stretches], dtype=torch.int64)
    return oracle.merge(starts, starts + lengths)


def bytes_of(stretches: Stretches) -> set[int]:
    return {b for start, length in stretches for b in range(start, start + length)}


def members(found: oracle.Intervals) -> set[int]:
    pairs = zip(found.starts.tolist(), found.ends.tolist())
    return {b for start, end in pairs for b in range(start, end)}


def assert_canonical(found: oracle.Intervals) -> None:
    assert (found.ends > found.starts).all()
    assert (found.starts[1:] > found.ends[:-1]).all()
    assert found.starts.dtype == found.ends.dtype == torch.int64


@given(STRETCHES)
def test_merged_stretches_hold_their_bytes(stretches: Stretches) -> None:
    found = intervals(stretches)
    assert_canonical(found)
    assert members(found) == bytes_of(stretches)
    assert found.total_bytes == len(bytes_of(stretches))


@pytest.mark.parametrize(
    ("algebra", "expected"),
    [
        (oracle.union, set.union),
        (oracle.subtract, set.difference),
        (oracle.intersect, set.intersection),
    ],
)
@given(first=STRETCHES, second=STRETCHES)
def test_algebra_of_intervals_is_that_of_sets(
    algebra: Algebra,
    expected: Callable[[set[int], set[int]], set[int]],
    first: Stretches,
    second: Stretches,
) -> None:
    found = algebra(intervals(first), intervals(second))
    assert_canonical(found)
    assert members(found) == expected(bytes_of(first), bytes_of(second))


@given(STRETCHES, st.integers(-99, 99))
def test_a_moved_set_has_every_byte_moved(stretches: Stretches, distance: int) -> None:
    found = intervals(stretches).moved(distance)
    assert members(found) == {byte + distance for byte in bytes_of(stretches)}


@given(STRETCHES, st.integers(-60, 80), st.integers(0, 40))
@example([(0, 9)], 4, 0)
def test_within_clips_to_a_window(
    stretches: Stretches, begin: int, length: int
) -> None:
    found = oracle.within(intervals(stretches), begin, begin + length)
    assert_canonical(found)
    assert members(found) == bytes_of(stretches) & set(range(begin, begin + length))


@st.composite
def small_cases(draw: st.DrawFn) -> Case:
    """Draw packed layouts: pages side by side in each block, and a list of ids."""
    num_blocks = draw(st.integers(0, 5))
    pages = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    gaps = draw(st.lists(st.integers(0, 4), min_size=5, max_size=5))
    stride = sum(pages) + sum(gaps)
    offsets = np.cumsum(gaps)[: len(pages)] + np.cumsum([0, *pages])[:-1]
    separate = draw(st.booleans())
    strides = [
        draw(st.integers(page, stride)) if separate else stride for page in pages
    ]
    runs = [
        Run(page, strides[i], 0 if separate else int(offset), i if separate else 0)
        for i, (page, offset) in enumerate(zip(pages, offsets))
    ]
    count = len(pages) if separate else 1
    origin, copies = draw(st.integers(0, 5)), draw(st.integers(1, 2))
    apart = max(num_blocks, 1) * stride + draw(st.integers(0, 3))
    axes = (Axis(copies, apart),)
    before = draw(st.integers(0, 2))  # allocations that no block owns a part of
    runs = [
        replace(
            run,
            offset_bytes=run.offset_bytes + origin,
            allocation=run.allocation + before,
            axes=axes,
        )
        for run in runs
    ]
    # Where the last block ends is drawn, too: memory may cut what it owns.
    last = max(num_blocks, 1) - 1
    page_ends = [r.offset_bytes + last * r.stride_bytes + r.page_bytes for r in runs]
    tile_end = (
        origin
        + last * stride
        + draw(st.integers(1, stride) | st.integers(1, stride + 5))
    )
    size = (copies - 1) * apart + max(*page_ends, tile_end)
    tiles = tuple(
        Tile(
            draw(st.integers(1, stride)) if is_odd else stride,
            draw(st.integers(1, last + 1)) if is_odd else last + 1,
            draw(st.integers(0, origin)) if is_odd else origin,
            before,
            axes=(Axis(copies, apart), Axis(count, 0, 1)),
        )
        for is_odd in draw(st.lists(st.booleans(), max_size=2))
    )
    memory = (Allocation(size, before + count),)
    layout = Layout(num_blocks, memory, tuple(runs), tiles)
    ids = st.lists(st.integers(-2, num_blocks + 1), max_size=6)
    if num_blocks:
        ids |= st.just(list(range(num_blocks)))
    arrivals = st.sampled_from(get_args(Arrival))
    calls = st.builds(Call, ids.map(id_runs), arrivals)
    made = tuple(draw(st.lists(calls, min_size=1, max_size=3)))
    return Case(layout, made, padding_may_be_touched=draw(st.booleans()))


def brute_force(
    case: Case, bases: list[int], index: int = 0
) -> tuple[set[int], set[int]]:
    call, num_blocks = case.calls[index], case.layout.num_blocks
    legal = [b for b in call.expand() if 0 <= b < num_blocks]
    if len(legal) != call.num_ids and call.arrival != "device":
        return set(), set()
    table = case.layout.table
    must = set()
    for index in range(len(table)):
        segment = table.segment(index)
        for block in legal:
            first = bases[segment.allocation] + segment.offset_bytes
            first += block * segment.stride_bytes
            must |= set(range(first, first + segment.page_bytes))
    may = set()
    if case.padding_may_be_touched:
        for tile in case.layout.tiles:
            may |= tile_bytes(case.layout, tile, bases, legal)
    return must, may - must


def tile_bytes(
    layout: Layout, tile: Tile, bases: list[int], blocks: list[int]
) -> set[int]:
    along, across = tile.axes
    size = layout.allocations[0].size_bytes
    places = product(range(along.count), range(across.count), blocks)
    owned = set()
    for copy, aside, block in places:
        if block >= tile.count:
            continue
        first = tile.origin_bytes + copy * along.step_bytes + block * tile.stride_bytes
        here = range(first, min(first + tile.stride_bytes, size))
        owned |= {bases[tile.allocation + aside] + byte for byte in here}
    return owned


@given(small_cases(), st.booleans())
def test_segment_oracle_is_the_brute_force_one(case: Case, descending: bool) -> None:
    count = case.layout.num_allocations
    bases = [1000 * (i + 1) for i in range(count)]
    bases = bases[::-1] if descending else bases
    must, may = brute_force(case, bases)
    found = oracle.must_be_zero(case, 0, np.array(bases))
    assert_canonical(found)
    assert members(found) == must
    assert members(oracle.may_be_zero(case, 0, np.array(bases))) == may


@given(small_cases(), st.lists(st.integers(0, 2), max_size=5))
def test_one_oracle_answers_for_each_call_in_any_order(
    case: Case, asked: list[int]
) -> None:
    bases = [1000 * (i + 1) for i in range(case.layout.num_allocations)]
    one = oracle.Oracle(case, bases)
    for index in (i % len(case.calls) for i in asked):
        must, may = brute_force(case, bases, index)
        assert members(one.must_be_zero(index)) == must
        assert members(one.may_be_zero(index)) == may


@given(small_cases(), st.none() | st.integers(0, 6))
def test_a_reserved_block_has_the_pages_of_a_call_that_lists_it(
    case: Case, block: int | None
) -> None:
    bases = [1000 * (i + 1) for i in range(case.layout.num_allocations)]
    lists_it = Call(()) if block is None else Call((IdRun(block),))
    must, _ = brute_force(replace(case, calls=(lists_it,)), bases)
    assert members(oracle.reserved_pages(case, block, bases)) == must


def test_a_refused_dtype_zeroes_nothing_wherever_it_arrives() -> None:
    layout = Layout(4, (Allocation(64),), (Run(8, 16),))
    case = Case(layout, (Call(id_runs([1]), "device", "float32"),))
    assert not len(oracle.must_be_zero(case, 0, [0]))


def test_duplicates_and_overlaid_pages_count_once() -> None:
    runs = (Run(24, 32), Run(8, 32), Run(8, 32, 20))
    layout = Layout(4, (Allocation(128),), runs)
    case = Case(layout, (Call(id_runs([2, 1, 1, 2])),))
    found = oracle.must_be_zero(case, 0, [1000])
    assert found.starts.tolist() == [1032, 1064]
    assert found.ends.tolist() == [1060, 1092]


@st.composite
def views(draw: st.DrawFn) -> Case:
    """Draw a KV tensor with padded strides over one allocation, and its segments."""
    num_blocks, split = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    item, dtype = draw(st.sampled_from([(1, "uint8"), (2, "bfloat16"), (4, "float32")]))
    planes, cells = draw(st.integers(1, 2)), draw(st.integers(1, 5))
    pad = draw(st.integers(0, 3))
    kernel_stride = cells + pad
    plane_stride = kernel_stride * split * num_blocks + draw(st.integers(0, 4))
    offset = draw(st.integers(0, 9))
    view = View(
        (planes, num_blocks * split, cells),
        (plane_stride, kernel_stride, 1),
        dtype,
        1,
        split,
        0,
        offset,
    )
    runs = tuple(
        Run(
            cells * item,
            kernel_stride * split * item,
            offset + (plane * plane_stride + k * kernel_stride) * item,
        )
        for plane in range(planes)
        for k in range(split)
    )
    size = offset + planes * plane_stride * item + 7
    layout = Layout(num_blocks, (Allocation(size),), runs, views=(view,))
    ids = draw(st.lists(st.integers(0, num_blocks - 1), max_size=5))
    return Case(layout, (Call(id_runs(ids)),))


@given(views())
def test_view_oracle_and_segment_oracle_agree(case: Case) -> None:
    layout, call = case.layout, case.calls[0]
    size = int(layout.allocation_sizes[0])
    mask = oracle.view_mask(layout.views[0], layout.num_blocks, call.expand(), size)
    covered = set(mask.nonzero().flatten().tolist())
    assert covered == members(oracle.must_be_zero(case, 0, [0]))


def test_view_oracle_refuses_an_id_outside_the_cache() -> None:
    view = View((2, 4), (4, 1))
    with pytest.raises(IndexError):
        oracle.view_mask(view, 2, [2], 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("segments", "blocks", "packed"),
    [(181, 6870, True), (181, 6870, False), (65_536, 150, True), (65_536, 150, False)],
)
def test_millions_of_pages_take_seconds(
    segments: int, blocks: int, packed: bool
) -> None:
    page, stride = 48, 64
    if packed:
        run = Run(page, stride * segments, axes=(Axis(segments, stride),))
        size = stride * segments * blocks
    else:
        run = Run(page, stride, axes=(Axis(segments, stride * blocks),))
        size = stride * segments * blocks
    layout = Layout(blocks, (Allocation(size),), (run,))
    case = Case(layout, (Call((IdRun(blocks - 1, blocks, -1),)),))
    begin = time.perf_counter()
    found = oracle.must_be_zero(case, 0, [2**40])
    assert time.perf_counter() - begin < 10
    assert len(found) == segments * blocks
    assert found.total_bytes == segments * blocks * page
