"""Pages against views: exact for any layout, by comparison with a map of bytes."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.case import Case
from kvzero.errors import LayoutError
from kvzero.layout import Allocation, Axis, Layout, Run, Tile, View
from kvzero.observation import Observation
from kvzero.oracle import view_mask
from kvzero.pages import ELEMENT_BYTES
from kvzero.properties import Broken, Holds, NotJudged, covering
from kvzero.properties.covering import (
    MAX_STRETCHES,
    Stretches,
    TooManyError,
    block_0,
    bytes_of,
    without,
)
from kvzero.properties.pages_cover_their_views import (
    layout_misfits,
    pages_cover_their_views,
)
from kvzero.strategies.views import view_layouts
from kvzero.views import layout_of_views

Observe = Callable[..., Observation]
SIZE = 800


def found(layout: Layout, *, padding: bool = False) -> set[str]:
    """Return what is wrong, in short words."""
    misfits = layout_misfits(layout, padding_may_be_touched=padding)
    return {violation.what for violation in misfits}


def span_mask(view: View, num_blocks: int, block: int) -> torch.Tensor:
    """Return a block's bytes with the holes of each of its kernel blocks filled."""
    item = ELEMENT_BYTES[view.dtype]
    filled = torch.zeros(SIZE, dtype=torch.bool)
    step = view.strides[view.block_dim]
    outer = [
        range(n) if dim != view.block_dim and n > 1 and stride > step > 0 else range(1)
        for dim, (n, stride) in enumerate(zip(view.shape, view.strides))
    ]
    split = view.kernel_blocks_per_block
    for index in product(*outer):
        at = sum(i * s for i, s in zip(index, view.strides))
        shape = tuple(
            1 if len(o) > 1 else n for o, n in zip(outer, view.shape, strict=True)
        )
        one = replace(
            view,
            shape=shape,
            offset_bytes=view.offset_bytes + at * item,
            kernel_blocks_per_block=1,
        )
        for kernel_block in range(block * split, (block + 1) * split):
            bytes_in = view_mask(one, num_blocks * split, [kernel_block], SIZE)
            where = bytes_in.nonzero()
            filled[int(where[0]) : int(where[-1]) + 1] = True
    return filled


def misfits(
    layout: Layout, allocation: int, *, padding: bool
) -> dict[str, torch.Tensor]:
    """Return which bytes of an allocation are wrong, and how: shape [blocks, SIZE]."""
    shape = (layout.num_blocks, SIZE)
    pages, tiles, views, spans = torch.zeros((4, *shape), dtype=torch.bool)
    for block in range(layout.num_blocks):
        for index in range(len(layout.table)):
            where, offset, stride, page = layout.table.segment(index)
            if where == allocation:
                pages[block, offset + block * stride :][:page] = True
        for tile, copy in copies(layout):
            if block < tile.count and padding and tile.allocation == allocation:
                begin = tile.origin_bytes + copy + block * tile.stride_bytes
                tiles[block, begin:][: tile.stride_bytes] = True
        for view in layout.views:
            if view.allocation == allocation:
                views[block] |= view_mask(view, layout.num_blocks, [block], SIZE)
                spans[block] |= span_mask(view, layout.num_blocks, block)
    return {
        "view-byte-outside-pages": views & ~pages,
        "page-byte-outside-views": pages & ~spans & ~tiles,
    }


def copies(layout: Layout) -> Iterator[tuple[Tile, int]]:
    """Yield each tile that all blocks have, and how far each copy of it lies."""
    for tile in layout.tiles:
        if tile.count == layout.num_blocks:
            for index in product(*(range(axis.count) for axis in tile.axes)):
                steps = (axis.step_bytes for axis in tile.axes)
                yield tile, sum(i * step for i, step in zip(index, steps))


def expected(layout: Layout, *, padding: bool) -> set[str]:
    """Return what a map of every byte of every block finds."""
    return {
        what
        for allocation in range(layout.num_allocations)
        for what, wrong in misfits(layout, allocation, padding=padding).items()
        if wrong.any()
    }


@st.composite
def planned_layouts(draw: st.DrawFn) -> Layout:
    """Draw views, and pages that a right or a wrong planner made of them."""
    num_blocks = draw(st.integers(1, 4), label="num_blocks")
    split = draw(st.integers(1, 2), label="kernel blocks")
    row, rows = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    row_step = row + draw(st.integers(0, 2), label="hole")
    step = row_step * rows + draw(st.integers(0, 5), label="padding")
    planes = draw(st.integers(1, 2), label="planes")
    offset = draw(st.integers(0, 9))
    dtype, item = draw(st.sampled_from([("uint8", 1), ("int16", 2)]), label="dtype")
    blocks = num_blocks * split
    view = View(
        (planes, blocks, rows, row),
        (blocks * step + draw(st.integers(0, 3)), step, row_step, 1),
        dtype,
        block_dim=1,
        kernel_blocks_per_block=split,
        offset_bytes=offset,
    )
    if blocks == 1:  # a stride that is never taken may be any number
        free = draw(st.sampled_from([step, step, 0]), label="stride of one block")
        view = replace(view, strides=(*view.strides[:1], free, *view.strides[2:]))
    layout = layout_of_views([view], [Allocation(SIZE)], num_blocks)
    (run,) = layout.runs
    run = replace(
        run,
        page_bytes=max(1, run.page_bytes + draw(st.integers(-2, 2), label="page")),
        stride_bytes=max(1, run.stride_bytes + draw(st.integers(-1, 1))),
        offset_bytes=max(0, offset + draw(st.integers(-1, 1), label="offset")),
    )
    stride = step * split * item
    apart = (Axis(planes, view.strides[0] * item),)
    tile = Tile(stride, draw(st.integers(1, num_blocks)), offset, axes=apart)
    tiles = draw(st.sampled_from([(), (tile,)]), label="tiles")
    inside = Axis(rows, row_step * item)
    without_holes = Run(row * item, stride, offset, 0, (*run.axes, inside))
    choices = [(run,), layout.runs, (*layout.runs, run), (without_holes,)]
    runs = draw(st.sampled_from(choices), label="runs")
    try:
        layout = replace(layout, runs=runs, tiles=tiles)
    except LayoutError:
        return layout
    return with_a_twin(layout) if draw(st.booleans(), label="twin") else layout


def with_a_twin(layout: Layout) -> Layout:
    """Return a layout after another of the same view, in memory of its own, right."""
    (view,) = layout.views
    twin = layout_of_views([view], layout.allocations, layout.num_blocks)
    return Layout(
        layout.num_blocks,
        (Allocation(SIZE, 2),),
        (*twin.runs, *(replace(run, allocation=1) for run in layout.runs)),
        tuple(replace(tile, allocation=1) for tile in layout.tiles),
        (view, replace(view, allocation=1)),
    )


# Two planes of an only block, which lie one block stride apart: a hole between them.
PLANES = View((2, 1, 1, 2), (4, 4, 1, 1), block_dim=1)


@given(planned_layouts(), st.booleans())
@example(Layout(1, (Allocation(SIZE),), (Run(6, 6),), (), (PLANES,)), False)
def test_the_relation_is_what_a_map_of_bytes_says(
    layout: Layout, padding: bool
) -> None:
    assert found(layout, padding=padding) == expected(layout, padding=padding)


@given(planned_layouts(), st.booleans())
def test_a_misfit_names_a_byte_that_is_one(layout: Layout, padding: bool) -> None:
    for violation in layout_misfits(layout, padding_may_be_touched=padding):
        at, allocation, block, owner = numbers_of_byte(violation.claim)
        wrong = misfits(layout, allocation, padding=padding)[violation.what]
        assert wrong[block, at]
        if violation.what == "view-byte-outside-pages":
            view = layout.views[owner]
            assert view.allocation == allocation
            assert view_mask(view, layout.num_blocks, [block], SIZE)[at]
        else:
            segment = layout.table.segment(owner)
            assert segment.allocation == allocation
            begin = segment.offset_bytes + block * segment.stride_bytes
            assert begin <= at < begin + segment.page_bytes


def numbers_of_byte(claim: str) -> tuple[int, int, int, int]:
    """Return byte, allocation, block, and view or segment of a claim."""
    pattern = r"byte (\d+) of allocation (\d+), of block (\d+) of \D+(\d+)"
    found = re.match(pattern, claim)
    assert found is not None
    at, allocation, block, owner = map(int, found.groups())
    return at, allocation, block, owner


@given(view_layouts())
def test_pages_planned_by_kvzero_cover_their_views(layout: Layout) -> None:
    assert found(layout) == set()


# A view of 8 bytes in blocks of 16, as all below.
VIEW = View((4, 8), (16, 1))


def planned(*runs: Run, views: tuple[View, ...] = (VIEW,), blocks: int = 4) -> Layout:
    return Layout(blocks, (Allocation(256),), runs, (Tile(16, 4),), views)


@pytest.mark.parametrize(
    ("runs", "what"),
    [
        ([Run(8, 16)], set()),
        ([Run(4, 16), Run(4, 16, 4)], set()),
        ([Run(8, 8)], {"view-byte-outside-pages", "page-byte-outside-views"}),
        ([Run(16, 16)], {"page-byte-outside-views"}),
        ([Run(7, 16)], {"view-byte-outside-pages"}),
        ([], {"view-byte-outside-pages"}),
    ],
)
def test_a_planners_mistakes_are_told_apart(runs: list[Run], what: set[str]) -> None:
    assert found(planned(*runs)) == what


def test_padding_that_may_be_touched_may_be_in_a_page() -> None:
    assert found(planned(Run(16, 16)), padding=True) == set()
    partly = replace(planned(Run(16, 16)), tiles=(Tile(16, 3),))
    assert found(partly, padding=True) == {"page-byte-outside-views"}


def test_pages_of_another_stride_may_cover_all_blocks_together() -> None:
    # One byte a block, 10 apart, inside pages that are 12 apart.
    view = View((3, 1), (10, 1), offset_bytes=5)
    layout = planned(Run(12, 12), views=(view,), blocks=3)
    assert found(layout) == {"page-byte-outside-views"}
    moved = replace(layout, views=(replace(view, offset_bytes=3),))
    assert found(moved) == {"page-byte-outside-views", "view-byte-outside-pages"}


@given(st.integers(1, 99))
def test_too_many_blocks_of_mixed_strides_are_not_judged(more: int) -> None:
    blocks = MAX_STRETCHES + more
    view = View((blocks, 1), (10, 1))
    allocation = (Allocation(12 * blocks),)
    layout = Layout(blocks, allocation, (Run(12, 12),), (), (view,))
    with pytest.raises(TooManyError, match="different block strides"):
        found(layout)
    seen = Observation("s", "footprint", "TTIR", "")
    result = pages_cover_their_views(Case(layout, ()), seen)
    assert isinstance(result, NotJudged)


@given(st.integers(1, 9), st.integers(2, 9), st.integers(1, 40))
def test_no_more_is_looked_at_than_allowed(rows: int, blocks: int, most: int) -> None:
    begin, where = np.arange(rows) * 3, np.zeros(rows, np.int64)
    first, second = block_0(where, 100, begin, 1), block_0(where, 90, begin + 2_000, 1)
    view = View((4, rows, blocks), (1_000, 100, 2))
    looks: list[Callable[[], Stretches]] = [
        lambda: without(first, second, blocks),
        lambda: bytes_of(view),
    ]
    with mock.patch.object(covering, "MAX_STRETCHES", most):
        for look in looks:
            if rows * blocks > most:
                with pytest.raises(TooManyError):
                    look()
            else:
                assert look().total_bytes == rows * blocks


def test_any_number_of_blocks_is_decided_by_one() -> None:
    blocks = 2**36
    view = View((blocks, 8), (16, 1))
    layout = Layout(blocks, (Allocation(16 * blocks),), (Run(7, 16),), (), (view,))
    assert found(layout) == {"view-byte-outside-pages"}


def test_a_misfit_is_located(observe: Observe) -> None:
    second = View((4, 4), (16, 1), "uint8", offset_bytes=8)
    layout = planned(Run(8, 16), Run(3, 16, 8), views=(VIEW, second))
    result = pages_cover_their_views(Case(layout, ()), observe())
    assert isinstance(result, Broken)
    (violation,) = result.violations
    assert violation.lines() == [
        "pages_cover_their_views: byte 11 of allocation 0, of block 0 of views[1] is "
        "in no page, but must be in one",
        "  where    the first of 1 byte of every block",
    ]


def test_a_case_is_judged_where_it_carries_views(observe: Observe) -> None:
    case = Case(planned(Run(8, 16)), ())
    assert pages_cover_their_views(case, observe()) == Holds("pages_cover_their_views")
    plain = replace(case, layout=replace(case.layout, views=()))
    assert isinstance(pages_cover_their_views(plain, observe()), NotJudged)


def test_views_that_no_tensor_could_have_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"views\[0\].shape\[0\]=5, but must be"):
        layout_misfits(planned(Run(8, 16), views=(View((5, 8), (16, 1)),)))


@pytest.mark.slow
def test_65536_segments_of_views_are_compared_at_any_size() -> None:
    layers, splits, blocks = 128, 512, 1000
    step, page = 1024, 1000
    plane = step * splits * blocks
    views = tuple(
        View((blocks * splits, page), (step, 1), "uint8", 0, splits, 0, layer * plane)
        for layer in range(layers)
    )
    layout = layout_of_views(views, [Allocation(layers * plane)], blocks)
    assert len(layout.table) == 65_536
    assert found(layout) == set()
    (last,) = {run.offset_bytes for run in layout.runs[-1:]}
    short = replace(layout.runs[-1], page_bytes=page - 1, offset_bytes=last)
    wrong = replace(layout, runs=(*layout.runs[:-1], short))
    assert found(wrong) == {"view-byte-outside-pages"}
