"""Pages against views: exact for any layout, by comparison with a map of bytes."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Case
from kvzero.errors import LayoutError
from kvzero.layout import Allocation, Axis, Layout, Run, Tile, View
from kvzero.observation import Observation
from kvzero.oracle import view_mask
from kvzero.properties import Broken, Holds, NotJudged
from kvzero.properties.covering import MAX_STRETCHES, TooManyError
from kvzero.properties.pages_cover_their_views import (
    layout_misfits,
    pages_cover_their_views,
)
from kvzero.strategies.views import view_layouts
from kvzero.views import layout_of_views

Observe = Callable[..., Observation]
SIZE = 400


def found(layout: Layout, *, padding: bool = False) -> set[str]:
    """Return what is wrong, in short words."""
    misfits = layout_misfits(layout, padding_may_be_touched=padding)
    return {violation.what for violation in misfits}


def span_mask(view: View, num_blocks: int, block: int) -> torch.Tensor:
    """Return a block's bytes with the holes of each of its kernel blocks filled."""
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
            offset_bytes=view.offset_bytes + at,
            kernel_blocks_per_block=1,
        )
        for kernel_block in range(block * split, (block + 1) * split):
            bytes_in = view_mask(one, num_blocks * split, [kernel_block], SIZE)
            where = bytes_in.nonzero()
            filled[int(where[0]) : int(where[-1]) + 1] = True
    return filled


def expected(layout: Layout, *, padding: bool) -> set[str]:
    """Return what a map of every byte of every block finds."""
    wrong = set()
    for block in range(layout.num_blocks):
        pages, tiles, views, spans = (
            torch.zeros(SIZE, dtype=torch.bool) for _ in range(4)
        )
        for index in range(len(layout.table)):
            _, offset, stride, page = layout.table.segment(index)
            pages[offset + block * stride :][:page] = True
        for tile in layout.tiles:
            if block < tile.count and padding:
                begin = tile.origin_bytes + block * tile.stride_bytes
                tiles[begin:][: tile.stride_bytes] = True
        for view in layout.views:
            views |= view_mask(view, layout.num_blocks, [block], SIZE)
            spans |= span_mask(view, layout.num_blocks, block)
        if (views & ~pages).any():
            wrong.add("view-byte-outside-pages")
        if (pages & ~spans & ~tiles).any():
            wrong.add("page-byte-outside-views")
    return wrong


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
    blocks = num_blocks * split
    view = View(
        (planes, blocks, rows, row),
        (blocks * step + draw(st.integers(0, 3)), step, row_step, 1),
        block_dim=1,
        kernel_blocks_per_block=split,
        offset_bytes=offset,
    )
    layout = layout_of_views([view], [Allocation(SIZE)], num_blocks)
    (run,) = layout.runs
    run = replace(
        run,
        page_bytes=max(1, run.page_bytes + draw(st.integers(-2, 2), label="page")),
        stride_bytes=max(1, run.stride_bytes + draw(st.integers(-1, 1))),
        offset_bytes=max(0, offset + draw(st.integers(-1, 1), label="offset")),
    )
    tiles = draw(st.sampled_from([(), (Tile(step * split, num_blocks, offset),)]))
    without_holes = Run(row, step * split, offset, 0, (*run.axes, Axis(rows, row_step)))
    choices = [(run,), layout.runs, (*layout.runs, run), (without_holes,)]
    runs = draw(st.sampled_from(choices), label="runs")
    try:
        return replace(layout, runs=runs, tiles=tiles)
    except LayoutError:
        return layout


@given(planned_layouts(), st.booleans())
def test_the_relation_is_what_a_map_of_bytes_says(
    layout: Layout, padding: bool
) -> None:
    assert found(layout, padding=padding) == expected(layout, padding=padding)


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


def test_too_many_blocks_of_mixed_strides_are_not_judged(observe: Observe) -> None:
    blocks = MAX_STRETCHES + 1
    view = View((blocks, 1), (10, 1))
    allocation = (Allocation(12 * blocks),)
    layout = Layout(blocks, allocation, (Run(12, 12),), (), (view,))
    with pytest.raises(TooManyError, match="different block strides"):
        found(layout)
    result = pages_cover_their_views(Case(layout, ()), observe())
    assert isinstance(result, NotJudged)


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
