"""Loads and stores: from pointers, masks and values to addresses and bytes."""

from typing import Any

import numpy as np

from kvzero.executors.footprint.arithmetic import extended
from kvzero.executors.footprint.domain import Array, Scalar, some
from kvzero.executors.footprint.elementwise import (
    Builder,
    Step,
    any_undefined,
    over_lanes,
    plain,
    stopping,
)
from kvzero.executors.footprint.frame import Frame
from kvzero.executors.footprint.ir import Function, Op, Type
from kvzero.executors.footprint.shapes import as_scalar
from kvzero.executors.footprint.stores import ByteStore, Store, ZeroStore
from kvzero.executors.footprint.values import (
    Affine,
    Box,
    Dense,
    Partial,
    Tensor,
    Value,
    check_size,
    lane_indices,
    lifted,
    program_shape,
    splat,
    undefined_of,
    wrapped,
    written_out,
)

_POINTER_MOVES = (
    "tt.addptr",
    "tt.splat",
    "tt.broadcast",
    "tt.expand_dims",
    "tt.bitcast",
)
_MAX_MOVES = 256
_YES = np.bool_(1)


def build_addptr(op: Op, function: Function) -> Step:
    """Build a pointer moved by elements; the offset's sign is extended."""
    pointer, offset, result = *op.operands, op.results[0]
    size = function.types[pointer].pointee_bytes
    shape = op.result_types[0].shape

    def scalar_step(frame: Frame) -> None:
        p, o = frame.get(pointer), frame.get(offset)
        moved = plain(p) + _in_bytes(plain(o), size)
        if p.__class__ is Partial or o.__class__ is Partial:
            moved = Partial(moved, any_undefined((p, o)))
        frame.values[result] = moved

    def tensor_step(frame: Frame) -> None:
        frame.values[result] = _moved(frame.get(pointer), frame.get(offset), size)

    return tensor_step if shape else scalar_step


def _moved(pointer: Tensor, offset: Tensor, size: int) -> Tensor:
    if isinstance(pointer, Affine) and isinstance(offset, Affine):
        is_wide = offset.base.dtype == np.int64
        if is_wide or offset.fits():
            return _moved_affine(pointer, offset, size)
    lanes, offsets = written_out(pointer), extended(written_out(offset), np.int64)
    check_size(lanes.shape, offsets.shape)
    return Dense(lanes + offsets * np.int64(size), any_undefined((pointer, offset)))


def _moved_affine(pointer: Affine, offset: Affine, size: int) -> Affine:
    steps = []
    for a, b in zip(pointer.steps, offset.steps):
        step = a + _in_bytes(b, size)
        steps.append(step if isinstance(step, np.ndarray) else int(step))
    distance = _in_bytes(offset.base, size)
    is_moved = distance.__class__ is not int or distance
    base = pointer.base + distance if is_moved else pointer.base
    return Affine(base, tuple(steps), pointer.shape)


def _in_bytes(elements: Any, size: int) -> Any:  # Any: an int, or a scalar
    """Return so many elements in bytes, 64 bits with their sign: an int or an array."""
    if isinstance(elements, np.ndarray):
        return extended(elements, np.int64) * size
    return wrapped(int(elements) * size, 64)


def pointer_root(slot: int, function: Function) -> int | None:
    """Return the argument that a pointer was computed from, if it is one."""
    for _ in range(_MAX_MOVES):
        definition = function.definitions[slot]
        if definition is None:
            return (
                function.arguments.index(slot) if slot in function.arguments else None
            )
        if definition.name not in _POINTER_MOVES:
            return None
        slot = definition.operands[0]
    return None


def programs_by_lanes(value: Value, dims: int) -> Array:
    """Return a scalar or tensor as an array of [1|A, 1|B, *lanes]."""
    if value.__class__ in (Affine, Box, Dense):
        return written_out(value)
    scalar = plain(value)
    return np.asarray(scalar).reshape(*program_shape(scalar), *(1,) * dims)


def _report_undefined(
    frame: Frame, place: str, what: str, mark: Any, active: Any
) -> None:
    """Report programs that depend on an undefined lane where a mask is true."""
    if mark is None:
        return
    if active is not None:
        mark = mark & active
    frame.misstep(
        "undefined-value",
        place,
        f"{what} depends on a lane that a load left undefined",
        over_lanes(np.atleast_2d(mark)),
        what,
    )


def build_load(op: Op, function: Function) -> Step:
    """Build a load; lanes masked off take the other value, or are undefined."""
    kind = op.result_types[0]
    if not kind.bits or not function.types[op.operands[0]].is_pointer:
        return stopping(op)
    pointer = op.operands[0]
    mask, other = (op.operands[i] if len(op.operands) > i else None for i in (1, 2))
    result, dims, place = op.results[0], len(kind.shape), op.place
    root = pointer_root(op.operands[0], function)
    is_plain = mask is None and not dims and kind.bits > 1

    def step(frame: Frame) -> None:
        p = frame.get(pointer)
        if is_plain and p.__class__ is not Partial:
            plainly = frame.run.memory.load_plain(p, kind.bytes)
            if plainly is not None:
                frame.values[result] = plainly
                return
        m = None if mask is None else frame.get(mask)
        addresses = programs_by_lanes(p, dims)
        active = active_lanes(frame, place, m, dims)
        _report_undefined(
            frame, place, "the address of a load", undefined_of(p), active
        )
        lanes = frame.run.memory.load(frame, place, addresses, active, kind, root)
        o = None if other is None else frame.get(other)
        frame.values[result] = _loaded(lanes, active, o, dims)

    return step


def active_lanes(frame: Frame, place: str, mask: Value, dims: int) -> Array | None:
    """Return which lanes a mask lets through; None: all of them."""
    if mask is None:
        return None
    _report_undefined(frame, place, "a mask", undefined_of(mask), None)
    if mask.__class__ is Affine and not isinstance(mask.base, np.ndarray) and mask.base:
        return None
    return programs_by_lanes(mask, dims)


def _loaded(lanes: Array, active: Array | None, other: Value, dims: int) -> Value:
    mark: Array | None = None
    if active is not None and not active.all():
        if other is None:
            mark = ~active
        else:
            filling = programs_by_lanes(other, dims)
            lanes = np.where(active, lanes, filling)
            unknown = undefined_of(other)
            mark = None if unknown is None else unknown & ~active
    if dims:
        return Dense(lanes, mark)
    scalar = as_scalar(lanes)
    return scalar if mark is None else Partial(scalar, as_scalar(np.atleast_2d(mark)))


def build_store(op: Op, function: Function) -> Step:
    """Build a store, as stretches of zeros where it is nothing else."""
    target = function.types[op.operands[0]]
    if not target.is_pointer or target.pointee is None or not target.pointee.bits:
        return stopping(op)
    pointer, value = op.operands[:2]
    mask = op.operands[2] if len(op.operands) > 2 else None
    element, shape, place = target.pointee, target.shape, op.place

    def step(frame: Frame) -> None:
        p, v = frame.get(pointer), frame.get(value)
        m = None if mask is None else frame.get(mask)
        report_undefined_store(frame, place, p, v, m, len(shape))
        if not shape:
            p, v = splat(plain(p), (1,)), splat(plain(v), (1,))
            m = None if m is None else splat(plain(m), (1,))
        store = _zero_stretches(frame, place, p, v, m, element)
        if store is None:
            store = _element_store(frame, place, p, v, m, element)
        if not store.is_empty():
            _report_misaligned(frame, store, element.bytes)
            frame.run.memory.tally.narrow(element.bytes)
            frame.run.memory.pending.append(store)

    return step


def report_undefined_store(
    frame: Frame, place: str, pointer: Value, value: Value, mask: Value, dims: int
) -> None:
    """Report programs whose store depends on undefined lanes."""
    if any_undefined((pointer, value, mask)) is None:
        return
    marks = undefined_of(pointer), undefined_of(value)
    active = active_lanes(frame, place, mask, dims)
    _report_undefined(frame, place, "the address of a store", marks[0], active)
    _report_undefined(frame, place, "a stored value", marks[1], active)


def _zero_stretches(
    frame: Frame, place: str, pointer: Tensor, value: Tensor, mask: Value, element: Type
) -> Store | None:
    """Return zeros in affine lanes as one stretch for each contiguous row of lanes."""
    if not (isinstance(pointer, Affine) and pointer.has_plain_steps):
        return None
    if not (isinstance(value, Affine) and value.is_splat and not some(value.base)):
        return None
    shape = pointer.shape
    low, high, active = _mask_bounds(mask, shape)
    if low is None:
        return None
    size = element.bytes
    starts: Any
    lengths: Any
    if len(shape) == 1 and pointer.steps[0] == size:
        starts = pointer.base + low[0] * size if some(low[0]) else pointer.base
        lengths = _length(low[0], high[0]) * size
        if active is not _YES:
            lengths = np.where(active, lengths, 0)
        return _store_of(frame, place, starts, lengths, 0)
    inner = [d for d, n in enumerate(shape) if n > 1 and pointer.steps[d] == size]
    contiguous = inner[-1] if inner else None
    outer = [
        d for d, n in enumerate(shape) if n > 1 and pointer.steps[d] and d != contiguous
    ]
    starts = np.asarray(lifted(pointer.base, len(outer)))
    stored: Any = np.asarray(lifted(active, len(outer)))
    lengths = size
    for dim in range(len(shape)):
        first, last = (lifted(b, len(outer)) for b in (low[dim], high[dim]))
        if dim == contiguous:
            starts = starts + first * np.int64(size)
            lengths = np.maximum(last - first, 0) * size
        elif dim in outer:
            sizes = tuple(shape[d] for d in outer)
            index = lane_indices(sizes, outer.index(dim), np.int64)
            starts = starts + index * np.int64(pointer.steps[dim])
            stored = stored & (index >= first) & (index < last)
        else:
            stored = stored & (np.asarray(first) < last)
    lengths = np.where(stored, lengths, 0)
    return _store_of(frame, place, starts, lengths, len(outer))


def _store_of(
    frame: Frame, place: str, starts: Any, lengths: Any, outer: int
) -> ZeroStore:
    dims = 2 + outer
    starts = _with_dims(starts, dims)
    whole = starts.shape
    if lengths.__class__ is not int:
        lengths = _with_dims(lengths, dims)
        if lengths.size > 1 and lengths.shape != whole:
            whole = np.broadcast_shapes(whole, lengths.shape)
    if outer:
        check_size(whole)
    if starts.shape != whole:
        starts = np.broadcast_to(starts, whole)
    starts = np.ascontiguousarray(starts, np.int64)
    return ZeroStore(frame.domain, place, starts, lengths)


def _with_dims(scalar: Any, dims: int) -> Array:
    """Return a number or an array with so many dimensions, new ones in front."""
    array: Array = np.asarray(scalar)
    return (
        array
        if array.ndim == dims
        else array.reshape((1,) * (dims - array.ndim) + array.shape)
    )


def _length(low: Any, high: Any) -> Any:  # Any: an int, or a number or an array
    """Return the lanes of an interval."""
    if low.__class__ is int and not low:
        return high if isinstance(high, np.ndarray) else int(high)
    length = high - low
    if isinstance(length, np.ndarray):
        return np.maximum(length, 0)
    return max(int(length), 0)


def _mask_bounds(mask: Value, shape: tuple[int, ...]) -> tuple[Any, Any, Scalar]:
    """Return a mask as bounds of each dimension and a condition; None: it has none."""
    nothing_off = (0,) * len(shape)
    if mask is None:
        return nothing_off, shape, _YES
    if mask.__class__ is Box:
        return mask.low, mask.high, _YES
    if mask.__class__ is Affine and mask.is_splat:
        return nothing_off, shape, mask.base
    return None, None, _YES


def _element_store(
    frame: Frame, place: str, pointer: Tensor, value: Tensor, mask: Value, element: Type
) -> Store:
    """Return a store lane by lane, of zeros or of other values."""
    addresses, values = written_out(pointer), written_out(value)
    dims = addresses.ndim - 2
    active = np.ones((1,) * (2 + dims), bool)
    if mask is not None:
        active = programs_by_lanes(mask, dims)
    # What differs between programs of the frame must be written for each of them.
    whole = np.broadcast_shapes(addresses.shape, values.shape, active.shape)
    check_size(whole)
    addresses, values, active = (
        np.broadcast_to(a, whole) for a in (addresses, values, active)
    )
    if not np.any(values[active]):
        starts = np.ascontiguousarray(addresses)
        return ZeroStore(
            frame.domain, place, starts, np.where(active, element.bytes, 0)
        )
    rows, cols = np.nonzero(active)[:2]
    stored = np.ascontiguousarray(values[active])
    if element.bits == 1:
        stored = stored.astype(np.int8)
    in_bytes = stored.reshape(-1, 1).view(np.uint8)
    return ByteStore(
        frame.domain, place, addresses[active], in_bytes, (rows, cols), whole[:2]
    )


def _report_misaligned(frame: Frame, store: Store, size: int) -> None:
    if size == 1:
        return
    addresses = store.starts if isinstance(store, ZeroStore) else store.addresses
    if not addresses.size or not int(np.bitwise_or.reduce(addresses, axis=None)) & (
        size - 1
    ):
        return
    starts, ends = store.flat()
    bad = ((starts & (size - 1)) != 0) & (ends > starts)
    if not bad.any():
        return
    if isinstance(store, ZeroStore):
        where = over_lanes(bad.reshape(store.starts.shape))
    else:
        where = np.zeros(store.shape, bool)
        where[store.rows[bad], store.cols[bad]] = True
    frame.misstep(
        "false-promise",
        store.place,
        f"store of {size} B at {int(starts[bad][0]):#x}, but must be a multiple of "
        f"{size} B: a pointer promises the alignment of its elements",
        where,
    )


ACCESSES: dict[str, Builder] = {
    "tt.addptr": build_addptr,
    "tt.load": build_load,
    "tt.store": build_store,
}
