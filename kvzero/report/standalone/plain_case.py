"""The case as plain numbers, and what a zeroer is given of it."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

from kvzero.layout import View
from kvzero.memory import live_view

Array = np.ndarray[Any, Any]  # Any: of int64, as everywhere in an exported script
Rows = list[tuple[int, int, int, list[tuple[int, int, int, int]]]]


class Call(NamedTuple):
    """One call: its ids, how they arrive, and whether they must be refused."""

    ids: list[int]
    arrival: str = "list"
    dtype: str = "int64"
    offset_el: int = 0
    step_el: int = 1
    must_be_refused: bool = False


@dataclass(frozen=True)
class PlainCase:
    """The case as plain numbers.

    Attributes:
        broken: The property that the case breaks, if it was saved for one.
        num_blocks: Blocks of the cache.
        allocation_bytes: Size of each allocation.
        allocation_offsets: Where each lies in the arena.
        guard_bytes: Bytes on either side of an allocation that nobody may touch.
        arena_bytes: Memory in all.
        segments: Rows (allocation, offset, block stride, page) in patterns: (repeats,
            bytes from one repeat to the next, allocations from one to the next, rows).
        calls: The calls, in order.
        padding: What listed blocks own, where it may be touched, in the form of
            `segments`: (allocation, origin, bytes of a block, blocks).
        views: The KV tensors, if the zeroer plans its segments from them: shape,
            strides, dtype, block dimension, kernel blocks of a block, allocation,
            offset.
    """

    broken: str
    num_blocks: int
    allocation_bytes: list[int]
    allocation_offsets: list[int]
    guard_bytes: int
    arena_bytes: int
    segments: Rows
    calls: list[Call]
    padding: Rows
    views: list[View]


class Columns(NamedTuple):
    """All segments, one int64 array a column."""

    allocation: Array
    offset_bytes: Array
    stride_bytes: Array
    page_bytes: Array

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.allocation)


def columns_of(patterns: Rows) -> Columns:
    """Return the rows that patterns stand for, as columns."""
    rows = [
        (allocation + i * step_allocations, offset + i * step_bytes, stride, page)
        for times, step_bytes, step_allocations, pattern in patterns
        for i in range(times)
        for allocation, offset, stride, page in pattern
    ]
    return Columns(*np.array(rows, np.int64).reshape(-1, 4).T.copy())


class NotOfferedError(BaseException):
    """A zeroer reads what this script does not offer: nobody's fault."""


class _Offering:
    """Something that says so if it lacks what a zeroer reads."""

    def __getattr__(self, name: str) -> Any:
        """Refuse a name that is not here."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotOfferedError(f"{type(self).__name__}.{name}")


@dataclass(frozen=True)
class CaseLayout(_Offering):
    """The layout as a zeroer reads it."""

    num_blocks: int
    allocation_sizes: Array
    table: Columns

    @property
    def runs(self) -> list[SimpleNamespace]:
        """Return the segments one by one."""
        names = ("allocation", "offset_bytes", "stride_bytes", "page_bytes")
        rows = zip(*(column.tolist() for column in self.table))
        return [SimpleNamespace(**dict(zip(names, row)), axes=()) for row in rows]


@dataclass(frozen=True)
class Pool(_Offering):
    """The memory that a zeroer is built for.

    Attributes:
        layout: What lies where.
        tensors: One uint8 tensor an allocation.
        device: Their device.
        kv_views: The KV tensors, as plain numbers.
    """

    layout: CaseLayout
    tensors: tuple[torch.Tensor, ...]
    device: torch.device
    kv_views: tuple[View, ...] = ()

    @cached_property
    def kv_tensors(self) -> tuple[torch.Tensor, ...]:
        """Return the live KV tensors."""
        return tuple(
            live_view(self.tensors[view.allocation], view) for view in self.kv_views
        )

    @cached_property
    def base_addresses(self) -> Array:
        """Return the address of each allocation."""
        return np.array([t.data_ptr() for t in self.tensors], np.int64)

    @cached_property
    def segment_addresses(self) -> Array:
        """Return the address of block 0 of each segment."""
        table = self.layout.table
        return self.base_addresses[table.allocation] + table.offset_bytes
