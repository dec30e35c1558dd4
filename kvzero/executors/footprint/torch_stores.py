"""Stores that torch's own operations make in a case's memory, settled in batches.

A loop over pages makes one small operation after another; they are gathered, and merged
into the shadow when a kernel is launched or a call ends. To everything behind it such a
batch looks like a launch of one program.
"""

from collections.abc import Iterator
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from kvzero.executors.footprint.domain import Domain
from kvzero.executors.footprint.evaluate import LaunchResult
from kvzero.executors.footprint.frame import Allowance, NotJudgedError
from kvzero.executors.footprint.shadow import OtherBytes, Shadow
from kvzero.executors.footprint.stores import ByteStore, ZeroStore
from kvzero.executors.footprint.stretches import Stretches, stretches
from kvzero.executors.footprint.torch_writes import Write
from kvzero.layout import Int64Array

_HOST = Domain((1, 1), (np.int32(0), np.int32(0), np.int32(0)))
"""Whoever calls torch: one program."""

Noted = tuple[Write, str]


class TorchStores:
    """What torch wrote since the last settlement."""

    def __init__(self, shadow: Shadow, allowance: Allowance) -> None:
        """Begin with nothing.

        Args:
            shadow: The memory that is written.
            allowance: What may still be evaluated of the case.
        """
        self._shadow = shadow
        self._allowance = allowance
        self._noted: list[Noted] = []

    def note(self, write: Write, place: str) -> None:
        """Take note of a write, made at a file and line.

        Raises:
            NotJudgedError: Its stretches are more than what is left to the case.
        """
        self._allowance.write(write.count, place)
        self._noted.append((write, place))

    def settle(self) -> list[LaunchResult]:
        """Store what was noted, and return it.

        Raises:
            NotJudgedError: One operation gave an element several values.
        """
        noted, self._noted = self._noted, []
        results = [*_results(noted)]
        for result in results:
            self._shadow.store(result.zero, result.other)
        return results


def _results(noted: list[Noted]) -> Iterator[LaunchResult]:
    """Yield one result a row of zeros, and one for each write of other values."""
    for zeros, batch in groupby(noted, lambda each: each[0].values is None):
        if zeros:
            yield _zeroed(list(batch))
            continue
        for write, place in batch:
            if write.values is not None:
                yield _valued(write, write.values, place)


def _zeroed(batch: list[Noted]) -> LaunchResult:
    """Return writes of zeros as one result, with one store a place."""
    stores = []
    for place in dict.fromkeys(place for _, place in batch):
        mine = [write for write, here in batch if here == place]
        starts = np.concatenate([write.starts for write in mine])
        lengths = np.repeat(
            np.array([write.length_bytes for write in mine], np.int64),
            [len(write.starts) for write in mine],
        )
        stores.append(
            ZeroStore(_HOST, place, starts[None, None, :], lengths[None, None, :])
        )
    starts, ends = (
        np.concatenate(part) for part in zip(*(store.flat() for store in stores))
    )
    zero = _merged(starts, ends)
    written = int((ends - starts).sum()) + sum(write.again_bytes for write, _ in batch)
    again = written - zero.total_bytes
    return LaunchResult(zero=zero, stores=tuple(stores), again_bytes=again)


def _merged(starts: Int64Array, ends: Int64Array) -> Stretches:
    """Return any stretches as a set, without sorting what ascends already."""
    if (starts[1:] <= ends[:-1]).any() or (ends <= starts).any():
        return stretches(starts, ends)
    return Stretches(starts, ends)


def _valued(write: Write, written: NDArray[np.uint8], place: str) -> LaunchResult:
    """Return a write of any values as a result."""
    addresses = (write.starts[:, None] + np.arange(write.length_bytes)).reshape(-1)
    kept, values = _settled(addresses, written.reshape(-1), place)
    is_zero = values == 0
    count = len(write.starts)
    at = np.zeros(count, np.intp), np.zeros(count, np.intp)
    store = ByteStore(_HOST, place, write.starts, written, at, (1, 1))
    return LaunchResult(
        zero=stretches(kept[is_zero], kept[is_zero] + 1),
        other=OtherBytes(kept[~is_zero], values[~is_zero]),
        stores=(store,),
        again_bytes=len(addresses) - len(kept),
    )


def _settled(
    addresses: Int64Array, values: NDArray[np.uint8], place: str
) -> tuple[Int64Array, NDArray[np.uint8]]:
    """Return each address once, sorted, with its value."""
    kept, first, inverse = np.unique(addresses, return_index=True, return_inverse=True)
    if (values[first][inverse] != values).any():
        raise NotJudgedError(f"an element gets several values in one call at {place}")
    return kept, values[first]
