"""Views to a layout, and live tensors to views.

`runs_of_view` holds the rule that turns one view into pages. Here a layout is made of
many views, and of live tensors, which are read through a few methods so that no torch
is needed.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, SupportsInt, TypeGuard

import numpy as np

from kvzero.errors import LayoutError
from kvzero.layout import (
    MAX_BYTES,
    Allocation,
    Axis,
    Layout,
    Run,
    Tile,
    View,
    axes_size,
    axes_steps,
    check_int,
)
from kvzero.pages import check_element, extent_bytes, runs_of_view

__all__ = [
    "StorageLike",
    "TensorLike",
    "Tensors",
    "check_views",
    "layout_of_tensors",
    "layout_of_views",
    "runs_of_view",
    "storages_of",
    "tiles_of_views",
]


class StorageLike(Protocol):
    """What is asked of a tensor's storage."""

    def data_ptr(self) -> int:
        """Return its address."""

    def nbytes(self) -> int:
        """Return its size in bytes."""


class TensorLike(Protocol):
    """What is asked of a live tensor."""

    @property
    def shape(self) -> Sequence[int]:
        """Return the sizes of its dimensions."""

    @property
    def dtype(self) -> object:
        """Return its element type, whose text is ``torch.NAME``."""

    def stride(self) -> Sequence[int]:
        """Return the strides of its dimensions, in elements."""

    def storage_offset(self) -> SupportsInt:
        """Return where it begins in its storage, in elements."""

    def element_size(self) -> int:
        """Return the bytes of one element."""

    def untyped_storage(self) -> StorageLike:
        """Return the memory that it lies in."""


Tensors = Iterable[TensorLike | Sequence[TensorLike]]
"""Live KV tensors, or tuples of them: one entry a layer."""


class Storage(NamedTuple):
    """A stretch of live memory."""

    address: int
    size_bytes: int


def layout_of_views(
    views: Iterable[View],
    allocations: Iterable[Allocation],
    num_blocks: int,
    *,
    widest_per_address: bool = False,
    with_tiles: bool = False,
) -> Layout:
    """Return the layout of views, the views included.

    Args:
        views: The KV tensors, in table order.
        allocations: The memory that they lie in.
        num_blocks: Blocks of the cache.
        widest_per_address: Views that begin at one address are one segment with the
            widest of their pages (overlaid cache groups).
        with_tiles: Declare that padding belongs to the block before it; see
            `tiles_of_views`. Without it nothing but the pages may be touched.

    Raises:
        LayoutError: A view is refused by `runs_of_view`, leaves its allocation, or
            shares bytes of different blocks with another.
    """
    views, allocations = tuple(views), tuple(allocations)
    check_views(views, allocations, num_blocks)
    return Layout(
        num_blocks,
        allocations,
        _runs_of_views(views, num_blocks),
        tiles=tiles_of_views(views, num_blocks) if with_tiles else (),
        views=views,
        widest_per_address=widest_per_address,
    )


def check_views(
    views: Sequence[View],
    allocations: Sequence[Allocation],
    num_blocks: int,
    *,
    names: Sequence[str] = (),
) -> None:
    """Refuse views that no tensor over the allocations could have.

    Args:
        views: The views.
        allocations: The memory that they lie in.
        num_blocks: Blocks of the cache.
        names: What errors call the views.

    Raises:
        LayoutError: `runs_of_view` refuses a view, or it leaves its allocation.
    """
    sizes = np.repeat(
        np.array([a.size_bytes for a in allocations], np.int64),
        [a.count for a in allocations],
    )
    for index, view in enumerate(views):
        name = names[index] if names else f"views[{index}]"
        runs_of_view(view, num_blocks, name=name)
        if view.allocation >= len(sizes):
            raise LayoutError(
                f"{name}.allocation={view.allocation}, but must be in "
                f"range({len(sizes)})"
            )
        end = view.offset_bytes + extent_bytes(view)
        if end > sizes[view.allocation]:
            raise LayoutError(
                f"{name}.shape={view.shape}: the view reaches byte {end}, but must lie "
                f"within the {sizes[view.allocation]} B of allocation {view.allocation}"
            )


def tiles_of_views(views: Iterable[View], num_blocks: int) -> tuple[Tile, ...]:
    """Return what each block owns if padding belongs to the block before it.

    Views of one block stride that begin less than that stride apart are packed in one
    block, which begins where the first of them does and reaches to the next block.

    Raises:
        LayoutError: Blocks of that kind would interleave, so no tile names one owner.
    """
    views = tuple(views)
    families: dict[tuple[int, int, tuple[Axis, ...]], list[int]] = defaultdict(list)
    for view, run in zip(views, _runs_of_views(views, num_blocks)):
        outer = run.axes[:-1] if view.kernel_blocks_per_block > 1 else run.axes
        families[run.allocation, run.stride_bytes, outer].append(run.offset_bytes)
    if not num_blocks:
        return ()
    tiles: list[Tile] = []
    for (allocation, stride, axes), offsets in families.items():
        origin = -stride
        for offset in sorted(offsets):
            if offset >= origin + stride:
                origin = offset
                tiles.append(Tile(stride, num_blocks, origin, allocation, axes))
    _check_tiles_apart(tiles)
    return tuple(tiles)


def layout_of_tensors(
    tensors: Tensors,
    *,
    block_dim: int | Sequence[int] = 0,
    kernel_blocks_per_block: int | Sequence[int] = 1,
    num_blocks: int | None = None,
) -> Layout:
    """Return the layout of live KV tensors; see `Layout.from_tensors`."""
    entries = _entries(tensors)
    found = _storages(entries)
    allocation_of = {storage: index for index, storage in enumerate(found)}
    dims = _for_each(block_dim, len(entries), "block_dim")
    splits = _for_each(kernel_blocks_per_block, len(entries), "kernel_blocks_per_block")
    views = tuple(
        _view_of_tensor(name, tensor, dim, split, allocation_of[_storage(tensor)])
        for entry, dim, split in zip(entries, dims, splits)
        for name, tensor in entry
    )
    if num_blocks is None:
        if not views:
            raise LayoutError("tensors=[], but must hold one: or pass num_blocks")
        num_blocks = (
            views[0].shape[views[0].block_dim] // views[0].kernel_blocks_per_block
        )
    allocations = tuple(Allocation(storage.size_bytes) for storage in found)
    names = [name for entry in entries for name, _ in entry]
    check_views(views, allocations, num_blocks, names=names)
    return layout_of_views(views, allocations, num_blocks, widest_per_address=True)


def storages_of(tensors: Tensors) -> tuple[int, ...]:
    """Return the addresses of the tensors' storages, in the layout's allocation order.

    The address of block 0 of a segment is that of its allocation plus its offset.

    Args:
        tensors: The tensors, as given to `Layout.from_tensors`.
    """
    return tuple(storage.address for storage in _storages(_entries(tensors)))


def _runs_of_views(views: Sequence[View], num_blocks: int) -> tuple[Run, ...]:
    """Return the one run of each view."""
    return tuple(
        run
        for index, view in enumerate(views)
        for run in runs_of_view(view, num_blocks, name=f"views[{index}]")
    )


def _check_tiles_apart(tiles: Sequence[Tile]) -> None:
    """Refuse tiles that share memory: each byte has one owner."""
    owner = np.repeat(np.arange(len(tiles)), [axes_size(t.axes) for t in tiles])
    if not len(owner):
        return
    begin = np.concatenate([t.origin_bytes + axes_steps(t.axes)[0] for t in tiles])
    size = np.array([t.stride_bytes * t.count for t in tiles], np.int64)[owner]
    where = np.array([t.allocation for t in tiles], np.int64)[owner]
    order = np.lexsort((begin, where))
    begin, end, where = begin[order], (begin + size)[order], where[order]
    bad = np.flatnonzero((where[1:] == where[:-1]) & (begin[1:] < end[:-1]))
    if len(bad):
        at = int(bad[0])
        raise LayoutError(
            f"blocks of two groups of views interleave at byte {begin[at + 1]} of "
            f"allocation {where[at]}, but must not where padding has one owner: leave "
            f"the tiles out"
        )


def _is_tensor(value: object) -> TypeGuard[TensorLike]:
    return hasattr(value, "untyped_storage") and hasattr(value, "storage_offset")


def _entries(tensors: Tensors) -> list[list[tuple[str, TensorLike]]]:
    """Return the tensors of each entry, named as errors name them."""
    if _is_tensor(tensors):
        raise LayoutError(
            "tensors is one tensor, but must be a sequence: pass [tensor]"
        )
    entries: list[list[tuple[str, TensorLike]]] = []
    for index, entry in enumerate(tensors):
        name = f"tensors[{index}]"
        if _is_tensor(entry):
            entries.append([(name, entry)])
        elif isinstance(entry, (tuple, list)):
            entries.append(
                [
                    (f"{name}[{i}]", _tensor(f"{name}[{i}]", t))
                    for i, t in enumerate(entry)
                ]
            )
        else:
            _tensor(name, entry)
    return entries


def _tensor(name: str, value: object) -> TensorLike:
    if not _is_tensor(value):
        raise LayoutError(
            f"{name} is of type {type(value).__name__}, but must be a tensor or a "
            f"tuple of tensors"
        )
    return value


def _storage(tensor: TensorLike) -> Storage:
    storage = tensor.untyped_storage()
    return Storage(storage.data_ptr(), storage.nbytes())


def _storages(entries: list[list[tuple[str, TensorLike]]]) -> list[Storage]:
    """Return the distinct storages, in order of first use."""
    named: dict[Storage, str] = {}
    for entry in entries:
        for name, tensor in entry:
            named.setdefault(_storage(tensor), name)
    end, last = 0, ""
    for storage in sorted(named):
        if not storage.address or not storage.size_bytes:
            raise LayoutError(
                f"{named[storage]} has no memory, but must: a KV tensor has a storage"
            )
        if storage.address < end:
            raise LayoutError(
                f"{named[storage]} lies in a storage that overlaps that of {last}, but "
                f"storages must be equal or apart: make both views of one tensor"
            )
        end, last = storage.address + storage.size_bytes, named[storage]
    return list(named)


def _for_each(value: int | Sequence[int], count: int, name: str) -> list[int]:
    """Return one number for each entry."""
    values = [value] * count if isinstance(value, int) else list(value)
    if len(values) != count:
        raise LayoutError(
            f"{name}={values}, but must be one number or one for each of the {count} "
            f"entries of tensors"
        )
    return values


def _view_of_tensor(
    name: str, tensor: TensorLike, block_dim: int, kernel_blocks: int, allocation: int
) -> View:
    """Return the view of a live tensor."""
    dims = len(tensor.shape)
    check_int(f"block_dim of {name}", block_dim, -dims, dims - 1)
    check_int(f"kernel_blocks_per_block of {name}", kernel_blocks, 1, MAX_BYTES)
    dtype = str(tensor.dtype).removeprefix("torch.")
    check_element(dtype, name)
    return View(
        tuple(int(size) for size in tensor.shape),
        tuple(int(stride) for stride in tensor.stride()),
        dtype,
        block_dim % dims,
        kernel_blocks,
        allocation,
        int(tensor.storage_offset()) * tensor.element_size(),
    )
