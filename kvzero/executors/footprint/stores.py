"""What the programs of a launch stored, with who stored it.

Zeros are stretches, one or a few a program; every other value is kept byte by byte.
Both remember the programs that they come from, so that a wrong byte is traced back to
its writer without a second run.
"""

from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.executors.footprint.domain import Array, Domain, some
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.layout import Int64Array
from kvzero.limits import Grid
from kvzero.observation import Writer

MAX_PAIRS = 20_000_000
"""Pairs of bytes and stores that are compared where stores overlap."""


_FEW = 64
"""Stretches up to which joining them by row costs more than it spares later."""
_SEVERAL = -2
"""Stands for the programs of a store that several programs made alike; loads have
another number, so that the two never look like one program's own."""


class Pairs(NamedTuple):
    """Which bytes each of some stores covers.

    Attributes:
        byte: Index of the byte.
        item: Index of the stretch in its store.
    """

    byte: NDArray[np.intp]
    item: NDArray[np.intp]


class _Bounded:
    """What stores know of themselves once: a loop asks at each turn."""

    def flat(self) -> tuple[Int64Array, Int64Array]:
        """Return first addresses and ends, one item a stretch."""
        raise NotImplementedError

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """Return the lowest address and the highest end; (0, 0) for no byte."""
        starts, ends = self.flat()
        if len(starts) == 1:
            return int(starts[0]), int(ends[0])
        return (int(starts.min()), int(ends.max())) if len(starts) else (0, 0)


class ZeroStore(_Bounded):
    """Zeros that one store instruction wrote, for many programs.

    Attributes:
        domain: The programs.
        place: File and line of the store.
        starts: First addresses, int64, shape [1|A, 1|B, *outer].
        lengths: Bytes from each: an int, or an array that broadcasts to their shape;
            0: not stored.
    """

    is_zero: Literal[True] = True
    is_atomic: Literal[False] = False

    def __init__(
        self, domain: Domain, place: str, starts: Int64Array, lengths: Array | int
    ) -> None:
        """Hold the stretches."""
        self.domain = domain
        self.place = place
        self.starts = starts
        self.lengths = lengths

    def is_empty(self) -> bool:
        """Return whether no byte is stored."""
        return not some(self.lengths)

    def flat(self) -> tuple[Int64Array, Int64Array]:
        """Return first addresses and ends, one item a stretch, empty ones too."""
        starts = self.starts
        return starts.reshape(-1), (starts + self.lengths).reshape(-1)

    def joined(self) -> tuple[Int64Array, Int64Array]:
        """Return the stretches, with rows that continue the row before joined to it."""
        starts = self.starts
        if starts.ndim != 2 or starts.shape[0] < 2 or starts.size < _FEW:
            return self.flat()
        ends = starts + self.lengths
        first = np.ones(len(starts), bool)
        first[1:] = (starts[1:] != ends[:-1]).any(axis=1)
        last = np.append(first[1:], True)
        return starts[first].reshape(-1), ends[last].reshape(-1)

    def program_of(self, item: int) -> Grid:
        """Return the program that stored an item of `flat`."""
        row, col = np.unravel_index(item, self.starts.shape)[:2]
        return self.domain.program(int(row), int(col))

    def programs(self, items: NDArray[np.intp]) -> Int64Array:
        """Return the linear ids of the programs that stored some items."""
        at = np.unravel_index(items, self.starts.shape)
        return linear_ids(self.domain, at[0], at[1], self.starts.shape[:2], _SEVERAL)

    def bytes_of(self, items: NDArray[np.intp], addresses: Int64Array) -> Array:
        """Return what some items left at some addresses: zeros."""
        del items
        return np.zeros(len(addresses), np.uint8)


class ByteStore(_Bounded):
    """Elements that one store instruction wrote, for many programs.

    Attributes:
        domain: The programs.
        place: File and line of the store.
        addresses: Of each element, int64, shape [n].
        values: Bytes of each element, uint8, shape [n, size].
        rows: Row of its program in the domain, shape [n].
        cols: Column of its program, shape [n].
        shape: Rows and columns over which the store differs.
        is_atomic: Whether an atomic operation stored them.
    """

    is_zero: Literal[False] = False

    def __init__(
        self,
        domain: Domain,
        place: str,
        addresses: Int64Array,
        values: NDArray[np.uint8],
        at: tuple[NDArray[np.intp], NDArray[np.intp]],
        shape: tuple[int, int],
        *,
        is_atomic: bool = False,
    ) -> None:
        """Hold the elements."""
        self.is_atomic = is_atomic
        self.shape = shape
        self.domain = domain
        self.place = place
        self.addresses = addresses
        self.values = values
        self.rows, self.cols = at

    def is_empty(self) -> bool:
        """Return whether no byte is stored."""
        return not len(self.addresses)

    def flat(self) -> tuple[Int64Array, Int64Array]:
        """Return first addresses and ends, one item an element."""
        return self.addresses, self.addresses + self.values.shape[1]

    def joined(self) -> tuple[Int64Array, Int64Array]:
        """Return the stretches that the elements cover."""
        return self.flat()

    def program_of(self, item: int) -> Grid:
        """Return the program that stored an item of `flat`."""
        return self.domain.program(int(self.rows[item]), int(self.cols[item]))

    def programs(self, items: NDArray[np.intp]) -> Int64Array:
        """Return the linear ids of the programs that stored some items."""
        rows, cols = self.rows[items], self.cols[items]
        return linear_ids(self.domain, rows, cols, self.shape, _SEVERAL)

    def bytes_of(self, items: NDArray[np.intp], addresses: Int64Array) -> Array:
        """Return what some items left at some addresses."""
        found: Array = self.values[items, addresses - self.addresses[items]]
        return found


Store = ZeroStore | ByteStore


def linear_ids(
    domain: Domain,
    rows: NDArray[np.intp],
    cols: NDArray[np.intp],
    shape: tuple[int, ...],
    several: int = -1,
) -> Int64Array:
    """Return one number a program, 0 or more: equal only for the same program.

    Args:
        domain: The programs.
        rows: Row of each access.
        cols: Column of each access.
        shape: Rows and columns over which the access differs.
        several: The number of an access that several programs made alike.
    """
    if any(1 == own < whole for own, whole in zip(shape, domain.shape)):
        return np.full(rows.shape, several, np.int64)
    x, y, z = (
        np.broadcast_to(axis, domain.shape)[rows, cols].astype(np.int64)
        for axis in domain.ids
    )
    width, height, _ = domain.grid
    found: Int64Array = x + width * (y + height * z)
    return found


def covering(store: Store, addresses: Int64Array) -> Pairs:
    """Return which items of a store cover which bytes.

    Args:
        store: The store.
        addresses: Of single bytes, shape [n].

    Raises:
        NotJudgedError: They are too many to compare.
    """
    starts, ends = store.flat()
    longest = int((ends - starts).max(initial=0))
    order = np.argsort(starts, kind="stable")
    in_order = starts[order]
    first = np.searchsorted(in_order, addresses - longest, side="right")
    last = np.searchsorted(in_order, addresses, side="right")
    counts = last - first
    total = int(counts.sum())
    if total > MAX_PAIRS:
        raise NotJudgedError(
            f"stores overlap in more than {MAX_PAIRS} places at {store.place}"
        )
    byte = np.repeat(np.arange(len(addresses)), counts)
    skipped = np.repeat(np.cumsum(counts) - counts, counts)
    item = order[np.repeat(first, counts) + np.arange(total) - skipped]
    covers = ends[item] > addresses[byte]
    return Pairs(byte[covers], item[covers])


def writer_of(stores: list[Store], address: int) -> Writer | None:
    """Return the last of some stores to write a byte, and its first program."""
    for store in reversed(stores):
        starts, ends = store.flat()
        found = np.flatnonzero((starts <= address) & (address < ends))
        if len(found):
            return Writer(store.program_of(int(found[0])), store.place)
    return None
