"""Reductions and scans: lanes combined along one dimension, two at a time.

The kernel's own function runs on many pairs of lanes at once, as if they were scalars.
Pairs are neighbours and keep their order, so that the function need be associative
only; a function of floats is not, and its result depends on the compiler.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kvzero.executors.footprint.arithmetic import BINARY, CASTS, REDUCTIONS
from kvzero.executors.footprint.blocks import BuiltBlock
from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.elementwise import Step, plain, stopping
from kvzero.executors.footprint.frame import Frame
from kvzero.executors.footprint.ir import Block, Function, Op
from kvzero.executors.footprint.shapes import as_scalar
from kvzero.executors.footprint.values import (
    Dense,
    Partial,
    Value,
    check_size,
    undefined_of,
    written_out,
)

_ASSOCIATIVE = {*BINARY, *CASTS, "arith.cmpi", "arith.select", "arith.constant"}
_ON_BITS = ("arith.addi", "arith.andi", "arith.ori", "arith.xori")
Lanes = list[tuple[Array, Array | None]]  # one an operand: values and undefined marks


def build_reduce(op: Op, function: Function, body: BuiltBlock) -> Step:
    """Build a reduction along one dimension by a function of integers.

    Not judged: functions of floats, whose result depends on their order.
    """
    block = op.regions[0].blocks[0]
    refusal = _refusal(op, function, block)
    if refusal is not None:
        return stopping(op, refusal)
    fn = _known(op, function, block)
    if fn is not None:
        return _reduction_by(fn, op)
    axis = op.attributes["axis"] + 2

    def step(frame: Frame) -> None:
        lanes = _operands(frame, op, function)
        while lanes[0][0].shape[axis] > 1:
            first, second = (_cut(lanes, axis, slice(i, None, 2)) for i in (0, 1))
            lanes = _combined(frame, body, first, second)
        for slot, part in zip(op.results, _cut(lanes, axis, 0)):
            frame.values[slot] = _value(*part)

    return step


def build_scan(op: Op, function: Function, body: BuiltBlock) -> Step:
    """Build the reductions of all lanes up to each, along one dimension.

    Not judged: functions of floats, whose result depends on their order.
    """
    refusal = _refusal(op, function, op.regions[0].blocks[0])
    if refusal is not None:
        return stopping(op, refusal)
    axis, is_reversed = op.attributes["axis"] + 2, op.attributes.get("reverse", False)

    def step(frame: Frame) -> None:
        lanes = _operands(frame, op, function)
        if is_reversed:
            lanes = _cut(lanes, axis, slice(None, None, -1))
        distance, size = 1, lanes[0][0].shape[axis]
        while distance < size:
            before = _cut(lanes, axis, slice(0, size - distance))
            after = _cut(lanes, axis, slice(distance, None))
            rest = _combined(frame, body, before, after)
            lanes = _joined(_cut(lanes, axis, slice(0, distance)), rest, axis)
            distance *= 2
        if is_reversed:
            lanes = _cut(lanes, axis, slice(None, None, -1))
        for slot, part in zip(op.results, lanes):
            frame.values[slot] = _value(*part)

    return step


def _refusal(op: Op, function: Function, block: Block) -> str | None:
    """Return why lanes cannot be combined by a block, or None."""
    kinds = [function.types[slot] for slot in op.operands]
    if any(kind.is_float or not kind.bits for kind in kinds):
        return f"{op.name} of {kinds[0].element}"
    inner = [o.name for o in block.ops[:-1] if o.name not in _ASSOCIATIVE]
    return f"{op.name} by {inner[0]}" if inner else None


def _known(
    op: Op, function: Function, block: Block
) -> Callable[[Array, int], Array] | None:
    """Return NumPy's own reduction where the block is one operation that it has."""
    if len(op.operands) != 1 or len(block.ops) != 2:
        return None
    only = block.ops[0]
    is_whole = set(only.operands) == set(block.arguments)
    is_bit = function.types[op.operands[0]].bits == 1
    if not is_whole or (is_bit and only.name not in _ON_BITS):
        return None
    return REDUCTIONS.get(only.name)


def _reduction_by(fn: Callable[[Array, int], Array], op: Op) -> Step:
    operand, result = op.operands[0], op.results[0]
    axis = op.attributes["axis"] + 2

    def step(frame: Frame) -> None:
        value = frame.get(operand)
        mark = undefined_of(value)
        if mark is not None:
            mark = mark.any(axis=axis)
        frame.values[result] = _value(fn(written_out(value), axis), mark)

    return step


def _operands(frame: Frame, op: Op, function: Function) -> Lanes:
    """Return the operands written out, over the same programs."""
    values = [frame.get(slot) for slot in op.operands]
    arrays = [written_out(value) for value in values]
    marks = [undefined_of(value) for value in values]
    known = [mark for mark in marks if mark is not None]
    shape = function.types[op.operands[0]].shape
    programs = np.broadcast_shapes(*(a.shape[:2] for a in (*arrays, *known)))
    whole = (*programs, *shape)
    check_size(whole)
    return [
        (
            np.broadcast_to(array, whole),
            None if mark is None else np.broadcast_to(mark, whole),
        )
        for array, mark in zip(arrays, marks)
    ]


def _cut(lanes: Lanes, axis: int, index: Any) -> Lanes:
    """Return lanes at an index, or a slice, of one axis."""
    at = (slice(None),) * axis + (index,)
    return [(a[at], None if mark is None else mark[at]) for a, mark in lanes]


def _combined(frame: Frame, body: BuiltBlock, first: Lanes, second: Lanes) -> Lanes:
    """Run the kernel's function on pairs of lanes, as scalars."""
    for slot, (array, mark) in zip(body.arguments, (*first, *second)):
        frame.values[slot] = array if mark is None else Partial(array, mark)
    shape = first[0][0].shape
    lanes: Lanes = []
    for value in body.yielded(frame):
        mark = undefined_of(value)
        array = np.broadcast_to(plain(value), shape)
        lanes.append((array, None if mark is None else np.broadcast_to(mark, shape)))
    return lanes


def _joined(first: Lanes, second: Lanes, axis: int) -> Lanes:
    lanes: Lanes = []
    for (a, a_mark), (b, b_mark) in zip(first, second):
        mark = None
        if a_mark is not None or b_mark is not None:
            parts = [
                np.zeros(array.shape, bool) if own is None else own
                for array, own in ((a, a_mark), (b, b_mark))
            ]
            mark = np.concatenate(parts, axis=axis)
        lanes.append((np.concatenate([a, b], axis=axis), mark))
    return lanes


def _value(lanes: Array, mark: Array | None) -> Value:
    if lanes.ndim > 2:
        return Dense(lanes, mark)
    scalar = as_scalar(lanes)
    return scalar if mark is None else Partial(scalar, as_scalar(np.atleast_2d(mark)))
