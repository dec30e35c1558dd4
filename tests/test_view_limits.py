"""A view is taken if and only if a plain reading of its numbers says that it may be."""

from dataclasses import replace
from itertools import pairwise

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.errors import LayoutError
from kvzero.layout import (
    MAX_ALLOCATIONS,
    MAX_BLOCKS,
    MAX_BYTES,
    MAX_SEGMENTS,
    Allocation,
    Layout,
    View,
)
from kvzero.pages import ELEMENT_BYTES, extent_bytes, runs_of_view
from kvzero.views import check_views, storages_of

GOOD = View((4, 3, 2), (6, 2, 1), "float32")
WORD = 4
"""Bytes of an element of `GOOD`."""
SIZES = [0, 1, 2, 3, 4, 5, 8, MAX_SEGMENTS, MAX_SEGMENTS + 1, MAX_BYTES, MAX_BYTES + 1]
STRIDES = [-7, -1, 0, 1, 2, 3, 6, 7, MAX_BYTES // WORD, MAX_BYTES // WORD + 1]
NUMBERS = {
    "block_dim": [-1, 0, 1, 2, 3],
    "kernel_blocks_per_block": [0, 1, 2, 4, 8, MAX_BYTES, MAX_BYTES + 1],
    "offset_bytes": [-1, 0, 5, MAX_BYTES, MAX_BYTES + 1],
    "allocation": [-1, 0, 1, MAX_ALLOCATIONS, MAX_ALLOCATIONS + 1],
}


@st.composite
def odd_views(draw: st.DrawFn) -> tuple[View, int]:
    """Draw a view with a few odd numbers, and a number of blocks."""
    view = GOOD
    for _ in range(draw(st.integers(0, 3))):
        field = draw(st.sampled_from(["shape", "strides", *NUMBERS]))
        if field in NUMBERS:
            number = draw(st.sampled_from(NUMBERS[field]))
            view = replace(view, **{field: number})  # type: ignore[arg-type]  # by name
        else:
            values = list(getattr(view, field))
            known = SIZES if field == "shape" else STRIDES
            values[draw(st.integers(0, 2))] = draw(st.sampled_from(known))
            view = replace(view, **{field: tuple(values)})  # type: ignore[arg-type]  # by name
    few = [0, 1, 2, 3, 4, 5, 8]
    named = view.shape[view.block_dim] if view.block_dim in range(3) else 4
    ratio = max(view.kernel_blocks_per_block, 1)
    fitting = [named // ratio] * 8
    return view, draw(st.sampled_from([*fitting, *few]))


def is_plain(view: View, num_blocks: int) -> bool:
    """Return whether a view is a strided tensor of that many blocks."""
    if not 0 <= view.block_dim < 3 or not 0 <= num_blocks <= MAX_BLOCKS:
        return False
    if not 0 <= view.offset_bytes <= MAX_BYTES or view.allocation < 0:
        return False
    for dim, (size, stride) in enumerate(zip(view.shape, view.strides)):
        if size < (dim != view.block_dim) or size > MAX_BYTES:
            return False
        if size > 1 and stride < 1:
            return False
        if max(abs(stride), (size - 1) * abs(stride)) * WORD > MAX_BYTES:
            return False
    ratio = view.kernel_blocks_per_block
    return ratio >= 1 and view.shape[view.block_dim] == num_blocks * ratio


def has_pages(view: View) -> bool:
    """Return whether a plain view's blocks are apart, and its segments not too many."""
    step = view.strides[view.block_dim]
    sides = [
        (size, stride)
        for dim, (size, stride) in enumerate(zip(view.shape, view.strides))
        if dim != view.block_dim and size > 1
    ]
    if step < 1:  # one block, which holds all
        step = 2**60
    page = 1 + sum((size - 1) * stride for size, stride in sides if stride <= step)
    outer = [size for size, stride in sides if stride > step]
    segments = view.kernel_blocks_per_block
    for size in outer:
        segments *= size
    apart = page <= step or view.shape[view.block_dim] <= 1
    fits = page * WORD <= MAX_BYTES and view.allocation <= MAX_ALLOCATIONS
    whole = view.strides[view.block_dim] * view.kernel_blocks_per_block * WORD
    return apart and fits and segments <= MAX_SEGMENTS and whole <= MAX_BYTES


@given(odd_views())
@example((GOOD, 4))
@example((View((4, 1, 2), (2, MAX_BYTES // WORD, 1), "float32"), 4))
@example((View((4, 1, 2), (2, MAX_BYTES // WORD + 1, 1), "float32"), 4))
@example((View((4, 1, 2), (2, -MAX_BYTES // WORD, 1), "float32"), 4))
@example((View((4, 1, 2), (2, -MAX_BYTES // WORD - 1, 1), "float32"), 4))
@example((replace(GOOD, strides=(5, 2, 1)), 4))
@example((replace(GOOD, strides=(4, 2, 1)), 4))
def test_a_view_is_taken_if_and_only_if_its_numbers_may_be(
    drawn: tuple[View, int],
) -> None:
    view, num_blocks = drawn
    try:
        (run,) = runs_of_view(view, num_blocks)
    except LayoutError:
        assert not (is_plain(view, num_blocks) and has_pages(view))
        return
    assert is_plain(view, num_blocks)
    assert has_pages(view)
    assert run.page_bytes <= run.stride_bytes


@given(st.integers(0, 66), st.integers(-1, 1))
@example(64, 0)
@example(65, 0)
def test_a_view_has_a_stride_for_each_of_at_most_64_dimensions(
    dims: int, too_many: int
) -> None:
    view = View((1,) * dims, (1,) * max(dims + too_many, 0), "uint8")
    is_legal = 1 <= dims <= 64 and not too_many
    try:
        runs_of_view(view, 1)
    except LayoutError:
        assert not is_legal
    else:
        assert is_legal


@given(st.sampled_from(sorted(ELEMENT_BYTES)))
def test_an_element_has_the_bytes_that_torch_gives_it(name: str) -> None:
    dtype = getattr(torch, name, None)
    assert dtype is None or dtype.itemsize == ELEMENT_BYTES[name]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=3),
    st.lists(st.integers(1, 64), min_size=1, max_size=2),
)
def test_a_view_lies_within_its_allocation_or_is_refused(
    places: list[tuple[int, int]], sizes: list[int]
) -> None:
    views = [
        replace(GOOD, dtype="uint8", allocation=allocation, offset_bytes=offset)
        for allocation, offset in places
    ]
    is_legal = all(
        view.allocation < len(sizes)
        and view.offset_bytes + extent_bytes(view) <= sizes[view.allocation]
        for view in views
    )
    try:
        check_views(views, [Allocation(size) for size in sizes], 4)
    except LayoutError:
        assert not is_legal
    else:
        assert is_legal


@given(
    st.lists(st.tuples(st.integers(0, 96), st.integers(0, 3)), min_size=1, max_size=4)
)
@example([(0, 2), (32, 2)])
@example([(0, 2), (31, 2)])
def test_storages_are_equal_or_apart(places: list[tuple[int, int]]) -> None:
    """Tensors over stretches of one array: torch sees a storage in each."""
    memory = bytearray(160)
    tensors, stretches = [], []
    for at, rows in places:
        if rows:
            part = memoryview(memory)[at : at + 16 * rows]
            tensors.append(torch.frombuffer(part, dtype=torch.uint8).view(rows, 16))
            stretches.append((at, at + 16 * rows))
        else:
            tensors.append(torch.empty(0, 16, dtype=torch.uint8))
            stretches.append((0, 0))
    distinct = sorted(set(stretches))
    is_legal = (0, 0) not in distinct and all(
        one[1] <= other[0] for one, other in pairwise(distinct)
    )
    try:
        found = storages_of(tensors)
    except LayoutError:
        assert not is_legal
        return
    assert is_legal
    assert len(found) == len(distinct)
    assert [found.index(t.untyped_storage().data_ptr()) for t in tensors] == [
        list(dict.fromkeys(stretches)).index(each) for each in stretches
    ]


@given(
    st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=3),
    st.sampled_from([0, 0, 0, 1]),
    st.integers(-4, 3),
)
def test_each_entry_of_tensors_has_its_numbers(
    splits: list[int], left_out: int, dim: int
) -> None:
    shape = (2, 12, 3)
    tensors = [torch.empty(shape, dtype=torch.uint8) for _ in splits]
    dims = [dim] * (len(splits) - left_out)
    is_legal = not left_out and dim in range(-3, 3)
    if is_legal:
        counts = {divmod(shape[dim], split) for split in splits}
        is_legal = len(counts) == 1 and all(rest == 0 for _, rest in counts)
    try:
        layout = Layout.from_tensors(
            tensors, block_dim=dims, kernel_blocks_per_block=splits
        )
    except LayoutError:
        assert not is_legal
        return
    assert is_legal
    assert [view.block_dim for view in layout.views] == [dim % 3] * len(splits)
    assert layout.num_blocks == shape[dim] // splits[0]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(1, 13)),
        min_size=1,
        max_size=3,
    )
)
@example([(0, 1, 2), (1, 1, 3)])
def test_blocks_are_counted_along_each_tensors_own_dimension(
    entries: list[tuple[int, int, int]],
) -> None:
    tensors = []
    for dim, _, other in entries:
        shape = [other] * 3
        shape[dim] = 12
        tensors.append(torch.empty(shape, dtype=torch.uint8))
    try:
        layout = Layout.from_tensors(
            tensors,
            block_dim=[dim for dim, _, _ in entries],
            kernel_blocks_per_block=[split for _, split, _ in entries],
        )
    except LayoutError:
        assert len({split for _, split, _ in entries}) > 1
        return
    assert {12 // split for _, split, _ in entries} == {layout.num_blocks}
    assert [view.shape.index(12) for view in layout.views] == [
        min(dim, 0) if other == 12 else dim for dim, _, other in entries
    ]
