"""Atomic operations, where their results are defined.

An atomic whose result the kernel uses is evaluated like a load and a store: exact as
long as no other program uses the address. One whose result nothing uses may be shared,
because its operation gives the same bytes in any order. Everything else depends on the
order in which programs run, and is not judged.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kvzero.executors.footprint.accesses import (
    active_lanes,
    pointer_root,
    programs_by_lanes,
    report_undefined_store,
)
from kvzero.executors.footprint.arithmetic import unsigned
from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.elementwise import Builder, Step, stopping
from kvzero.executors.footprint.floats import FLOAT_DTYPES
from kvzero.executors.footprint.frame import Frame, NotJudgedError
from kvzero.executors.footprint.ir import Function, Op, Type
from kvzero.executors.footprint.shapes import as_scalar
from kvzero.executors.footprint.shared_atomics import FOLDS, Atomic
from kvzero.executors.footprint.stores import ByteStore
from kvzero.executors.footprint.values import Dense, Partial, Value, check_size

Update = Callable[[Array, Array], Array]

_UPDATES: dict[str, Update] = {
    "add": lambda old, new: old + new,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "umax": lambda a, b: np.maximum(unsigned(a), unsigned(b)).view(a.dtype),
    "umin": lambda a, b: np.minimum(unsigned(a), unsigned(b)).view(a.dtype),
    "exch": lambda old, new: np.broadcast_to(new, old.shape),
}


def build_atomic_rmw(op: Op, function: Function) -> Step:
    """Build an atomic operation on memory.

    Not judged: its result is used and several programs or lanes share the address;
    several programs exchange different values or add floats; programs share an address
    in different operations; the program itself loads or stores the address too.
    """
    kind = op.attributes["words"][0]
    pointee = function.types[op.operands[0]].pointee
    update = None if pointee is None else _update(kind, pointee)
    if update is None or pointee is None:
        return stopping(op, f"tt.atomic_rmw {kind}")
    known: Update = update
    mask = op.operands[2] if len(op.operands) > 2 else None
    access = _Access(op, function, pointee, mask)
    is_shared = kind in FOLDS and not function.readers(op.results[0])

    def step(frame: Frame) -> None:
        access.begin(frame)
        if is_shared:
            access.share(frame, kind)
        else:
            access.own(frame, lambda old, new: (known(old, new), None))

    return step


def build_atomic_cas(op: Op, function: Function) -> Step:
    """Build an atomic compare-and-swap.

    Not judged: several programs or lanes share the address.
    """
    pointee = function.types[op.operands[0]].pointee
    if pointee is None or not pointee.bits:
        return stopping(op)
    pointer, expected, _ = op.operands
    moved = Op(op.name, op.place, [pointer, op.operands[2]], op.results)
    moved.result_types = op.result_types
    access = _Access(moved, function, pointee, None)

    def step(frame: Frame) -> None:
        access.begin(frame)
        wanted = programs_by_lanes(frame.get(expected), access.dims)
        access.own(frame, lambda old, new: (new, old == wanted))

    return step


def _update(kind: str, pointee: Type) -> Update | None:
    """Return how an operation changes the bits of an element, or None."""
    if kind != "fadd":
        return _UPDATES.get(kind)
    if pointee.element not in FLOAT_DTYPES:
        return None
    dtype = FLOAT_DTYPES[pointee.element]

    def added(old: Array, new: Array) -> Array:
        new = np.ascontiguousarray(new)
        total: Array = (old.view(dtype) + new.view(dtype)).view(old.dtype)
        return total

    return added


class _Access:
    """Where one atomic operation goes, for the programs of a frame.

    Attributes:
        dims: Dimensions of its lanes.
    """

    def __init__(
        self, op: Op, function: Function, element: Type, mask: int | None
    ) -> None:
        self._place = op.place
        self._pointer, self._value = op.operands[:2]
        self._mask = mask
        self._result = op.results[0]
        self._element = element
        self._root = pointer_root(op.operands[0], function)
        self._lanes = function.types[op.operands[0]].shape
        self.dims = len(self._lanes)

    def begin(self, frame: Frame) -> None:
        """Report what is undefined of address, value and mask."""
        mask = None if self._mask is None else frame.get(self._mask)
        values = frame.get(self._pointer), frame.get(self._value)
        report_undefined_store(frame, self._place, *values, mask, self.dims)

    def own(
        self, frame: Frame, change: Callable[[Array, Array], tuple[Array, Any]]
    ) -> None:
        """Load, change and store, as if no other program used the address."""
        addresses, value, active = self._operands(frame)
        self._refuse_shared(addresses[active])
        frame.run.memory.atomics.refuse_load(
            addresses[active], self._element.bytes, self._place
        )
        old = self._load(frame, addresses, active)
        new, where = change(old, value)
        stored = active if where is None else active & where
        at = np.nonzero(stored)
        memory = frame.run.memory
        values = np.ascontiguousarray(np.broadcast_to(new, old.shape)[stored])
        store = ByteStore(
            frame.domain,
            self._place,
            addresses[stored],
            values.reshape(-1, 1).view(np.uint8),
            (at[0], at[1]),
            frame.domain.shape,
            is_atomic=True,
        )
        if not store.is_empty():
            memory.pending.append(store)
        memory.atomics.add(self._atomic(frame, "", addresses, value, active))
        frame.values[self._result] = self._old(old, active)

    def share(self, frame: Frame, kind: str) -> None:
        """Keep an operation that other programs may do on the same address."""
        addresses, value, active = self._operands(frame)
        self._load(frame, addresses, active)  # reports what lies out of bounds
        atomic = self._atomic(frame, kind, addresses, value, active)
        frame.run.memory.atomics.add(atomic)

    def _operands(self, frame: Frame) -> tuple[Array, Array, Array]:
        """Return addresses, values and mask, each lane of each program of its own."""
        whole = (*frame.domain.shape, *self._lanes)
        check_size(whole)
        mask = None if self._mask is None else frame.get(self._mask)
        active = active_lanes(frame, self._place, mask, self.dims)
        addresses = programs_by_lanes(frame.get(self._pointer), self.dims)
        value = programs_by_lanes(frame.get(self._value), self.dims)
        return (
            np.broadcast_to(addresses, whole),
            np.broadcast_to(value, whole),
            np.broadcast_to(np.bool_(1) if active is None else active, whole),
        )

    def _refuse_shared(self, addresses: Array) -> None:
        if len(np.unique(addresses)) < addresses.size:
            raise NotJudgedError(
                f"the result of an atomic that several programs or lanes share at "
                f"{self._place}"
            )

    def _load(self, frame: Frame, addresses: Array, active: Array) -> Array:
        return frame.run.memory.load(
            frame,
            self._place,
            addresses,
            active,
            self._element,
            self._root,
            is_atomic=True,
        )

    def _atomic(
        self, frame: Frame, kind: str, addresses: Array, value: Array, active: Array
    ) -> Atomic:
        at = np.nonzero(active)
        return Atomic(
            frame.domain,
            self._place,
            kind,
            addresses[active],
            np.ascontiguousarray(value[active]),
            (at[0], at[1]),
        )

    def _old(self, old: Array, active: Array) -> Value:
        mark = None if active.all() else ~active
        if self.dims:
            return Dense(old, mark)
        scalar = as_scalar(old)
        return scalar if mark is None else Partial(scalar, as_scalar(mark))


ATOMICS: dict[str, Builder] = {
    "tt.atomic_rmw": build_atomic_rmw,
    "tt.atomic_cas": build_atomic_cas,
}
