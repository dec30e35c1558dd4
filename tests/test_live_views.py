"""Live tensors read through a few methods: which view each is, and what is told of one.

The tensors are made up, so that their addresses are drawn, too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.errors import LayoutError
from kvzero.layout import MAX_BYTES, Allocation, Layout, Tile, View
from kvzero.views import (
    check_views,
    layout_of_tensors,
    layout_of_views,
    storages_of,
    tiles_of_views,
)


@dataclass(frozen=True)
class Storage:
    """Memory that nobody reads."""

    address: int
    size_bytes: int

    def data_ptr(self) -> int:
        return self.address

    def nbytes(self) -> int:
        return self.size_bytes


@dataclass(frozen=True)
class Tensor:
    """A tensor of which only the numbers are there."""

    shape: tuple[int, ...]
    storage: Storage
    offset: int = 0
    dtype: str = "torch.bfloat16"

    def stride(self) -> tuple[int, ...]:
        steps, step = [], 1
        for size in reversed(self.shape):
            steps.append(step)
            step *= size
        return tuple(reversed(steps))

    def storage_offset(self) -> int:
        return self.offset

    def element_size(self) -> int:
        return 2

    def untyped_storage(self) -> Storage:
        return self.storage


@dataclass(frozen=True)
class HalfTensor:
    """What only looks like a tensor from one side."""

    storage_offset: int = 0


def outcome(call: Callable[[], object]) -> object:
    """Return what a call returns, or how it is refused."""
    try:
        return call()
    except LayoutError as error:
        return str(error)


def view_of(tensor: Tensor, dim: int, ratio: int, allocation: int) -> View:
    return View(
        tensor.shape,
        tensor.stride(),
        "bfloat16",
        dim % len(tensor.shape),
        ratio,
        allocation,
        2 * tensor.offset,
    )


@st.composite
def entries(draw: st.DrawFn) -> list[list[Tensor]]:
    """Draw tensors of two blocks each, some in tuples, some in one storage."""
    storages = [Storage(4096 * (i + 1), 4096) for i in range(3)]
    found = []
    for _ in range(draw(st.integers(1, 3))):
        shape = (2, *draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
        places = st.builds(
            Tensor,
            st.just(shape),
            st.sampled_from(storages),
            st.integers(0, 3).map(lambda i: 64 * i),
        )
        found.append(draw(st.lists(places, min_size=1, max_size=2)))
    return found


@given(entries(), st.booleans(), st.booleans(), st.integers(1, 3))
@example(
    [[Tensor((2, 1), Storage(16, 64)), Tensor((2, 3), Storage(16, 64))]], *[True] * 2, 1
)
def test_each_tensor_is_a_view_of_its_storage(
    drawn: list[list[Tensor]], is_list: bool, is_told: bool, ratio: int
) -> None:
    # The last entry has more kernel blocks, each of its own.
    drawn[-1] = [replace(t, shape=(2 * ratio, *t.shape[1:])) for t in drawn[-1]]
    kind = list if is_list else tuple
    tensors = [each[0] if len(each) == 1 else kind(each) for each in drawn]
    storages = list(dict.fromkeys(t.storage for each in drawn for t in each))
    ratios = [1] * (len(drawn) - 1) + [ratio]
    views = tuple(
        view_of(t, 0, ratio_of, storages.index(t.storage))
        for each, ratio_of in zip(drawn, ratios)
        for t in each
    )
    told: dict[str, Any] = {"num_blocks": 2} if is_told else {}  # Any: keywords
    told |= {} if ratio == 1 else {"kernel_blocks_per_block": ratios}
    seen = outcome(lambda: layout_of_tensors(tensors=tensors, **told))
    pieces = [Allocation(s.size_bytes) for s in storages]
    expected = outcome(
        lambda: layout_of_views(
            views=views, allocations=pieces, num_blocks=2, widest_per_address=True
        )
    )
    assert seen == expected
    assert storages_of(tensors) == tuple(s.address for s in storages)


@given(
    st.integers(1, 4),
    st.integers(-6, 5),
    st.sampled_from([-1, 0, 1, 2, MAX_BYTES, MAX_BYTES + 1]),
    st.booleans(),
    st.integers(0, 2),
)
def test_the_number_that_a_tensor_cannot_have_is_told(
    dims: int, dim: int, ratio: int, in_tuple: bool, before: int
) -> None:
    first, *others = (
        Tensor((2,) * dims, Storage(4096 * (i + 1), 4096)) for i in range(before + 1)
    )
    tensor = others[-1] if others else first
    name = f"tensors[{before}]" + "[0]" * in_tuple
    told = None
    if dim not in range(-dims, dims):
        told = (
            f"block_dim of {name}={dim}, but must be an int from {-dims} to {dims - 1}"
        )
    elif not 1 <= ratio <= MAX_BYTES:
        told = (
            f"kernel_blocks_per_block of {name}={ratio}, but must be an int from 1 to"
        )
    elif ratio > 2 or (before and ratio != 2):
        told = f"{name}.shape[{dim % dims}]=2, but must be num_blocks"
    seen = outcome(
        lambda: layout_of_tensors(
            [*[first, *others][:before], (tensor,) if in_tuple else tensor],
            block_dim=[0] * before + [dim],
            kernel_blocks_per_block=[2] * before + [ratio],
        )
    )
    if told:
        assert str(seen).startswith(told)
    else:
        assert isinstance(seen, Layout)


@given(
    st.integers(0, 3),
    st.sampled_from([None, 7, HalfTensor(), "kv"]),
    st.sampled_from(["alone", "in a tuple", "all"]),
)
def test_what_is_no_tensor_is_told_with_its_place(
    before: int, odd: object, where: str
) -> None:
    tensor = Tensor((2, 2), Storage(4096, 4096))
    made: object = [*[tensor] * before, odd]
    name = f"tensors[{before}]"
    if where == "in a tuple":
        made, name = [*[tensor] * before, (tensor, odd)], f"{name}[1]"
    if where == "all":
        made = tensor
    seen = outcome(lambda: layout_of_tensors(made))  # type: ignore[arg-type]  # refused
    told = f"{name} is of type {type(odd).__name__}, but must be a tensor or a tuple"
    alone = "tensors is one tensor, but must be a sequence: pass [tensor]"
    assert str(seen).startswith(alone if where == "all" else told)


@given(st.integers(1, 4), st.integers(0, 5), st.booleans())
def test_numbers_are_one_for_each_entry(count: int, given_: int, of_dims: bool) -> None:
    tensors = [Tensor((2, 2), Storage(4096, 4096))] * count
    name = "block_dim" if of_dims else "kernel_blocks_per_block"
    values = [0 if of_dims else 1] * given_
    keyword: dict[str, Any] = {name: values}  # Any: keywords
    seen = outcome(lambda: layout_of_tensors(tensors, **keyword))
    if given_ == count:
        assert isinstance(seen, Layout)
    else:
        assert str(seen) == (
            f"{name}={values}, but must be one number or one for each of the {count} "
            f"entries of tensors"
        )


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=4)
)
@example([(1, 0)])
@example([(0, 1)])
@example([(1, 2), (3, 2)])
@example([(1, 2), (2, 2)])
def test_storages_without_memory_or_in_each_other_are_told(
    stretches: list[tuple[int, int]],
) -> None:
    tensors = [Tensor((1, 1), Storage(8 * a, 8 * n)) for a, n in stretches]
    named = {s: f"tensors[{i}]" for i, s in reversed([*enumerate(stretches)])}
    told, end, last = None, 0, ""
    for address, size in sorted(named):
        name = named[address, size]
        if not address or not size:
            told = f"{name} has no memory, but must: a KV tensor has a storage"
            break
        if last and address < end:
            told = f"{name} lies in a storage that overlaps that of {last}, but "
            break
        end, last = address + size, name
    seen = outcome(lambda: storages_of(tensors))
    found = [8 * a for a, _ in dict.fromkeys(stretches)]
    assert str(seen).startswith(told or "(")
    assert told or seen == tuple(found)


@given(st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans())
def test_views_at_one_address_are_as_wide_as_asked(
    page: int, other: int, is_widest: bool, is_told: bool
) -> None:
    views = [View((2, n), (4, 1)) for n in (page, other)]
    pieces = [Allocation(8)]
    assert (
        outcome(lambda: check_views(views=views, allocations=pieces, num_blocks=2))
        is None
    )
    told = {"widest_per_address": is_widest} if is_told or is_widest else {}
    layout = layout_of_views(views=views, allocations=pieces, num_blocks=2, **told)
    pages = [max(page, other)] if is_widest else [page, other]
    assert layout.table.page_bytes.tolist() == pages
    assert layout.tiles == ()


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from([0, 7, 8, 9, 16, 24, 32])),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1, 2]),
    st.integers(0, 3),
)
@example([(0, 0), (0, 8)], 1, 1)
@example([(0, 0), (0, 9), (1, 9)], 1, 2)
@example([(0, 0), (0, 8), (0, 16), (0, 24)], 1, 3)
def test_tiles_begin_a_stride_apart_or_the_first_shared_byte_is_told(
    places: list[tuple[int, int]], ratio: int, num_blocks: int
) -> None:
    stride = 8 * ratio
    views = [
        View((num_blocks * ratio, 1), (8, 1), "uint8", 0, ratio, where, offset)
        for where, offset in places
    ]
    tiles: list[Tile] = []
    for where in dict.fromkeys(where for where, _ in places):
        end = 0
        for offset in sorted(at for other, at in places if other == where):
            if offset >= end:
                tiles.append(
                    Tile(stride, num_blocks, offset, where)
                    if num_blocks
                    else Tile(1, 1)
                )
                end = offset + stride
    seen = outcome(lambda: tiles_of_views(views, num_blocks))
    if not num_blocks:
        assert seen == ()
        return
    spans = sorted((t.allocation, t.origin_bytes) for t in tiles)
    shared = [
        f"blocks of two groups of views interleave at byte {begin} of allocation "
        f"{where}, but"
        for (before, first), (where, begin) in pairwise(spans)
        if before == where and begin < first + stride * num_blocks
    ]
    if shared:
        assert str(seen).startswith(shared[0])
    else:
        assert seen == tuple(tiles)
        assert [tile.axes for tile in tiles] == [()] * len(tiles)
