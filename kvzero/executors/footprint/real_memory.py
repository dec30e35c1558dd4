"""Memory that programs may read and that is not the case's: tables, ids, scratch.

Registered are whole storages of tensors. They are read from real CPU memory at the
moment of the launch; whatever is not registered is never touched.
"""

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.layout import Int64Array

_MAX_DEPTH = 4
_MAX_OBJECTS = 200_000
_LEAVES = (int, float, str, bytes, bool, type(None), np.generic, type)


class Region:
    """One registered storage.

    Attributes:
        start: Its first address.
        end: The address behind it.
    """

    def __init__(self, start: int, size: int, owner: object) -> None:
        """Map a storage; its owner is kept alive."""
        self.start = start
        self.end = start + size
        self._owner = owner
        raw: Any = (ctypes.c_uint8 * size).from_address(start)  # Any: untyped
        self._bytes: NDArray[np.uint8] = np.frombuffer(raw, np.uint8)
        self._views: dict[tuple[int, int], NDArray[Any]] = {}

    def read(self, addresses: Int64Array, size: int) -> NDArray[Any]:
        """Return elements of `size` bytes, as signed integers."""
        if len(addresses) == 1:
            begin = int(addresses[0]) - self.start
            return self._bytes[begin : begin + size].view(f"i{size}").copy()
        phase = int(addresses[0] - self.start) % size
        offsets = addresses - (self.start + phase)
        if size > 1:
            if np.any(offsets & (size - 1)):
                where = (addresses - self.start)[:, None] + np.arange(size)
                elements: NDArray[Any] = self._bytes[where].view(f"i{size}")
                return elements[:, 0]
            offsets >>= size.bit_length() - 1
        return self._view(size, phase).take(offsets)

    def elements(self, addresses: Any, size: int) -> Any:  # Any: numbers or arrays
        """Return elements at multiples of their `size` bytes, as signed integers."""
        phase = -self.start % size
        index = (addresses - (self.start + phase)) >> (size.bit_length() - 1)
        return self._view(size, phase)[index]

    def write(self, addresses: Int64Array, values: NDArray[np.uint8]) -> None:
        """Store single bytes for real."""
        self._bytes[addresses - self.start] = values

    def fill_zero(self, begin: int, end: int) -> None:
        """Store zeros for real."""
        self._bytes[begin - self.start : end - self.start] = 0

    def _view(self, size: int, phase: int) -> NDArray[Any]:
        view = self._views.get((size, phase))
        if view is None:
            whole = self._bytes[phase:]
            view = whole[: len(whole) // size * size].view(f"i{size}")
            self._views[size, phase] = view
        return view


class RealMemory:
    """All registered storages.

    Args:
        reserved: Addresses that are never registered: the arena.
    """

    def __init__(self, reserved: range) -> None:
        """Begin with nothing."""
        self._reserved = reserved
        self._regions: dict[int, Region] = {}
        self._last: Region | None = None

    @property
    def regions(self) -> list[Region]:
        """Return all storages."""
        return list(self._regions.values())

    def add(self, tensor: object) -> Region | None:
        """Register the whole storage of a tensor or the memory of an array."""
        if isinstance(tensor, torch.Tensor):
            if not tensor.is_cpu or tensor.layout != torch.strided:
                return None
            storage = tensor.untyped_storage()
            return self._add(storage.data_ptr(), storage.nbytes(), storage)
        if isinstance(tensor, np.ndarray):
            return self._add(tensor.ctypes.data, tensor.nbytes, tensor)
        return None

    def _add(self, start: int, size: int, owner: object) -> Region | None:
        if not size or not start or start in self._reserved:
            return None
        known = self._regions.get(start)
        if known is None or known.end < start + size:
            known = self._regions[start] = Region(start, size, owner)
        return known

    def containing(self, low: int, high: int) -> Region | None:
        """Return the storage that holds all of [low, high), if one does."""
        last = self._last
        if last is not None and last.start <= low and high <= last.end:
            return last
        for region in self._regions.values():
            if region.start <= low and high <= region.end:
                self._last = region
                return region
        return None


def reachable_tensors(root: object) -> Iterable[object]:
    """Yield the tensors and arrays that an object holds, a few levels deep."""
    seen: set[int] = set()
    level = [root]
    for _ in range(_MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if id(item) in seen or isinstance(item, _LEAVES):
                continue
            seen.add(id(item))
            if isinstance(item, (torch.Tensor, np.ndarray)):
                yield item
            elif len(below) < _MAX_OBJECTS:
                below.extend(_parts(item))
        level = below
    yield from (i for i in level if isinstance(i, (torch.Tensor, np.ndarray)))


def _parts(item: object) -> list[object]:
    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, (list, tuple, set, frozenset)):
        return list(item)
    parts = list(getattr(item, "__dict__", {}).values())
    for kind in type(item).__mro__:
        names = kind.__dict__.get("__slots__", ())
        slots = (names,) if isinstance(names, str) else names
        parts.extend(getattr(item, name, None) for name in slots)
    return parts
