"""Every byte has the place that a map of all bytes gives it."""

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.properties.location import Location, locate


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw packed pages over allocations that are alike, with gaps, and their tiles."""
    num_blocks = draw(st.integers(1, 4))
    pages = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    gaps = draw(st.lists(st.integers(0, 4), min_size=4, max_size=4))
    stride, first = sum(pages) + sum(gaps), draw(st.integers(0, 7))
    copies = draw(st.integers(1, 2))
    apart = num_blocks * stride + draw(st.integers(0, 5))
    wide = draw(st.booleans())  # copies lie in one allocation, or each in its own
    axes = (Axis(copies, apart, 0) if wide else Axis(copies, 0, 1),)
    offsets = np.cumsum(gaps)[: len(pages)] + np.cumsum([0, *pages])[:-1]
    runs = tuple(
        Run(page, stride, first + int(offset), axes=axes)
        for page, offset in zip(pages, offsets)
    )
    size = first + (copies if wide else 1) * apart + draw(st.integers(0, 5))
    held = draw(st.integers(0, num_blocks))
    tiles = (Tile(stride, held, first, axes=axes),) if held else ()
    memory = (Allocation(size, 1 if wide else copies),)
    return Layout(num_blocks, memory, runs, tiles)


def places(layout: Layout) -> dict[tuple[int, int], Location]:
    """Return the place of each byte that has an owner, by allocation and position."""
    found: dict[tuple[int, int], Location] = {}
    for index, block in product(range(len(layout.table)), range(layout.num_blocks)):
        segment = layout.table.segment(index)
        begin = segment.offset_bytes + block * segment.stride_bytes
        for byte in range(segment.page_bytes):
            place = Location(f"block {block}", byte, index)
            found.setdefault((segment.allocation, begin + byte), place)
    for tile in layout.tiles:
        (axis,) = tile.axes
        for copy, block in product(range(axis.count), range(tile.count)):
            begin = tile.origin_bytes + copy * axis.step_bytes
            begin += block * tile.stride_bytes
            where = tile.allocation + copy * axis.step_allocations
            for byte in range(tile.stride_bytes):
                place = Location(f"padding of block {block}", byte)
                found.setdefault((where, begin + byte), place)
    return found


@given(layouts(), st.booleans())
def test_each_byte_is_where_a_map_of_bytes_has_it(
    layout: Layout, overlaid: bool
) -> None:
    if overlaid:  # the same pages once more: the first segment that holds a byte counts
        layout = replace(layout, runs=(*layout.runs, layout.runs[0]))
    known = places(layout)
    for allocation, size in enumerate(layout.allocation_sizes.tolist()):
        for byte in range(size):
            nobodys = Location(f"allocation {allocation} outside every page", byte)
            expected = known.get((allocation, byte), nobodys)
            assert locate(layout, allocation, byte) == expected
        for byte in (-5, -1, size, size + 3):
            side, at = ("before", byte) if byte < 0 else ("after", byte - size)
            expected = Location(f"guard {side} allocation {allocation}", at)
            assert locate(layout, allocation, byte) == expected


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 40))
def test_the_page_of_an_only_block_may_be_wider_than_its_stride(
    page: int, stride: int, byte: int
) -> None:
    layout = Layout(1, (Allocation(48),), (Run(page, stride),))
    place = locate(layout, 0, byte)
    assert (place.segment is None) == (byte >= page)
    assert place.byte == byte
