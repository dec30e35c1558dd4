"""Which layouts are measured, how large, and with which block lists."""

import pytest

from kvzero.bench.layouts import bench_layouts, fitting_blocks
from kvzero.bench.pages import bytes_of_block, smallest_page
from kvzero.errors import LayoutError
from kvzero.layout import Layout
from kvzero.presets import preset_names
from kvzero.zeroer.chunks import Segments, merged

BY_NAME = {layout.name: layout for layout in bench_layouts()}
MIXED_BYTES = 91 * 9344 * 4 + 90 * 292 * 4


def test_the_made_layouts_and_all_presets_are_measured() -> None:
    made = {
        "mixed181-separate",
        "mixed181-packed",
        "mixed181-padded",
        "wide1-narrow180",
    }
    assert set(BY_NAME) == made | set(preset_names())


@pytest.mark.parametrize(
    ("name", "allocations", "block_bytes", "smallest", "apart"),
    [
        ("mixed181-separate", 181, MIXED_BYTES, 292 * 4, 181),
        ("mixed181-packed", 1, MIXED_BYTES, 292 * 4, 1),
        ("mixed181-padded", 1, MIXED_BYTES, 292 * 4, 181),
        ("wide1-narrow180", 181, 2**21 + 180 * 2**10, 2**10, 181),
    ],
)
def test_a_made_layout_has_181_segments_that_merge_only_where_they_touch(
    name: str, allocations: int, block_bytes: int, smallest: int, apart: int
) -> None:
    layout = BY_NAME[name].make(3)
    table = layout.table
    assert (len(table), layout.num_allocations) == (181, allocations)
    assert (bytes_of_block(layout), smallest_page(layout)) == (block_bytes, smallest)
    address = table.offset_bytes + table.allocation * 2**40
    joined = merged(Segments(address, table.stride_bytes, table.page_bytes))
    assert len(joined.address) == apart


def test_pages_of_mixed_layouts_alternate() -> None:
    for name in ("mixed181-separate", "mixed181-packed", "mixed181-padded"):
        pages = BY_NAME[name].make(2).table.page_bytes.tolist()
        assert pages == ([9344 * 4, 292 * 4] * 91)[:181]


def test_lists_of_a_model_are_its_whole_numbers_cut_to_the_pool() -> None:
    layout = BY_NAME["vllm_qwen35_27b_hybrid_784"]  # 0.04, 32, 0.33, 256, 3, 11, 21
    assert layout.sizes(10_000, quick=False) == (1, 3, 4, 11, 16, 21, 32, 256, 512)
    assert layout.sizes(20, quick=False) == (1, 3, 4, 11, 16, 20)
    assert layout.sizes(10_000, quick=True) == (1, 4, 16, 512)
    assert layout.sizes(100, (7, 300), quick=True) == (7, 100)


def test_the_list_of_23_000_is_always_measured() -> None:
    layout = BY_NAME["wide1-narrow180"]
    assert layout.sizes(layout.num_blocks, quick=True)[-1] == 23_000


def test_a_pool_is_cut_to_the_memory() -> None:
    for layout in BY_NAME.values():
        whole = layout.within(None)
        assert whole.num_blocks == layout.num_blocks
        if layout.num_blocks < 10:
            continue
        most = int(whole.allocation_sizes.sum()) // 2
        cut = layout.within(most)
        assert _total(cut) <= most < _total(layout.make(cut.num_blocks + 1))


def _total(layout: Layout) -> int:
    return int(layout.allocation_sizes.sum())


def test_memory_for_no_block_is_refused() -> None:
    with pytest.raises(LayoutError, match="one block of 10 B, but must fit the 9 B"):
        fitting_blocks(5, 10, 10, 9)


def test_an_unknown_layout_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LayoutError, match="must be one of"):
        bench_layouts(["mixed"])
