"""What a launch's stores cost: how many bytes, by which programs, in which width."""

from dataclasses import dataclass

import numpy as np

from kvzero.executors.footprint.domain import Array, Domain
from kvzero.executors.footprint.elementwise import over_lanes
from kvzero.executors.footprint.stores import ByteStore, Store
from kvzero.limits import Grid

_NOBODY = np.zeros((1, 1), bool)
_EVERYBODY = np.ones((1, 1), bool)


@dataclass
class Tally:
    """Numbers of one launch, added up while its parts finish.

    Attributes:
        stored_bytes: Bytes of all stores, as often as each is stored.
        idle_programs: Programs that stored nothing.
        first_idle: The first of them.
        narrowest_bytes: The smallest element that was stored; 0: none.
    """

    stored_bytes: int = 0
    idle_programs: int = 0
    first_idle: Grid | None = None
    narrowest_bytes: int = 0

    def narrow(self, size: int) -> None:
        """Note the size of an element that was stored."""
        if not self.narrowest_bytes or size < self.narrowest_bytes:
            self.narrowest_bytes = size

    def add(self, domain: Domain, stores: list[Store]) -> None:
        """Add the stores of a part of the launch.

        Args:
            domain: The programs of the part.
            stores: What they stored; atomics count once, when the launch ends.
        """
        for store in stores:
            if not store.is_atomic:
                self.stored_bytes += _bytes_of(store)
        busy = _busy_programs(domain, stores)
        share = np.count_nonzero(busy) * (domain.programs // busy.size)
        self.idle_programs += int(domain.programs - share)
        if self.first_idle is None and share < domain.programs:
            row, col = np.unravel_index(int(np.argmin(busy)), busy.shape)
            self.first_idle = domain.program(int(row), int(col))


def _busy_programs(domain: Domain, stores: list[Store]) -> Array:
    """Return which programs stored anything, shape [1|A, 1|B]."""
    busy: Array = _NOBODY
    for store in stores:
        busy = busy | _lifted(_programs_of(store), store.domain, domain)
        if np.count_nonzero(busy) == busy.size:
            break
    return busy


def _bytes_of(store: Store) -> int:
    """Return the bytes of a store, for all programs that make it alike."""
    if isinstance(store, ByteStore):
        return store.values.size * _copies(store.shape, store.domain)
    whole, lengths = store.starts.shape, store.lengths
    if isinstance(lengths, int):
        total = lengths * store.starts.size
    else:
        each = int(np.add.reduce(lengths, None))
        total = each * (store.starts.size // lengths.size)
    return total * _copies((whole[0], whole[1]), store.domain)


def _copies(shape: tuple[int, int], domain: Domain) -> int:
    return domain.programs // (shape[0] * shape[1])


def _programs_of(store: Store) -> Array:
    """Return which programs of a store's domain stored anything."""
    if isinstance(store, ByteStore):
        busy = np.zeros(store.shape, bool)
        rows, cols = store.rows, store.cols
        busy[rows, cols] = True
        return busy
    if isinstance(store.lengths, int):
        return _EVERYBODY if store.lengths else _NOBODY
    stored: Array = over_lanes(store.lengths > 0)
    return stored


def _lifted(busy: Array, inner: Domain, outer: Domain) -> Array:
    """Return a mask over programs of an inner domain as one over an outer one."""
    while inner is not outer and inner.origin is not None:
        parent, pick = inner.origin
        if pick.rows is None and pick.cols is None:
            inner = parent
            continue
        whole = np.zeros(parent.shape, bool)
        pick.put(whole, np.broadcast_to(busy, pick.shape(parent.shape)))
        busy, inner = whole, parent
    return busy
