"""What torch's own operations write, as bytes of a case's memory.

Memory here is addresses only, so an operation is not run: from strides and indices
follow the same bytes that it would have written. Zeros are long stretches whatever the
size of the tensor; any other value is kept element by element, up to a limit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.layout import Int64Array

MAX_WRITE_STRETCHES = 2**24
"""Stretches of one operation: 256 MB of addresses."""
MAX_WRITE_ELEMENTS = 2**22
"""Elements of one operation that are looked at one by one."""

aten = torch.ops.aten


@dataclass(frozen=True)
class Write:
    """What one operation writes.

    Attributes:
        parts: Arrays of addresses and distances whose sums, one of each, are the first
            addresses of all stretches: few numbers, until somebody needs them all.
        length_bytes: Bytes of every stretch.
        values: Their bytes, uint8, shape [n, length_bytes]; None: zeros.
        again_bytes: Bytes that an index names again, left out of the parts.
    """

    parts: tuple[Int64Array, ...]
    length_bytes: int
    values: NDArray[np.uint8] | None = None
    again_bytes: int = 0

    @property
    def count(self) -> int:
        """Return the number of stretches."""
        return prod(map(len, self.parts))

    @cached_property
    def starts(self) -> Int64Array:
        """Return the first address of each stretch, shape [n]."""
        starts, *others = self.parts
        for part in others:
            starts = np.add.outer(starts, part).reshape(-1)
        return starts


Select = Callable[[torch.Tensor], torch.Tensor]
Indices = dict[int, torch.Tensor]


def stretches_of(tensor: torch.Tensor, picked: Indices | None = None) -> Write:
    """Return the bytes of a strided tensor, or of what indices pick of it, as zeros.

    Args:
        tensor: The tensor; its memory is not looked at.
        picked: Dimensions and their indices, int64, in range, all of one shape.

    Raises:
        NotJudgedError: They are too many stretches.
    """
    picked, item = picked or {}, tensor.element_size()
    named = 1
    parts: list[tuple[int, Int64Array]] = []
    if picked:
        offsets = _offsets_of(tensor, picked)
        named = len(offsets)
        step = min(tensor.stride(dim) for dim in picked) * item
        parts.append((step, np.unique(offsets)))
    rest = sorted(
        (stride * item, size)
        for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride()))
        if dim not in picked and size != 1
    )
    length = item
    for step, size in rest:
        if step == length and size:
            length *= size
        else:
            parts.append((step, np.arange(size, dtype=np.int64) * step))
    count = prod(len(part) for _, part in parts)
    if count > MAX_WRITE_STRETCHES:
        raise NotJudgedError(f"{count:,} stretches in one torch operation")
    first = np.array([tensor.data_ptr()], np.int64)
    different = len(parts[0][1]) if picked else 1
    again = (named - different) * (count // max(different, 1)) * length
    # The widest steps outside: then addresses mostly ascend, and nothing is sorted.
    parts.sort(key=lambda each: -each[0])
    return Write((first, *(part for _, part in parts)), length, again_bytes=again)


def _offsets_of(tensor: torch.Tensor, picked: Indices) -> Int64Array:
    """Return the byte offsets that indices add up to, shape [n]."""
    item = tensor.element_size()
    offsets = sum(
        index.numpy() * (tensor.stride(dim) * item) for dim, index in picked.items()
    )
    found: Int64Array = np.asarray(offsets).reshape(-1)
    return found


def elements_of(tensor: torch.Tensor, select: Select) -> torch.Tensor:
    """Return the addresses of some elements, in the shape of the selection.

    Args:
        tensor: The tensor; its memory is not looked at.
        select: Picks elements of any tensor of its shape.
    """
    steps = [stride * tensor.element_size() for stride in tensor.stride()]
    addresses = select(torch.tensor(tensor.data_ptr()).expand(tensor.shape))
    for dim, step in enumerate(steps):
        shape = [-1 if other == dim else 1 for other in range(tensor.dim())]
        along = torch.arange(tensor.shape[dim]).mul_(step).view(shape)
        # A tensor's coordinates, selected as its elements are: torch's own rules hold.
        addresses = addresses + select(along.expand(tensor.shape))
    return addresses


def written_values(
    tensor: torch.Tensor, values: torch.Tensor, select: Select, zeros: Write
) -> Write:
    """Return the write of values over some elements of a tensor.

    Args:
        tensor: The tensor that is written.
        values: They broadcast over the selected elements.
        select: Picks the elements.
        zeros: The bytes of the same elements, if all are zeroed.

    Raises:
        NotJudgedError: They are too many to be kept one by one.
    """
    if values.dtype != tensor.dtype or values.device.type != "cpu":
        values = values.cpu().to(tensor.dtype)
    if not _raw(values).any():
        return zeros
    count = zeros.count * zeros.length_bytes // tensor.element_size()
    if count > MAX_WRITE_ELEMENTS:
        raise NotJudgedError(f"{count:,} elements other than zero in one operation")
    addresses = elements_of(tensor, select)
    values = values.expand(addresses.shape).reshape(-1)
    starts: Int64Array = addresses.reshape(-1).numpy()
    return Write((starts,), tensor.element_size(), _raw(values))


def _raw(values: torch.Tensor) -> NDArray[np.uint8]:
    """Return the bytes of each element, shape [n, size]."""
    size = values.element_size()
    # Not `contiguous`: it leaves a single element its stride of 0, which has no bytes.
    flat = values.detach().reshape(-1).clone(memory_format=torch.contiguous_format)
    raw: NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return raw.reshape(-1, size)


def _fill(tensor: torch.Tensor, value: Any) -> Write:
    """Return what ``fill_`` and ``copy_`` write: any value that broadcasts."""
    values = torch.as_tensor(value)
    return written_values(tensor, values, lambda whole: whole, stretches_of(tensor))


def _zero(tensor: torch.Tensor) -> Write:
    return stretches_of(tensor)


def _copy(tensor: torch.Tensor, source: torch.Tensor, _later: bool = False) -> Write:  # noqa: FBT001, FBT002 - torch's signature
    source.expand(tensor.shape)  # raises as torch does
    return _fill(tensor, source)


def _index_fill(
    tensor: torch.Tensor, dim: int, index: torch.Tensor, value: Any
) -> Write:
    # On one element: torch itself refuses what it refuses.
    one = torch.zeros([1] * tensor.dim(), dtype=tensor.dtype)
    one.index_fill_(dim, torch.zeros_like(index), value)
    whole = _with_a_dim(tensor)
    before: list[torch.Tensor | None] = [None] * (dim % whole.dim())
    return _put(whole, [*before, index], torch.as_tensor(value))


def _with_a_dim(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as what works along a dimension sees it: with one at least."""
    return tensor if tensor.dim() else tensor.view(1)


def _index_put(
    tensor: torch.Tensor,
    indices: list[torch.Tensor | None],
    values: torch.Tensor,
    accumulate: bool = False,  # noqa: FBT001, FBT002 - torch's signature
) -> Write:
    if accumulate:
        raise NotJudgedError("index_put_ that accumulates")
    if values.dtype != tensor.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got "
            f"{tensor.dtype} for the destination and {values.dtype} for the source."
        )
    return _put(tensor, indices, values)


def _put(
    tensor: torch.Tensor, indices: list[torch.Tensor | None], values: torch.Tensor
) -> Write:
    """Return the write of values over what indices pick."""
    picked = _in_range(tensor, indices)
    where = tuple(
        picked.get(dim, slice(None)) for dim in range(max(picked, default=-1) + 1)
    )
    if values.numel() > 1:
        values = values.expand(_picked_shape(tensor, picked))  # raises as torch does
    zeros = stretches_of(tensor, picked)
    return written_values(tensor, values, lambda whole: whole[where], zeros)


def _in_range(
    tensor: torch.Tensor, indices: Iterable[torch.Tensor | None]
) -> dict[int, torch.Tensor]:
    """Return indices of one shape by dimension, masks and negative ones resolved.

    Raises:
        IndexError: As torch raises it.
    """
    picked: dict[int, torch.Tensor] = {}
    dim = 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        for each in _unfolded(tensor, dim, index.cpu()):
            picked[dim] = _LAST.wrapped(each, dim, tensor.shape[dim])
            dim += 1
    if len(picked) < 2:
        return picked
    shapes = [list(index.shape) for index in picked.values()]
    try:
        shape = np.broadcast_shapes(*map(tuple, shapes))
    except ValueError as error:
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with "
            f"shapes {', '.join(map(str, shapes))}"
        ) from error
    return {dim: index.expand(shape) for dim, index in picked.items()}


def _picked_shape(tensor: torch.Tensor, picked: Indices) -> list[int]:
    """Return the shape of what indices pick: theirs in place of their dimensions."""
    dims = sorted(picked)
    theirs = list(picked[dims[0]].shape) if dims else []
    # Torch puts it in front where other dimensions stand between the indexed ones.
    together = dims == list(range(dims[0], dims[-1] + 1)) if dims else True
    first = dims[0] if dims and together else 0
    rest = [size for dim, size in enumerate(tensor.shape) if dim not in picked]
    return [*rest[:first], *theirs, *rest[first:]]


def _unfolded(
    tensor: torch.Tensor, dim: int, index: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    if index.dtype not in (torch.bool, torch.uint8):
        return (index.long(),)
    covered = tuple(tensor.shape[dim : dim + index.dim()])
    if tuple(index.shape) != covered:
        raise IndexError(
            f"The shape of the mask {list(index.shape)} at index {dim} does not match "
            f"the shape of the indexed tensor {list(tensor.shape)} at index {dim}"
        )
    return tuple(torch.nonzero(index, as_tuple=True))


def _wrapped(index: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    bad = (index < -size) | (index >= size)
    if bad.any():
        first = int(index[bad].reshape(-1)[0])
        raise IndexError(
            f"index {first} is out of bounds for dimension {dim} with size {size}"
        )
    return torch.where(index < 0, index + size, index)


class _LastIndex:
    """The last index that was looked at: a loop over views hands over the same again.

    What it held is compared, since others may write its memory meanwhile.
    """

    def __init__(self) -> None:
        self._given = torch.zeros(0, dtype=torch.int64)
        self._size = 0
        self._wrapped = self._given

    def wrapped(self, index: torch.Tensor, dim: int, size: int) -> torch.Tensor:
        """Return an index with negative items counted from the end.

        Raises:
            IndexError: As torch raises it.
        """
        if size != self._size or not torch.equal(index, self._given):
            self._wrapped = _wrapped(index, dim, size)
            self._given, self._size = index.clone(), size
        return self._wrapped


_LAST = _LastIndex()


def _masked_fill(tensor: torch.Tensor, mask: torch.Tensor, value: Any) -> Write:
    mask = mask.cpu().expand(tensor.shape)
    return _put(_with_a_dim(tensor), [_with_a_dim(mask)], torch.as_tensor(value))


Writer = Callable[..., Write]
WRITERS: dict[Any, Writer] = {
    aten.zero_.default: _zero,
    aten.fill_.Scalar: _fill,
    aten.fill_.Tensor: _fill,
    aten.copy_.default: _copy,
    aten.index_fill_.int_Scalar: _index_fill,
    aten.index_fill_.int_Tensor: _index_fill,
    aten.index_put_.default: _index_put,
    aten.masked_fill_.Scalar: _masked_fill,
    aten.masked_fill_.Tensor: _masked_fill,
}
"""What each operation that is followed writes, by its overload."""


def writes_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Write]:
    """Return what an operation writes.

    Args:
        func: Torch's overload.
        args: Its arguments; only the first lies in the case's memory.
        kwargs: Its other arguments.

    Raises:
        NotJudgedError: It is not one that is followed.
    """
    if func is aten._foreach_zero_.default:
        return [_zero(tensor) for tensor in args[0]]
    writer = WRITERS.get(func)
    if writer is None:
        raise NotJudgedError(str(func.name()))
    return [writer(*args, **kwargs)]
