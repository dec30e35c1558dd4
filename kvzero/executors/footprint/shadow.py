"""The memory of a case as the programs see it: poison under what was stored so far.

Real memory of the case is never written, so its size costs nothing. What was stored is
a set of zero bytes and, rarely, other bytes one by one.
"""

import numpy as np
from numpy.typing import NDArray

from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.stretches import NO_BYTES, Stretches, stretches
from kvzero.layout import Int64Array
from kvzero.memory import Addresses
from kvzero.poison import poison_bytes, poison_key

MAX_OTHER_BYTES = 2**26
"""Bytes other than zero that are kept one by one: 600 MB."""


class OtherBytes:
    """Bytes with any value, sorted by address.

    Attributes:
        addresses: Shape [n], ascending, each once.
        values: Their values, uint8.
    """

    def __init__(self, addresses: Int64Array, values: NDArray[np.uint8]) -> None:
        """Hold sorted bytes."""
        self.addresses = addresses
        self.values = values

    def __len__(self) -> int:
        """Return the number of bytes."""
        return len(self.addresses)

    def overlay(self, addresses: Int64Array, target: NDArray[np.uint8]) -> None:
        """Write the bytes over what is at their addresses in `target`."""
        if not len(self):
            return
        index = np.searchsorted(self.addresses, addresses)
        index = np.minimum(index, len(self) - 1)
        known = self.addresses[index] == addresses
        target[known] = self.values[index[known]]

    def kept(self, where: NDArray[np.bool_]) -> "OtherBytes":
        """Return some of the bytes."""
        return OtherBytes(self.addresses[where], self.values[where])

    def covered_by(self, newer: "OtherBytes") -> "OtherBytes":
        """Return both, the newer where an address is in both."""
        addresses = np.concatenate([newer.addresses, self.addresses])
        values = np.concatenate([newer.values, self.values])
        unique, first = np.unique(addresses, return_index=True)
        return OtherBytes(unique, values[first])

    def extent(self) -> Stretches:
        """Return where they are."""
        return stretches(self.addresses, self.addresses + 1)


NO_OTHER_BYTES = OtherBytes(np.zeros(0, np.int64), np.zeros(0, np.uint8))


class Shadow:
    """Poison, and what was stored over it.

    Attributes:
        base_addresses: Address of each allocation.
        zero: Bytes that hold zero because a program stored it.
        other: Bytes that hold another stored value.
    """

    def __init__(
        self, seed: int, addresses: Addresses, sizes: Int64Array, begin: int
    ) -> None:
        """Begin with poison everywhere.

        Args:
            seed: Seed of the poison.
            addresses: Where the allocations lie.
            sizes: Size of each allocation.
            begin: Address of the arena's first byte.
        """
        self._seed = seed
        self.base_addresses = addresses.base_bytes + begin
        self._sizes = sizes
        self._guard_bytes = addresses.guard_bytes
        self._order = np.argsort(self.base_addresses)
        self._sorted_bases = self.base_addresses[self._order]
        self.zero = NO_BYTES
        self.other = NO_OTHER_BYTES

    def allocation_of(
        self, addresses: Int64Array
    ) -> tuple[NDArray[np.intp], Int64Array]:
        """Return the allocation that each address or its guard belongs to, and offsets.

        An address outside all guards has the allocation -1 and itself as offset.
        """
        if not len(self._order):
            return np.full(len(addresses), -1), addresses
        after = np.searchsorted(self._sorted_bases, addresses, side="right")
        below = self._order[np.maximum(after - 1, 0)]
        above = self._order[np.minimum(after, len(self._order) - 1)]
        guard = self._guard_bytes
        offset = addresses - self.base_addresses[below]
        is_below = (after > 0) & (offset < self._sizes[below] + guard)
        distance = self.base_addresses[above] - addresses
        is_above = ~is_below & (distance > 0) & (distance <= guard)
        allocation = np.where(is_below, below, np.where(is_above, above, -1))
        base = self.base_addresses[allocation]
        return allocation, np.where(allocation < 0, addresses, addresses - base)

    def borders_between(self, begin: int, end: int, most: int) -> list[int]:
        """Return the begins and ends of allocations inside (begin, end), sorted."""
        bases, order = self._sorted_bases, self._order
        near = slice(
            max(int(np.searchsorted(bases, begin)) - 1, 0),
            int(np.searchsorted(bases, end)),
        )
        near = slice(near.start, min(near.stop, near.start + most))
        ends = bases[near] + self._sizes[order[near]]
        borders = np.unique(np.concatenate([bases[near], ends]))
        return [b for b in borders.tolist() if begin < b < end]

    def is_inside(self, addresses: Int64Array, size: int) -> NDArray[np.bool_]:
        """Return whether `size` bytes from each address lie in one allocation."""
        allocation, offset = self.allocation_of(addresses)
        fits = (offset >= 0) & (offset + size <= self._sizes[allocation])
        return (allocation >= 0) & fits

    def bytes_at(self, addresses: Int64Array) -> NDArray[np.uint8]:
        """Return the bytes at some addresses, guards included."""
        allocation, offset = self.allocation_of(addresses)
        used, inverse = np.unique(allocation, return_inverse=True)
        keys = np.array([poison_key(self._seed, int(a)) for a in used], np.int64)
        values: NDArray[np.uint8] = poison_bytes(offset, keys[inverse]).astype(np.uint8)
        values[self.zero.holds(addresses)] = 0
        self.other.overlay(addresses, values)
        return values

    def store(self, zero: Stretches, other: OtherBytes) -> None:
        """Store what one launch left behind.

        Raises:
            NotJudgedError: Too many bytes other than zero.
        """
        if len(self.other) and len(zero.starts):
            self.other = self.other.kept(~zero.holds(self.other.addresses))
        if len(other):
            self.zero = self.zero.minus(other.extent())
            self.other = self.other.covered_by(other)
        self.zero = self.zero.union(zero)
        if len(self.other) > MAX_OTHER_BYTES:
            raise NotJudgedError(f"more than {MAX_OTHER_BYTES} bytes other than zero")
