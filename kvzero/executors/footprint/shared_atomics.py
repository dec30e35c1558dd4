"""Atomics of a whole launch: who shares an address, and what is left there.

What programs do to one address by one commutative operation is folded when the launch
ends; the result is kept as stores of the final value by each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvzero.executors.footprint.arithmetic import unsigned
from kvzero.executors.footprint.domain import Array, Domain
from kvzero.executors.footprint.frame import MisstepLog, NotJudgedError
from kvzero.executors.footprint.stores import ByteStore, covering, linear_ids
from kvzero.executors.footprint.stretches import stretches
from kvzero.layout import Int64Array

if TYPE_CHECKING:
    from kvzero.executors.footprint.launch_memory import LaunchMemory

MAX_ATOMICS = 2**22
"""Atomic operations of one launch that are kept: 150 MB."""

Fold = Callable[[Array, NDArray[np.intp]], Array]


def _first(values: Array, begins: NDArray[np.intp]) -> Array:
    return values[begins]


FOLDS: dict[str, Fold] = {
    "add": lambda v, at: np.add.reduceat(v, at, dtype=v.dtype),
    "and": np.bitwise_and.reduceat,
    "or": np.bitwise_or.reduceat,
    "xor": np.bitwise_xor.reduceat,
    "max": np.maximum.reduceat,
    "min": np.minimum.reduceat,
    "umax": lambda v, at: np.maximum.reduceat(unsigned(v), at).view(v.dtype),
    "umin": lambda v, at: np.minimum.reduceat(unsigned(v), at).view(v.dtype),
    "exch": _first,
}
"""Operations that leave the same value in any order, on runs of sorted operands."""


@dataclass
class Atomic:
    """One atomic instruction for many programs.

    Attributes:
        domain: The programs.
        place: File and line.
        kind: The operation; empty where its result was used, and it was stored.
        addresses: Of each element, int64, shape [n].
        operands: One an element.
        at: Row and column of each element's program.
    """

    domain: Domain
    place: str
    kind: str
    addresses: Int64Array
    operands: Array
    at: tuple[NDArray[np.intp], NDArray[np.intp]]

    @property
    def programs(self) -> Int64Array:
        """Return the linear id of the program of each element."""
        return linear_ids(self.domain, *self.at, self.domain.shape)


@dataclass
class Atomics:
    """The atomics of one launch; those of a part that runs can be taken back."""

    kept: list[Atomic] = field(default_factory=list)
    pending: list[Atomic] = field(default_factory=list)
    _count: int = 0

    def add(self, atomic: Atomic) -> None:
        """Add an instruction.

        Raises:
            NotJudgedError: There are too many.
        """
        if len(atomic.addresses):
            self.pending.append(atomic)
        total = self._count + sum(len(a.addresses) for a in self.pending)
        if total > MAX_ATOMICS:
            raise NotJudgedError(f"more than {MAX_ATOMICS} atomics at {atomic.place}")

    def commit(self) -> None:
        """Keep what a finished part of the launch did."""
        self._count += sum(len(a.addresses) for a in self.pending)
        self.kept.extend(self.pending)
        self.pending = []

    def refuse_load(self, addresses: Int64Array, size: int, place: str) -> None:
        """Refuse a load of what shared atomics of the same programs change.

        Raises:
            NotJudgedError: It depends on the order of programs.
        """
        for atomic in self.pending:
            if not atomic.kind:
                continue
            ends = atomic.addresses + atomic.operands.dtype.itemsize
            if stretches(atomic.addresses, ends).holds(addresses, size).any():
                raise NotJudgedError(
                    f"load at {place} of what the atomic at {atomic.place} changes"
                )


def settle_atomics(memory: "LaunchMemory", log: MisstepLog) -> None:
    """Turn the atomics of a launch into stores, and report races with plain stores.

    Raises:
        NotJudgedError: What they leave depends on the order of programs.
    """
    atomics = memory.atomics.kept
    if not atomics:
        return
    _refuse_results(atomics)
    for atomic in atomics:
        _meet_plain_stores(memory, atomic, log)
    for size in sorted({a.operands.dtype.itemsize for a in atomics if a.kind}):
        same = [a for a in atomics if a.kind and a.operands.dtype.itemsize == size]
        memory.stores.extend(_settled(memory, same, size))


def _refuse_results(atomics: list[Atomic]) -> None:
    """Refuse shared addresses where a result is used, or where sizes differ."""
    addresses = np.concatenate([a.addresses for a in atomics])
    order = np.argsort(addresses, kind="stable")
    addresses = addresses[order]
    programs, sizes, alone, index = (
        np.concatenate(parts)[order]
        for parts in (
            [a.programs for a in atomics],
            [np.full(len(a.addresses), a.operands.dtype.itemsize) for a in atomics],
            [np.full(len(a.addresses), not a.kind) for a in atomics],
            [np.full(len(a.addresses), i) for i, a in enumerate(atomics)],
        )
    )
    same = addresses[1:] == addresses[:-1]
    other = programs[1:] != programs[:-1]
    # A run of equal addresses in which a program differs or a result is used at all.
    run = np.concatenate([[0], np.cumsum(~same)])
    differs = np.bincount(run[1:], same & other) > 0
    uses = np.bincount(run, alone) > 0
    mixed = np.bincount(run, ~alone) > 0
    bad = uses & (differs | mixed)
    if bad.any():
        first = atomics[int(index[int(np.argmax(bad[run]))])]
        raise NotJudgedError(
            f"the result of an atomic that several programs or operations share at "
            f"{first.place}"
        )
    overlaps = (addresses[1:] < addresses[:-1] + sizes[:-1]) & (
        ~same | (sizes[1:] != sizes[:-1])
    )
    if overlaps.any():
        first = atomics[int(index[int(np.argmax(overlaps))])]
        raise NotJudgedError(f"atomics that overlap in part at {first.place}")


def _meet_plain_stores(memory: "LaunchMemory", atomic: Atomic, log: MisstepLog) -> None:
    size = atomic.operands.dtype.itemsize
    where = (atomic.addresses[:, None] + np.arange(size)).reshape(-1)
    programs = np.repeat(atomic.programs, size)
    if memory.nameless.holds(where).any():
        raise NotJudgedError(f"too many stores meet the atomic at {atomic.place}")
    for store in memory.stores:
        if store.is_atomic:
            continue
        pairs = covering(store, where)
        if not len(pairs.byte):
            continue
        other = store.programs(pairs.item) != programs[pairs.byte]
        if other.any():
            byte, item = int(pairs.byte[other][0]), int(pairs.item[other][0])
            at = byte // size
            log.add(
                "race",
                atomic.place,
                f"atomic on {memory.described(int(where[byte]))}, which program "
                f"{store.program_of(item)} of the same launch stores at {store.place}",
                atomic.domain.program(int(atomic.at[0][at]), int(atomic.at[1][at])),
                len(np.unique(programs[pairs.byte[other]])),
            )
        elif atomic.kind:
            raise NotJudgedError(
                f"an atomic at {atomic.place} on what its own program stores at "
                f"{store.place}"
            )


def _settled(
    memory: "LaunchMemory", atomics: list[Atomic], size: int
) -> list[ByteStore]:
    """Return stores of the final values, one an instruction."""
    addresses = np.concatenate([a.addresses for a in atomics])
    operands = np.concatenate([a.operands for a in atomics])
    index = np.concatenate(
        [np.full(len(a.addresses), i) for i, a in enumerate(atomics)]
    )
    order = np.argsort(addresses, kind="stable")
    addresses, operands, index = addresses[order], operands[order], index[order]
    begins = np.flatnonzero(np.append(True, addresses[1:] != addresses[:-1]))
    unique = addresses[begins]
    before = memory.value_before(unique, size, atomics[0].place)
    final = np.zeros(len(unique), operands.dtype)
    names = np.array([a.kind for a in atomics])[index]
    _refuse_mixed(atomics, names, index, begins)
    for kind in dict.fromkeys(a.kind for a in atomics):
        here = names[begins] == kind
        folded = FOLDS[kind](operands, begins)
        if kind == "exch":
            _refuse_different(atomics, operands, folded, index, begins, here)
        else:
            pairs = np.stack([before, folded], axis=1).reshape(-1)
            folded = FOLDS[kind](pairs, np.arange(0, len(pairs), 2))
        final[here] = folded[here]
    return [_store(a, final[np.searchsorted(unique, a.addresses)]) for a in atomics]


def _refuse_mixed(
    atomics: list[Atomic],
    names: NDArray[np.str_],
    index: NDArray[np.intp],
    begins: NDArray[np.intp],
) -> None:
    lengths = np.diff(np.append(begins, len(names)))
    mixed = names != np.repeat(names[begins], lengths)
    if mixed.any():
        place = atomics[int(index[int(np.argmax(mixed))])].place
        raise NotJudgedError(f"atomics of several kinds on one address at {place}")


def _refuse_different(
    atomics: list[Atomic],
    operands: Array,
    first: Array,
    index: NDArray[np.intp],
    begins: NDArray[np.intp],
    here: NDArray[np.bool_],
) -> None:
    lengths = np.diff(np.append(begins, len(operands)))
    differs = (operands != np.repeat(first, lengths)) & np.repeat(here, lengths)
    if differs.any():
        place = atomics[int(index[int(np.argmax(differs))])].place
        raise NotJudgedError(f"different values exchanged on one address at {place}")


def _store(atomic: Atomic, values: Array) -> ByteStore:
    in_bytes = np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8)
    return ByteStore(
        atomic.domain,
        atomic.place,
        atomic.addresses,
        in_bytes,
        atomic.at,
        atomic.domain.shape,
        is_atomic=True,
    )
