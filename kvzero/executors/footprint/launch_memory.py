"""Memory during one launch: loads are served, stores are kept until it ends.

Programs of a launch run in any order, so a load sees what was there before the launch
and what its own program stored. Where loads and stores of different programs meet on a
byte there is no winner: that is a race. Whether any can have met is read off the
extents of loads and stores; only if so are single loads recorded, in a second pass.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzero.executors.footprint.domain import Array, Domain, Scalar
from kvzero.executors.footprint.frame import Frame, MisstepLog, NotJudgedError
from kvzero.executors.footprint.ir import Type
from kvzero.executors.footprint.real_memory import RealMemory, Region
from kvzero.executors.footprint.shadow import Shadow
from kvzero.executors.footprint.shared_atomics import Atomics
from kvzero.executors.footprint.stores import (
    ByteStore,
    Store,
    covering,
    linear_ids,
)
from kvzero.executors.footprint.stretches import NO_BYTES, Stretches, stretches
from kvzero.executors.footprint.tally import Tally
from kvzero.layout import Int64Array

MAX_STRETCHES = 2**24
"""Stretches of zeros that keep their writers: 400 MB. Beyond it only the bytes stay."""
_NEAR_BYTES = 4096
"""A load that misses the storage of its own argument by less is past that storage."""


_NOWHERE = (2**63, -(2**63))
"""Lowest and highest address of nothing."""


@dataclass
class Load:
    """One load instruction for many programs: element addresses and their programs."""

    domain: Domain
    place: str
    addresses: Int64Array
    size: int
    rows: NDArray[np.intp]
    cols: NDArray[np.intp]
    shape: tuple[int, ...]

    @property
    def bytes_loaded(self) -> Int64Array:
        """Return the address of each byte, those of one element together."""
        return (self.addresses[:, None] + np.arange(self.size)).reshape(-1)

    @property
    def programs(self) -> Int64Array:
        """Return the linear id of the program that loaded each byte."""
        ids = linear_ids(self.domain, self.rows, self.cols, self.shape)
        return np.repeat(ids, self.size)


@dataclass
class CaseMemory:
    """All memory that a case's programs may meet.

    Attributes:
        shadow: The case's own memory.
        arena: Addresses that belong to it, guards and gaps included.
        real: Registered memory.
        refresh: Registers what the subject holds by now.
    """

    shadow: Shadow
    arena: range
    real: RealMemory
    refresh: Any  # Any: a function without arguments or result


@dataclass
class LaunchMemory:
    """Memory as one launch sees it.

    Attributes:
        case: What was there before.
        arguments: Storage of each argument that is a tensor.
        keeps_loads: Record single loads, to find races.
        stores: What finished parts of the launch stored.
        pending: What the part that runs has stored so far.
        loads: Loads, where they are recorded.
        load_extents: Lowest and highest address of each load instruction.
        nameless: Zeros whose writers were forgotten, because they are too many.
        atomics: Atomic operations, which are settled when the launch ends.
        tally: What the stores cost.
    """

    case: CaseMemory
    arguments: dict[int, Region]
    keeps_loads: bool = False
    stores: list[Store] = field(default_factory=list)
    pending: list[Store] = field(default_factory=list)
    loads: list[Load] = field(default_factory=list)
    load_extents: set[tuple[int, int]] = field(default_factory=set)
    nameless: Stretches = NO_BYTES
    atomics: Atomics = field(default_factory=Atomics)
    tally: Tally = field(default_factory=Tally)
    _kept: int = 0
    _load_count: int = 0
    _extent: tuple[int, int] = _NOWHERE
    _extent_count: int = 0

    def commit(self, domain: Domain) -> None:
        """Keep what the programs of a finished part of the launch stored."""
        self.tally.add(domain, self.pending)
        self.atomics.commit()
        self.stores.extend(self.pending)
        self._kept += sum(s.starts.size for s in self.pending if s.is_zero)
        self._begin_part()
        if self._kept > MAX_STRETCHES:
            self.nameless = self.zeros()
            self.stores = [store for store in self.stores if not store.is_zero]
            self._kept = 0

    def zeros(self) -> Stretches:
        """Return all bytes that were set to zero."""
        return self.nameless.union(stored_zeros(self.stores))

    def _begin_part(self) -> None:
        self.pending = []
        self._load_count = len(self.loads)
        self._extent, self._extent_count = _NOWHERE, 0

    def discard(self) -> None:
        """Forget what an abandoned part of the launch loaded and stored."""
        self.atomics.pending = []
        del self.loads[self._load_count :]
        self._begin_part()

    def load(
        self,
        frame: Frame,
        place: str,
        addresses: Int64Array,
        active: Array | None,
        kind: Type,
        root: int | None,
        *,
        is_atomic: bool = False,
    ) -> NDArray[Any]:
        """Return elements; those of inactive lanes are zero.

        Args:
            frame: Whose programs load.
            place: File and line.
            addresses: Shape [1|A, 1|B, *lanes].
            active: Mask of the same number of dimensions, or None for all.
            kind: Type of an element.
            root: Argument that the addresses were computed from, if known.
            is_atomic: It is half of an atomic operation, and races in other ways.
        """
        size = kind.bytes
        shape = addresses.shape
        if active is not None:
            shape = np.broadcast_shapes(shape, active.shape)
            active = np.broadcast_to(active, shape)
            flat = np.broadcast_to(addresses, shape)[active]
        else:
            flat = addresses.reshape(-1)
        result = np.zeros(shape, f"i{size}")
        if flat.size:
            values, bad = self._fetch(flat, size, place, root)
            if not is_atomic:
                self.atomics.refuse_load(flat, size, place)
            self._see_own_stores(
                frame, place, active, shape, flat, values, records=not is_atomic
            )
            if active is None:
                result = values.reshape(shape)
            else:
                result[active] = values
            if bad is not None:
                self._report_bad(frame, place, bad, active, flat, shape, size)
            self._report_misaligned(frame, place, flat, active, shape, size)
        return result.astype(bool) if kind.bits == 1 else result

    def load_plain(self, addresses: Scalar, size: int) -> Scalar | None:
        """Return the element that each program loads from its address, if it is plain.

        Args:
            addresses: One number, or one a program.
            size: Bytes of an element.

        Returns:
            The elements; None where `load` has more to do: the memory is not registered
            as a whole, a load is misaligned or to be recorded, or programs stored
            before it.
        """
        if self.pending or self.keeps_loads or self.atomics.pending:
            return None
        if isinstance(addresses, np.ndarray):
            low = int(np.minimum.reduce(addresses, None))
            high = int(np.maximum.reduce(addresses, None)) + size
            bits = int(np.bitwise_or.reduce(addresses, None))
        else:
            low = bits = int(addresses)
            high = low + size
        region = self.case.real.containing(low, high)
        if region is None or bits & (size - 1):
            return None
        self.load_extents.add((low, high))
        return region.elements(addresses, size)

    def value_before(
        self, addresses: Int64Array, size: int, place: str
    ) -> NDArray[Any]:
        """Return elements as they were before the launch."""
        return self._fetch(addresses, size, place, None)[0]

    def _fetch(
        self, flat: Int64Array, size: int, place: str, root: int | None
    ) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        low, high = _extent_of(flat, size)
        self.load_extents.add((low, high))
        region = self.case.real.containing(low, high)
        if region is not None:
            return region.read(flat, size), None
        if low in self.case.arena and high - 1 in self.case.arena:
            return self._from_arena(flat, size)
        return self._from_anywhere(flat, size, place, root)

    def _from_arena(
        self, flat: Int64Array, size: int
    ) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        shadow = self.case.shadow
        where = flat[:, None] + np.arange(size)
        values = shadow.bytes_at(where.reshape(-1)).reshape(-1, size)
        bad = ~shadow.is_inside(flat, size)
        return values.view(f"i{size}")[:, 0], bad if bad.any() else None

    def _from_anywhere(
        self, flat: Int64Array, size: int, place: str, root: int | None
    ) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        values, bad = np.zeros(len(flat), f"i{size}"), np.zeros(len(flat), bool)
        left = self._from_regions(flat, size, values, np.ones(len(flat), bool))
        if left.any():
            self.case.refresh()
            left = self._from_regions(flat, size, values, left)
        arena = self.case.arena
        inside = left & (flat >= arena.start) & (flat + size <= arena.stop)
        if inside.any():
            values[inside], wrong = self._from_arena(flat[inside], size)
            if wrong is not None:
                bad[inside] = wrong
        left &= ~inside
        if left.any():
            region = None if root is None else self.arguments.get(root)
            if region is None or not _is_near(flat[left], size, region):
                address = int(flat[left][0])
                raise NotJudgedError(
                    f"load from unregistered memory at {place} (address {address:#x})"
                )
            bad |= left
        return values, bad if bad.any() else None

    def _from_regions(
        self,
        flat: Int64Array,
        size: int,
        values: NDArray[Any],
        left: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        for region in self.case.real.regions:
            here = left & (flat >= region.start) & (flat + size <= region.end)
            if here.any():
                values[here] = region.read(flat[here], size)
                left = left & ~here
        return left

    def _see_own_stores(
        self,
        frame: Frame,
        place: str,
        active: Array | None,
        shape: tuple[int, ...],
        flat: Int64Array,
        values: NDArray[Any],
        *,
        records: bool,
    ) -> None:
        """Record the load if asked, and write the program's own stores over it."""
        size = values.dtype.itemsize
        records = records and self.keeps_loads
        if not records and not (self.pending and self._may_overlap(flat, size)):
            return
        where = np.ones(shape, bool) if active is None else active
        rows, cols = np.nonzero(where)[:2]
        load = Load(frame.domain, place, flat, size, rows, cols, shape[:2])
        if records:
            self.loads.append(load)
        if self._may_overlap(flat, size):
            self._patch(load, values)

    def _may_overlap(self, flat: Int64Array, size: int) -> bool:
        low, high = _extent_of(flat, size)
        # A loop stores at each turn: what is far from all of it is settled at once.
        for store in self.pending[self._extent_count :]:
            if not store.is_empty():
                begin, end = store.bounds
                self._extent = min(begin, self._extent[0]), max(end, self._extent[1])
        self._extent_count = len(self.pending)
        if self._extent[0] >= high or self._extent[1] <= low:
            return False
        bounds = (store.bounds for store in self.pending)
        return any(begin < high and end > low for begin, end in bounds)

    def _patch(self, load: Load, values: NDArray[Any]) -> None:
        loaded, programs = load.bytes_loaded, load.programs
        in_bytes = values.reshape(-1, 1).view(np.uint8).reshape(-1)
        for store in self.pending:
            pairs = covering(store, loaded)
            own = store.programs(pairs.item) == programs[pairs.byte]
            byte, item = pairs.byte[own], pairs.item[own]
            in_bytes[byte] = store.bytes_of(item, loaded[byte])
        values.reshape(-1)[:] = in_bytes.view(values.dtype)

    def _report_bad(
        self,
        frame: Frame,
        place: str,
        bad: NDArray[np.bool_],
        active: Array | None,
        flat: Int64Array,
        shape: tuple[int, ...],
        size: int,
    ) -> None:
        first = int(flat[bad][0])
        frame.misstep(
            "bad-load",
            place,
            f"load of {size} B at {self.described(first)}, but must lie in memory that "
            f"was allocated",
            _per_program(bad, active, shape),
        )

    def _report_misaligned(
        self,
        frame: Frame,
        place: str,
        flat: Int64Array,
        active: Array | None,
        shape: tuple[int, ...],
        size: int,
    ) -> None:
        lowest_bits = flat[0] if len(flat) == 1 else np.bitwise_or.reduce(flat)
        if size == 1 or not int(lowest_bits) & (size - 1):
            return
        bad = (flat & (size - 1)) != 0
        frame.misstep(
            "false-promise",
            place,
            f"load of {size} B at {int(flat[bad][0]):#x}, but must be a multiple of "
            f"{size} B: a pointer promises the alignment of its elements",
            _per_program(bad, active, shape),
        )

    def described(self, address: int) -> str:
        """Return an address in words: allocation and offset where it has them."""
        if address in self.case.arena:
            where = np.array([address], np.int64)
            allocation, offset = self.case.shadow.allocation_of(where)
            if allocation[0] >= 0:
                return f"byte {int(offset[0])} of allocation {int(allocation[0])}"
        return f"address {address:#x}"


def _extent_of(flat: Int64Array, size: int) -> tuple[int, int]:
    """Return the lowest address of some elements and the highest end."""
    if len(flat) == 1:
        return int(flat[0]), int(flat[0]) + size
    return int(np.minimum.reduce(flat)), int(np.maximum.reduce(flat)) + size


def _is_near(flat: Int64Array, size: int, region: Region) -> bool:
    slack = max(_NEAR_BYTES, region.end - region.start)
    low, high = int(flat.min()), int(flat.max()) + size
    return low >= region.start - slack and high <= region.end + slack


def _per_program(
    bad: NDArray[np.bool_], active: Array | None, shape: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Return which programs have a bad element."""
    whole = np.zeros(shape, bool)
    if active is None:
        whole[...] = bad.reshape(shape)
    else:
        whole[active] = bad
    lanes = tuple(range(2, len(shape)))
    programs: NDArray[np.bool_] = np.any(whole, axis=lanes) if lanes else whole
    return programs


def find_races(memory: LaunchMemory, log: MisstepLog) -> None:
    """Report loads of bytes that another program of the launch stored.

    Raises:
        NotJudgedError: The writers of those bytes were forgotten.
    """
    for load in memory.loads:
        loaded, programs = load.bytes_loaded, load.programs
        if memory.nameless.holds(loaded).any():
            raise NotJudgedError(
                f"more than {MAX_STRETCHES} stores, some of which meet the load at "
                f"{load.place}"
            )
        for store in memory.stores:
            pairs = covering(store, loaded)
            other = store.programs(pairs.item) != programs[pairs.byte]
            if other.any():
                byte, item = int(pairs.byte[other][0]), int(pairs.item[other][0])
                at = byte // load.size
                program = load.domain.program(int(load.rows[at]), int(load.cols[at]))
                log.add(
                    "race",
                    load.place,
                    f"load of {memory.described(int(loaded[byte]))}, which program "
                    f"{store.program_of(item)} of the same launch stores at "
                    f"{store.place}",
                    program,
                    len(np.unique(programs[pairs.byte[other]])),
                )


def stored_zeros(stores: list[Store]) -> Stretches:
    """Return all bytes that the stores set to zero as stretches."""
    parts = [_full(*store.joined()) for store in stores if store.is_zero]
    if not parts:
        return NO_BYTES
    if len(parts) == 1:
        return stretches(*parts[0])
    return stretches(
        np.concatenate([starts for starts, _ in parts]),
        np.concatenate([ends for _, ends in parts]),
    )


def _full(starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return stretches without the empty ones, of which some stores have many."""
    full = ends > starts
    if np.count_nonzero(full) == len(full):
        return starts, ends
    return starts[full], ends[full]


def byte_stores(stores: list[Store]) -> list[ByteStore]:
    """Return the stores that are kept byte by byte."""
    return [store for store in stores if isinstance(store, ByteStore)]
