"""Plain views: the same pages as the runs that they stand for."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.errors import LayoutError
from kvzero.layout import (
    Allocation,
    Axis,
    Layout,
    Run,
    SegmentTable,
    View,
    expand_runs,
)
from kvzero.pages import runs_of_view
from kvzero.plain_views import views_of_runs
from kvzero.presets import preset, preset_names
from kvzero.views import check_views


def segments(table: SegmentTable) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in table)))


def segments_of_views(
    views: tuple[View, ...], num_blocks: int
) -> list[tuple[int, ...]]:
    runs = tuple(r for view in views for r in runs_of_view(view, num_blocks))
    return segments(expand_runs(runs))


@pytest.mark.parametrize("name", preset_names())
def test_each_preset_is_plain_views_again(name: str) -> None:
    layout = preset(name, 3)
    views = views_of_runs(layout)
    check_views(views, layout.allocations, 3)
    plain = tuple(replace(run, interleaved=False) for run in layout.runs)
    assert segments_of_views(views, 3) == segments(expand_runs(plain))


def test_a_run_that_a_tensor_can_hold_is_one_view() -> None:
    views = views_of_runs(preset("lhbnc_mha_block2048_65536_segments", 3))
    assert [view.shape for view in views] == [(32, 32, 192, 16384)]
    assert views[0].kernel_blocks_per_block == 64


@st.composite
def layouts_of_one_run(draw: st.DrawFn) -> Layout:
    """Draw a run whose axes step inside blocks, over them, or over allocations."""
    num_blocks = draw(st.integers(2, 4), label="num_blocks")
    page, kernel_blocks = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    kernel_step = page + draw(st.integers(0, 3))
    stride = kernel_step * kernel_blocks + draw(st.sampled_from([0, 0, 1]))
    extent = num_blocks * stride
    axes = (
        Axis(draw(st.integers(1, 3)), 0, 1),
        Axis(draw(st.integers(1, 3)), 3 * extent + draw(st.integers(0, 3))),
        Axis(draw(st.integers(1, 3)), extent),
        Axis(kernel_blocks, kernel_step),
    )
    run = Run(page, stride, 3, 1, axes[draw(st.integers(0, 4)) :])
    return Layout(num_blocks, (Allocation(20 * extent, 4),), (run,))


@given(layouts_of_one_run())
def test_plain_views_have_the_pages_of_their_run(layout: Layout) -> None:
    views = views_of_runs(layout)
    check_views(views, layout.allocations, layout.num_blocks)
    assert segments_of_views(views, layout.num_blocks) == segments(layout.table)


def test_views_of_wider_elements_count_in_them() -> None:
    run = Run(8, 16, 32, axes=(Axis(2, 64),))
    layout = Layout(4, (Allocation(160),), (run,))
    (view,) = views_of_runs(layout, dtype="float32")
    assert view == View((2, 4, 2), (16, 4, 1), "float32", 1, 1, 0, 32)
    assert runs_of_view(view, 4) == (run,)
    with pytest.raises(
        LayoutError, match=r"runs\[0\].page_bytes=8, but must be a mult"
    ):
        views_of_runs(layout, dtype="complex128")
