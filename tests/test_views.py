"""Views: one rule for every order, against brute force over the bytes of tensors."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kvzero.errors import LayoutError
from kvzero.layout import (
    Allocation,
    Axis,
    Layout,
    Run,
    Tile,
    View,
    expand_runs,
)
from kvzero.pages import ELEMENT_BYTES, extent_bytes, runs_of_view
from kvzero.presets import preset
from kvzero.views import (
    check_views,
    layout_of_views,
    storages_of,
    tiles_of_views,
)


class Placed(NamedTuple):
    """A view with the number of blocks that it holds."""

    view: View
    num_blocks: int


@st.composite
def placed_views(draw: st.DrawFn) -> Placed:
    """Draw a view of up to four dimensions in any order, with padding at each step."""
    num_blocks = draw(st.integers(1, 4), label="num_blocks")
    kernel_blocks = draw(st.sampled_from([1, 1, 2, 3]), label="kernel_blocks")
    others = draw(st.lists(st.integers(1, 3), max_size=3), label="others")
    block_dim = draw(st.integers(0, len(others)), label="block_dim")
    shape = [*others[:block_dim], num_blocks * kernel_blocks, *others[block_dim:]]
    strides, step = [0] * len(shape), 1
    for dim in draw(st.permutations(range(len(shape))), label="inner to outer"):
        strides[dim] = step + draw(st.integers(0, 3), label="padding")
        step = strides[dim] * shape[dim]
    dtype = draw(st.sampled_from(["uint8", "bfloat16", "float32"]), label="dtype")
    offset = draw(st.integers(0, 9), label="offset")
    view = View(
        tuple(shape), tuple(strides), dtype, block_dim, kernel_blocks, 0, offset
    )
    return Placed(view, num_blocks)


def bytes_of_block(view: View, block: int) -> set[int]:
    """Enumerate the bytes of one block element by element."""
    ratio, size = view.kernel_blocks_per_block, ELEMENT_BYTES[view.dtype]
    ranges = [range(n) for n in view.shape]
    ranges[view.block_dim] = range(block * ratio, (block + 1) * ratio)
    found: set[int] = set()
    for at in product(*ranges):
        begin = view.offset_bytes + size * sum(
            i * stride for i, stride in zip(at, view.strides)
        )
        found.update(range(begin, begin + size))
    return found


def pages_of_block(runs: tuple[Run, ...], block: int) -> list[range]:
    table = expand_runs(runs)
    starts = (table.offset_bytes + block * table.stride_bytes).tolist()
    return [range(b, b + n) for b, n in zip(starts, table.page_bytes.tolist())]


def refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except LayoutError:
        return True
    return False


@given(placed_views())
@example(Placed(View((2, 3, 4), (12, 4, 1), block_dim=1), 3))  # K/V outermost
@example(Placed(View((3, 2, 2), (8, 4, 1)), 3))  # holes inside a page
@example(Placed(View((6, 4), (5, 1), kernel_blocks_per_block=2), 3))  # padded split
@example(Placed(View((1, 4), (0, 1)), 1))  # one block, any stride
def test_pages_hold_the_bytes_of_their_block_from_first_to_last(placed: Placed) -> None:
    view, num_blocks = placed
    runs = runs_of_view(view, num_blocks)
    owner: dict[int, int] = {}
    for block in range(num_blocks):
        bytes_seen = bytes_of_block(view, block)
        pages = pages_of_block(runs, block)
        assert bytes_seen <= {byte for page in pages for byte in page}
        for page in pages:
            assert {page[0], page[-1]} <= bytes_seen
            for byte in page:
                assert owner.setdefault(byte, block) == block


@given(st.lists(placed_views(), min_size=1, max_size=3), st.data())
def test_a_layout_of_views_is_disjoint_or_refused(
    all_placed: list[Placed], data: st.DataObject
) -> None:
    num_blocks = all_placed[0].num_blocks
    views = [p.view for p in all_placed if p.num_blocks == num_blocks]
    end = max(view.offset_bytes + extent_bytes(view) for view in views)
    size = data.draw(st.integers(max(1, end - 2), end + 2), label="size")
    owner: dict[int, int] = {}
    clash = any(
        owner.setdefault(byte, block) != block
        for view in views
        for block in range(num_blocks)
        for page in pages_of_block(runs_of_view(view, num_blocks), block)
        for byte in page
    )

    def make() -> Layout:
        return layout_of_views(views, [Allocation(size)], num_blocks)

    assert refuses(make) == (clash or end > size)
    if not clash and end <= size:
        assert make().views == tuple(views)


L, B, H, N, C = 32, 5, 8, 16, 256
"""Llama-3-8B: layers, blocks (few), KV heads, tokens, K and V of a head in bf16."""


def llama(order: str) -> Layout:
    """Return the layout of one buffer in a physical order, one view a layer."""
    sizes = dict(zip("LBHNC", (L, B, H, N, C)))
    shape = [sizes[name] for name in order]
    buffer = torch.empty(shape, dtype=torch.bfloat16, device="cpu")
    logical = buffer.permute(*(order.index(name) for name in "LBHNC"))
    return Layout.from_tensors(list(logical.unbind(0)))


@pytest.mark.parametrize(
    ("order", "segments", "page", "stride"),
    [
        ("LBNHC", 32, 65536, 65536),
        ("LBHNC", 32, 65536, 65536),
        ("LHBNC", 256, 8192, 8192),
        ("BLHNC", 32, 65536, 2097152),
        ("BLNHC", 32, 65536, 2097152),
        ("BHLNC", 32, 1843200, 2097152),
    ],
)
def test_each_physical_order_gives_the_known_segments(
    order: str, segments: int, page: int, stride: int
) -> None:
    layout = llama(order)
    assert len(layout.table) == segments
    assert set(layout.table.page_bytes.tolist()) == {page}
    assert set(layout.table.stride_bytes.tolist()) == {stride}
    assert layout.allocations == (Allocation(2 * L * B * H * N * C),)


@pytest.mark.parametrize(
    ("order", "name"),
    [
        ("LBNHC", "vllm_llama3_8b_tp1_bf16"),
        ("BHLNC", "vllm_llama3_8b_bhlnc_cross_layer"),
    ],
)
def test_live_tensors_give_the_preset(order: str, name: str) -> None:
    table, known = llama(order).table, preset(name, B).table
    assert all((a == b).all() for a, b in zip(table, known))


def test_kv_outermost_tensors_give_the_preset() -> None:
    shape = (2, B, N, H, C // 2)
    caches = [torch.empty(shape, dtype=torch.bfloat16) for _ in range(L)]
    layout = Layout.from_tensors(caches, block_dim=1)
    known = preset("vllm_legacy_kv_outermost_llama3_8b", B)
    assert all((a == b).all() for a, b in zip(layout.table, known.table))
    assert (layout.allocation_sizes == known.allocation_sizes).all()


def test_a_tuple_of_tensors_is_one_entry() -> None:
    caches = [(torch.empty(3, 8), torch.empty(3, 2)) for _ in range(2)]
    layout = Layout.from_tensors(caches)
    assert layout.table.page_bytes.tolist() == [32, 8, 32, 8]
    assert layout.table.allocation.tolist() == [0, 1, 2, 3]
    assert storages_of(caches) == tuple(t.data_ptr() for pair in caches for t in pair)


def test_virtual_splitting_gives_a_segment_for_each_kernel_block() -> None:
    layout = Layout.from_tensors([torch.empty(12, 4)], kernel_blocks_per_block=3)
    assert layout.num_blocks == 4
    assert layout.table.offset_bytes.tolist() == [0, 16, 32]
    assert layout.table.stride_bytes.tolist() == [48, 48, 48]
    assert layout.table.page_bytes.tolist() == [16, 16, 16]


def test_each_entry_may_have_a_block_dimension_of_its_own() -> None:
    tensors = [torch.empty(2, 4, 6), torch.empty(8, 6)]
    layout = Layout.from_tensors(
        tensors, block_dim=[-2, 0], kernel_blocks_per_block=[1, 2]
    )
    assert [view.block_dim for view in layout.views] == [1, 0]
    assert len(layout.table) == 4


def test_layers_that_share_a_cache_are_one_segment_with_the_widest_page() -> None:
    pool = torch.empty(4, 16)
    layout = Layout.from_tensors([pool[:, :4], pool[:, :9], pool[:, :4]])
    assert layout.table.page_bytes.tolist() == [36]
    assert layout.num_allocations == 1


def test_views_into_one_storage_are_one_allocation() -> None:
    pool = torch.empty(96, dtype=torch.uint8)
    parts = [pool[8:40].view(4, 8), pool[40:80].view(torch.float16).view(4, 5)]
    layout = Layout.from_tensors(parts)
    assert layout.allocations == (Allocation(96),)
    assert layout.table.offset_bytes.tolist() == [8, 40]
    assert storages_of(parts) == (pool.data_ptr(),)


@given(placed_views())
def test_live_bytes_of_a_block_are_its_pages_without_holes(placed: Placed) -> None:
    view, num_blocks = placed
    size = ELEMENT_BYTES[view.dtype]
    view = replace(view, offset_bytes=view.offset_bytes * size)
    memory = torch.zeros(view.offset_bytes + extent_bytes(view), dtype=torch.uint8)
    memory = memory[: len(memory) // size * size]
    tensor = torch.as_strided(
        memory.view(getattr(torch, view.dtype)),
        view.shape,
        view.strides,
        view.offset_bytes // size,
    )
    layout = Layout.from_tensors(
        [tensor],
        block_dim=view.block_dim,
        kernel_blocks_per_block=view.kernel_blocks_per_block,
    )
    assert layout.views == (view,)
    assert layout.num_blocks == num_blocks
    for block in range(num_blocks):
        memory.zero_()
        ratio = view.kernel_blocks_per_block
        chosen = torch.arange(block * ratio, (block + 1) * ratio)
        tensor.index_fill_(view.block_dim, chosen, 1.0)
        touched = memory.nonzero().flatten().tolist()
        pages = {b for page in pages_of_block(layout.runs, block) for b in page}
        assert set(touched) <= pages


def test_blocks_may_be_none() -> None:
    layout = layout_of_views([View((0, 4), (4, 1))], [Allocation(1)], 0)
    assert layout.runs == (Run(4, 4),)


GOOD = View((4, 3, 2), (6, 2, 1))
REFUSED_VIEWS = [
    ({"strides": (0, 2, 1)}, r"v.strides\[0\]=0, .* the dimension is expanded"),
    ({"strides": (6, 0, 1)}, r"v.strides\[1\]=0, .* the dimension is expanded"),
    ({"strides": (6, 2, -1)}, r"v.strides\[2\]=-1, .* it runs backwards"),
    ({"strides": (6, 2)}, r"v.strides=\(6, 2\), but must be 3 numbers"),
    ({"strides": (6, 2.0, 1)}, r"v.strides\[1\]=2.0, but must be an int"),
    ({"strides": (6, 2**60, 1)}, r"v.strides\[1\]=1152921504606846976, but"),
    ({"shape": (4, 2**40, 2)}, r"v: extent of dimension 1 in bytes=|v.shape\[1\]="),
    ({"shape": (), "strides": ()}, "v: its dimensions=0, but must be an int from 1"),
    ({"shape": (4, 0, 2)}, r"v.shape\[1\]=0, but must be an int from 1"),
    ({"shape": (5, 3, 2)}, r"v.shape\[0\]=5, but must be num_blocks \* kernel_blocks"),
    ({"block_dim": 3}, "v.block_dim=3, but must be an int from 0 to 2"),
    ({"block_dim": 1}, r"v.shape\[1\]=3, but must be num_blocks"),
    ({"dtype": "int7"}, "v.dtype='int7', but must be one of bool, uint8"),
    ({"offset_bytes": -1}, "v.offset_bytes=-1, but must"),
    ({"allocation": -1}, "v.allocation=-1, but must"),
    ({"kernel_blocks_per_block": 0}, "v.kernel_blocks_per_block=0, but must"),
    ({"kernel_blocks_per_block": 2}, r"v.shape\[0\]=4, but must be .* = 4 \* 2"),
    ({"strides": (2, 2, 1)}, r"v.shape\[1\]=3, but must end before the next block"),
    ({"strides": (3, 2, 1)}, r"v.shape\[1\]=3, but must end before the next block"),
]


@pytest.mark.parametrize(
    ("change", "message"), REFUSED_VIEWS, ids=[f"{c}" for c, _ in REFUSED_VIEWS]
)
def test_a_view_that_no_cache_has_is_refused(
    change: dict[str, object], message: str
) -> None:
    runs_of_view(GOOD, 4, name="v")
    with pytest.raises(LayoutError, match=message):
        runs_of_view(replace(GOOD, **change), 4, name="v")  # type: ignore[arg-type]  # one table of fields


def test_a_dimension_of_one_element_may_have_any_stride() -> None:
    view = View((4, 1, 1, 2), (2, -7, 0, 1))
    assert runs_of_view(view, 4) == (Run(2, 2),)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (
            replace(GOOD, offset_bytes=1),
            r"views\[1\].shape=\(4, 3, 2\): the view reaches by",
        ),
        (replace(GOOD, allocation=1), r"views\[1\].allocation=1, but must be in range"),
    ],
)
def test_a_view_that_leaves_its_memory_is_refused(view: View, message: str) -> None:
    check_views([GOOD, GOOD], [Allocation(24)], 4)
    with pytest.raises(LayoutError, match=message):
        layout_of_views([GOOD, view], [Allocation(24)], 4)


def overlapping_storages() -> Layout:
    memory = np.zeros(64, np.uint8)
    parts = [torch.from_numpy(memory[at : at + 32]).view(4, 8) for at in (0, 8)]
    return Layout.from_tensors(parts)


make = Layout.from_tensors
CACHE = torch.empty(2, 2)
REFUSED_TENSORS: list[tuple[Callable[[], object], str]] = [
    (lambda: make(CACHE), "tensors is one tensor, but must be a sequence: pass"),
    (
        lambda: make({"layer": CACHE}),  # type: ignore[dict-item]  # refused
        r"tensors\[0\] is of type str, but must be a tensor",
    ),
    (
        lambda: make([(CACHE, None)]),  # type: ignore[list-item]  # refused
        r"tensors\[0\]\[1\] is of type NoneType",
    ),
    (
        lambda: make([CACHE, torch.empty(3, 2)]),
        r"tensors\[1\].shape\[0\]=3, but must be num_blocks",
    ),
    (
        lambda: make([torch.empty(1, 4).expand(3, 4)]),
        r"tensors\[0\].strides\[0\]=0.*expanded",
    ),
    (
        lambda: make([CACHE, torch.empty(2, 2, device="meta")]),
        r"tensors\[1\] has no memory",
    ),
    (lambda: make([CACHE], block_dim=2), r"block_dim of tensors\[0\]=2, but must be"),
    (lambda: make([CACHE], block_dim=[0, 1]), r"block_dim=\[0, 1\], but must be one"),
    (
        lambda: make([CACHE], kernel_blocks_per_block=0),
        "kernel_blocks_per_block of .*=0, but must",
    ),
    (lambda: make([]), r"tensors=\[\], but must hold one"),
    (overlapping_storages, r"tensors\[1\] lies in a storage that overlaps that of"),
]


@pytest.mark.parametrize(
    ("call", "message"), REFUSED_TENSORS, ids=[m for _, m in REFUSED_TENSORS]
)
def test_tensors_that_are_no_cache_are_refused(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(LayoutError, match=message):
        call()


def test_padding_belongs_to_no_block_unless_asked() -> None:
    views = [View((4, 6), (16, 1)), View((4, 3), (16, 1), offset_bytes=8)]
    plain = layout_of_views(views, [Allocation(64)], 4)
    assert plain.tiles == ()
    tiled = layout_of_views(views, [Allocation(64)], 4, with_tiles=True)
    assert tiled.tiles == (Tile(16, 4),)
    assert tiled.runs == plain.runs


def test_padded_planes_have_a_tile_each() -> None:
    planes = View((2, 4, 6), (32, 8, 1), block_dim=1)
    assert tiles_of_views([planes], 4) == (Tile(8, 4, axes=(Axis(2, 32),)),)
    layers = [View((4, 6), (8, 1), offset_bytes=at) for at in (0, 32)]
    assert tiles_of_views(layers, 4) == (Tile(8, 4), Tile(8, 4, 32))


def test_a_split_block_is_one_tile() -> None:
    split = View((6, 3), (4, 1), kernel_blocks_per_block=2)
    assert tiles_of_views([split], 3) == (Tile(8, 3),)


def test_padding_without_one_owner_has_no_tile() -> None:
    views = [View((2, 4), (16, 1)), View((2, 4), (16, 1), offset_bytes=24)]
    layout_of_views(views, [Allocation(64)], 2)
    with pytest.raises(LayoutError, match="interleave at byte 24 of allocation 0"):
        tiles_of_views(views, 2)


@given(st.lists(placed_views(), min_size=1, max_size=3))
def test_tiles_hold_the_pages_of_their_own_block(all_placed: list[Placed]) -> None:
    num_blocks = all_placed[0].num_blocks
    views = [p.view for p in all_placed if p.num_blocks == num_blocks]
    sizes = [Allocation(2**20)]
    assume(not refuses(lambda: layout_of_views(views, sizes, num_blocks)))
    assume(not refuses(lambda: tiles_of_views(views, num_blocks)))
    owner: dict[int, int] = {}
    for tile in tiles_of_views(views, num_blocks):
        stride = tile.stride_bytes
        wholes = Run(stride, stride, tile.origin_bytes, axes=tile.axes)
        for block in range(tile.count):
            for whole in pages_of_block((wholes,), block):
                for byte in whole:
                    assert owner.setdefault(byte, block) == block
    # Views of an only block may reach beyond the stride of the first of them: no other
    # block owns what lies there.
    else_owner = 0 if num_blocks == 1 else None
    for view in views:
        runs = runs_of_view(view, num_blocks)
        for block in range(num_blocks):
            for page in pages_of_block(runs, block):
                assert {owner.get(byte, else_owner) for byte in page} == {block}


@st.composite
def thin_views(draw: st.DrawFn) -> tuple[list[View], int]:
    """Draw views of a byte a block, of two strides, in planes, in two allocations."""
    num_blocks = draw(st.integers(1, 3))
    views = []
    for _ in range(draw(st.integers(1, 4))):
        stride, planes = draw(st.sampled_from([16, 16, 24])), draw(st.integers(1, 2))
        apart = draw(st.sampled_from([40, 100]))
        where, offset = draw(st.integers(0, 1)), draw(st.integers(0, 150))
        shape, strides = (planes, num_blocks, 1), (apart, stride, 1)
        views.append(View(shape, strides, "uint8", 1, 1, where, offset))
    return views, num_blocks


@given(thin_views())
def test_views_less_than_a_stride_apart_share_a_tile(
    drawn: tuple[list[View], int],
) -> None:
    views, num_blocks = drawn
    found: list[tuple[int, int, int, tuple[int, ...]]] = []
    for view in sorted(views, key=lambda view: view.offset_bytes):
        stride, begin = view.strides[1], view.offset_bytes
        copies = (0,) if view.shape[0] == 1 else (0, view.strides[0])
        kind = (view.allocation, stride, copies)
        if not any(
            (where, size, more) == kind and first <= begin < first + size
            for where, first, size, more in found
        ):
            found.append((view.allocation, begin, stride, copies))
    owned = [
        (where, first + copy + byte)
        for where, first, stride, copies in found
        for copy in copies
        for byte in range(stride * num_blocks)
    ]
    if len(set(owned)) < len(owned):
        assert refuses(lambda: tiles_of_views(views, num_blocks))
        return
    assert sorted(found) == sorted(
        (
            tile.allocation,
            tile.origin_bytes,
            tile.stride_bytes,
            (0, *(axis.step_bytes for axis in tile.axes)),
        )
        for tile in tiles_of_views(views, num_blocks)
    )


def test_the_table_of_element_sizes_is_torchs() -> None:
    for name, size in ELEMENT_BYTES.items():
        dtype = getattr(torch, name, None)
        assert dtype is None or dtype.itemsize == size
