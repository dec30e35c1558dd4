"""Views: KV tensors in every physical order, with padding and split blocks.

A physical order is a permutation of layers, blocks, heads (or planes) and rows: what
stands before the blocks lies outside a block, what stands behind lies inside. Strides
follow from the order alone, so one rule gives planes outside, blocks first and all
layers of a block together.
"""

from math import gcd
from typing import NamedTuple

from hypothesis import strategies as st

from kvzero.layout import Allocation, Layout, View
from kvzero.pages import ELEMENT_BYTES, extent_bytes
from kvzero.strategies.counts import draw_integer, draw_one, weighted
from kvzero.strategies.frames import Room
from kvzero.strategies.layouts import draw_num_blocks
from kvzero.views import layout_of_views

ORDERS = ("LBNH", "LBHN", "LHBN", "BLHN", "BLNH", "BHLN")
"""Layers, blocks, heads or planes, and rows of a block, outermost first."""
DTYPES = ("uint8", "bfloat16", "float32", "float8_e4m3fn")
FORMS = weighted(
    {
        (False, False, False): 6,
        (True, False, False): 3,
        (False, True, False): 3,
        (False, False, True): 2,
        (True, True, False): 1,
        (True, False, True): 1,
    }
)
"""Whether block strides are padded, blocks split, and layers lie apart."""
SHAPES = ("BHN", "HBN")
"""Blocks or planes first in the shape, whatever is outermost in memory."""
MOST_EQUAL = 16
"""Most blocks for which heads or planes may be as many, so that a shape has two
readings."""
MAX_ROW_EL = 96


class Cache(NamedTuple):
    """Views over the allocations that hold them."""

    num_blocks: int
    views: tuple[View, ...]
    allocations: tuple[Allocation, ...]
    with_tiles: bool


def draw_cache(draw: st.DrawFn, room: Room) -> Cache:
    """Draw the views of one cache; see `views`."""
    num_blocks = draw_num_blocks(draw, room.min_blocks)
    order = draw_one(draw, ORDERS)
    padded, split, separate = draw_one(draw, FORMS)
    dtype = draw_one(draw, DTYPES)
    sizes = {axis: draw_integer(draw, 1, 4) for axis in "LHN"}
    shape = draw_one(draw, SHAPES)
    if 1 < num_blocks <= MOST_EQUAL and draw_one(draw, (False, True)):
        sizes["H"] = num_blocks
    element = ELEMENT_BYTES[dtype]
    unit = room.alignment_bytes // gcd(room.alignment_bytes, element)
    row = unit * draw_integer(draw, 1, max(MAX_ROW_EL // unit, 1))
    kernel_blocks = draw_integer(draw, 2, 5) if split else 1
    padding = unit * draw_integer(draw, 1, 8) if padded else 0
    sizes["B"] = num_blocks * kernel_blocks
    strides, total = _strides(order, sizes, row, padding)
    separate = separate and order.startswith("L")
    views = tuple(
        View(
            (*(sizes[axis] for axis in shape), row),
            (*(strides[axis] for axis in shape), 1),
            dtype,
            block_dim=shape.index("B"),
            kernel_blocks_per_block=kernel_blocks,
            allocation=layer if separate else 0,
            offset_bytes=0 if separate else layer * strides["L"] * element,
        )
        for layer in range(sizes["L"])
    )
    size = strides["L"] if separate else total
    needed = max(view.offset_bytes + extent_bytes(view) for view in views)
    allocation = Allocation(
        room.align(max(size * element, needed, 1)), sizes["L"] if separate else 1
    )
    return Cache(num_blocks, views, (allocation,), "HB" not in order)


def _strides(
    order: str, sizes: dict[str, int], row: int, padding: int
) -> tuple[dict[str, int], int]:
    """Return the stride of each axis, in elements, and the elements of all."""
    strides: dict[str, int] = {}
    step = row
    for axis in reversed(order):
        step += padding if axis == "B" else 0
        strides[axis] = step
        step *= max(sizes[axis], 1)
    return strides, step


def draw_view_layout(draw: st.DrawFn, room: Room) -> Layout:
    """Draw a layout that derives from views."""
    cache = draw_cache(draw, room)
    with_tiles = cache.with_tiles and draw_one(draw, (False, True))
    return layout_of_views(
        cache.views, cache.allocations, cache.num_blocks, with_tiles=with_tiles
    )


@st.composite
def views(
    draw: st.DrawFn,
    *,
    alignment_bytes: int = 1,
) -> tuple[View, ...]:
    """Draw the KV tensors of one cache, one a layer.

    Planes or heads outside the blocks, blocks first, all layers of a block together,
    shapes with planes first or as many as blocks, padded block strides, and several
    kernel blocks a block. Shrinks towards one small contiguous view.

    Args:
        draw: Hypothesis's.
        alignment_bytes: Every stride and offset is a multiple of it, in bytes.
    """
    return draw_cache(draw, Room(alignment_bytes)).views


@st.composite
def view_layouts(draw: st.DrawFn, *, alignment_bytes: int = 1) -> Layout:
    """Draw layouts that derive from `views`; they shrink as those do.

    Args:
        draw: Hypothesis's.
        alignment_bytes: Every address, stride and page size is a multiple of it.
    """
    return draw_view_layout(draw, Room(alignment_bytes))
