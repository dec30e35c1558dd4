"""Sets of bytes as sorted, disjoint stretches, on NumPy arrays.

The arithmetic is the oracle's; here it only changes clothes, without copying.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero import oracle
from kvzero.layout import Int64Array
from kvzero.oracle import Intervals


class Stretches(NamedTuple):
    """A set of bytes: [start, end) stretches, sorted, disjoint and not touching."""

    starts: Int64Array
    ends: Int64Array

    @property
    def total_bytes(self) -> int:
        """Return the number of bytes in the set."""
        return int(np.add.reduce(self.ends - self.starts))

    def as_intervals(self) -> Intervals:
        """Return the set as the oracle writes it."""
        return Intervals(_as_tensor(self.starts), _as_tensor(self.ends))

    def union(self, other: "Stretches") -> "Stretches":
        """Return the bytes in either set."""
        if not len(other.starts):
            return self
        if not len(self.starts):
            return other
        return stretches(
            np.concatenate([self.starts, other.starts]),
            np.concatenate([self.ends, other.ends]),
        )

    def minus(self, other: "Stretches") -> "Stretches":
        """Return the bytes of this set that are not in the other."""
        if not len(self.starts) or not len(other.starts):
            return self
        if other.covers(self):
            return NO_BYTES
        return of_intervals(oracle.subtract(self.as_intervals(), other.as_intervals()))

    def covers(self, other: "Stretches") -> bool:
        """Return whether all bytes of the other set are in this one."""
        if not len(self.starts):
            return not len(other.starts)
        # Stretches never touch, so that each of the other's lies inside a single one.
        index = self.starts.searchsorted(other.starts, side="right") - 1
        inside = (other.ends <= self.ends[index]) & (index >= 0)
        return bool(np.count_nonzero(inside) == len(inside))

    def common(self, other: "Stretches") -> "Stretches":
        """Return the bytes in both sets."""
        if not len(self.starts) or not len(other.starts):
            return NO_BYTES
        return of_intervals(oracle.intersect(self.as_intervals(), other.as_intervals()))

    def holds(self, addresses: Int64Array, size: int = 1) -> NDArray[np.bool_]:
        """Return whether any of the `size` bytes from each address is in the set."""
        if not len(self.starts):
            return np.zeros(addresses.shape, bool)
        index = np.searchsorted(self.ends, addresses, side="right")
        inside = index < len(self.starts)
        starts = self.starts[np.minimum(index, len(self.starts) - 1)]
        return inside & (starts < addresses + size)


def _as_tensor(addresses: Int64Array) -> torch.Tensor:
    """Return addresses as torch takes them: in memory that may be written."""
    writeable = addresses.flags.writeable
    return torch.from_numpy(addresses if writeable else addresses.copy())


def of_intervals(intervals: Intervals) -> Stretches:
    """Return one of the oracle's sets."""
    return Stretches(intervals.starts.numpy(), intervals.ends.numpy())


def stretches(starts: Int64Array, ends: Int64Array) -> Stretches:
    """Return the bytes of any stretches: unsorted, overlapping or empty ones too."""
    return Stretches(*oracle.merged(starts, ends))


NO_BYTES = Stretches(np.zeros(0, np.int64), np.zeros(0, np.int64))
