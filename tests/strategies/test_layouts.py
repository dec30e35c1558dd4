import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.layout import Allocation, Layout, Run, axes_steps
from kvzero.strategies import layouts, packings, runs, view_layouts, views
from kvzero.strategies.sampling import drawn, minimal
from kvzero.views import runs_of_view


def assert_aligned(layout: Layout, alignment: int) -> None:
    table = layout.table
    for column in (table.offset_bytes, table.stride_bytes, table.page_bytes):
        assert not (column % alignment).any()


@given(st.data(), st.sampled_from([1, 4, 16, 512]))
def test_layouts_are_aligned(data: st.DataObject, alignment: int) -> None:
    assert_aligned(data.draw(layouts(alignment_bytes=alignment)), alignment)
    assert_aligned(data.draw(view_layouts(alignment_bytes=alignment)), alignment)


@given(layouts(one_page_size=True))
def test_layouts_of_one_page_size_have_one(layout: Layout) -> None:
    assert len(set(layout.table.page_bytes.tolist())) <= 1


@pytest.mark.parametrize("most", [2**16, 2**26])
def test_layouts_fit_into_the_memory_they_are_given(most: int) -> None:
    for layout in drawn(layouts(max_bytes=most, max_programs_hint=16), 300):
        widest = max((run.stride_bytes for run in layout.runs), default=0)
        guards = 2 * widest * layout.num_allocations
        assert int(layout.allocation_sizes.sum()) + guards <= most


@given(layouts())
def test_tiles_hold_every_page_of_their_block(layout: Layout) -> None:
    if not layout.tiles:
        return
    owned = {}
    for tile in layout.tiles:
        for step, where in zip(*(steps.tolist() for steps in axes_steps(tile.axes))):
            owned[tile.allocation + where, tile.origin_bytes + step] = tile
            if len(owned) > 1000:
                return
    last = layout.num_blocks - 1
    for i in range(min(len(layout.table), 100)):
        allocation, offset, stride, page = layout.table.segment(i)
        holders = [
            (tile, origin)
            for (where, origin), tile in owned.items()
            if where == allocation
            and origin <= offset
            and offset + last * stride + page <= origin + tile.count * tile.stride_bytes
        ]
        assert len(holders) == 1
        ((tile, origin),) = holders
        assert tile.stride_bytes == stride
        assert (
            (offset - origin) // stride == (offset + page - 1 - origin) // stride == 0
        )


@given(st.data(), st.integers(0, 4))
def test_packings_are_legal_for_their_number_of_blocks(
    data: st.DataObject, num_blocks: int
) -> None:
    packing = data.draw(packings(num_blocks=num_blocks))
    Layout(num_blocks, *packing)


def test_runs_shrink_to_one_byte() -> None:
    assert minimal(runs(), bool) == (Run(1, 1),)


def test_layouts_shrink_to_one_byte() -> None:
    smallest = Layout(1, (Allocation(1),), (Run(1, 1),))
    assert minimal(layouts(), lambda _: True) == smallest


@pytest.mark.slow
@pytest.mark.parametrize(
    "special", ["overlaid", "planes", "empty", "separate", "split"]
)
def test_layouts_shrink_to_few_runs(special: str) -> None:
    conditions = {
        "overlaid": lambda layout: layout.widest_per_address,
        "planes": lambda layout: any(len(run.axes) > 1 for run in layout.runs),
        "empty": lambda layout: not layout.runs,
        "separate": lambda layout: layout.num_allocations > 2,
        "split": lambda layout: any(
            run.axes
            and run.axes[-1].count * run.axes[-1].step_bytes == run.stride_bytes
            for run in layout.runs
        ),
    }
    layout = minimal(layouts(), conditions[special])
    assert len(layout.runs) <= 2
    assert layout.num_blocks == 1
    assert len(layout.table) <= 8


@given(view_layouts())
def test_runs_of_view_layouts_are_those_of_their_views(layout: Layout) -> None:
    runs = (runs_of_view(view, layout.num_blocks) for view in layout.views)
    assert layout.runs == tuple(run for of_view in runs for run in of_view)


def test_views_come_in_every_order() -> None:
    found = drawn(views(), 500)
    assert any(len(cache) > 1 for cache in found)
    assert any(view.kernel_blocks_per_block > 1 for cache in found for view in cache)
    assert any(view.allocation for cache in found for view in cache)
    inside = [view.strides[0] > view.strides[1] for cache in found for view in cache]
    assert any(inside)
    assert not all(inside)


def test_views_shrink_to_one_element() -> None:
    (view,) = minimal(views(), lambda _: True)
    assert view.shape == (1, 1, 1, 1)
    assert view.strides == (1, 1, 1, 1)
