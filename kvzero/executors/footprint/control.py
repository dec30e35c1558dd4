"""Control flow: blocks, branches, conditions, loops and calls.

Programs that go different ways are evaluated one way after the other, each in a frame
of its own, and what they yield is put together again. Programs that leave a loop early
wait for the others with the values that they left with.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import numpy as np

from kvzero.executors.footprint.accesses import ACCESSES
from kvzero.executors.footprint.arithmetic import unsigned
from kvzero.executors.footprint.atomics import ATOMICS
from kvzero.executors.footprint.blocks import BuiltBlock, Results
from kvzero.executors.footprint.combining import build_reduce, build_scan
from kvzero.executors.footprint.domain import (
    Index,
    Pick,
    Scalar,
    agreed,
    pick_where,
)
from kvzero.executors.footprint.elementwise import (
    ELEMENTWISE,
    Builder,
    Step,
    plain,
    stopping,
)
from kvzero.executors.footprint.floats import FLOATS
from kvzero.executors.footprint.frame import Frame, NotJudgedError
from kvzero.executors.footprint.ir import Block, Function, Module, Op
from kvzero.executors.footprint.promises import build_assume, with_promises
from kvzero.executors.footprint.shapes import SHAPES, constant_value
from kvzero.executors.footprint.values import Partial, Value, merged, taken, where

TERMINATORS = (
    "tt.return",
    "cf.br",
    "cf.cond_br",
    "scf.yield",
    "scf.condition",
    "tt.reduce.return",
    "tt.scan.return",
)


@dataclass
class BuiltFunction:
    """A function ready to run.

    Attributes:
        function: What it was built from.
        template: The slots with the constants filled in.
        blocks: By label; the entry is the first.
    """

    function: Function
    template: list[Value]
    blocks: dict[str, BuiltBlock] = field(default_factory=dict)

    def run(self, frame: Frame) -> Results:
        """Run the function in a frame that holds its arguments."""
        return self._run_from(frame, next(iter(self.blocks)))

    def _run_from(self, frame: Frame, label: str) -> Results:
        while True:
            block = self.blocks[label]
            block.run(frame)
            end = block.end
            if end.name == "tt.return":
                return tuple(frame.get(slot) for slot in end.operands)
            if end.name == "cf.br":
                label = self._enter(frame, end, 0)
                continue
            condition = frame.condition(end.operands[0], end.place)
            goes = agreed(condition)
            if goes is None:
                return self._run_both(frame, end, condition)
            label = self._enter(frame, end, 0 if goes else 1)

    def _run_both(self, frame: Frame, end: Op, condition: Scalar) -> Results:
        pieces: list[tuple[Pick, Results]] = []
        for way, chosen in enumerate((condition, ~condition)):
            pick = pick_where(chosen)
            child = frame.picked(pick)
            pieces.append((pick, self._run_from(child, self._enter(child, end, way))))
        return merged_results(frame.domain.shape, pieces)

    def _enter(self, frame: Frame, end: Op, way: int) -> str:
        """Pass a successor its arguments and return its label."""
        label, passed = end.successors[way]
        values = [frame.get(slot) for slot in passed]
        for slot, value in zip(self.blocks[label].arguments, values):
            frame.values[slot] = value
        return label


def merged_results(
    shape: tuple[int, int], pieces: list[tuple[Pick, Results]]
) -> Results:
    """Return results put together from those of disjoint programs."""
    count = len(pieces[0][1])
    return tuple(
        merged(shape, [(pick, results[i]) for pick, results in pieces])
        for i in range(count)
    )


def build_module(module: Module) -> dict[str, BuiltFunction]:
    """Return all functions of a module, ready to run."""
    return {name: build_function(f) for name, f in module.functions.items()}


def build_function(function: Function) -> BuiltFunction:
    """Return a function ready to run; unknown operations stop only if they are run."""
    built = BuiltFunction(function, [None] * len(function.types))
    for block in function.body.blocks:
        built.blocks[block.label] = build_block(block, function, built.template)
    return built


def build_block(block: Block, function: Function, template: list[Value]) -> BuiltBlock:
    """Return a block ready to run; its constants go into the template."""
    steps: list[Step] = []
    end = Op("tt.return")
    for op in block.ops:
        if op.name in TERMINATORS:
            end = op
            continue
        if op.name == "arith.constant":
            template[op.results[0]] = value = constant_value(op)
            if value is not None:
                continue
        steps.append(with_promises(op, function, build_op(op, function, template)))
    return BuiltBlock(block.arguments, steps, end)


def build_op(op: Op, function: Function, template: list[Value]) -> Step:
    """Return the step of one operation."""
    structured = STRUCTURED.get(op.name)
    if structured is not None:
        return structured(op, function, template)
    builder = BUILDERS.get(op.name)
    if builder is None:
        why = REFUSED.get(op.name)
        return stopping(op, f"{op.name} ({why})" if why else "")
    return builder(op, function)


def _regions(op: Op, function: Function, template: list[Value]) -> list[BuiltBlock]:
    if any(len(region.blocks) != 1 for region in op.regions):
        raise NotJudgedError(f"{op.name} with several blocks at {op.place}")
    return [build_block(r.blocks[0], function, template) for r in op.regions]


def build_if(op: Op, function: Function, template: list[Value]) -> Step:
    """Build a condition with one or two branches."""
    branches = _regions(op, function, template)
    condition_slot, results = op.operands[0], op.results

    def step(frame: Frame) -> None:
        condition = frame.condition(condition_slot, op.place)
        goes = agreed(condition)
        if goes is not None:
            way = 0 if goes else 1
            values = branches[way].yielded(frame) if way < len(branches) else ()
        else:
            pieces = []
            for branch, chosen in zip(branches, (condition, ~condition)):
                pick = pick_where(chosen)
                pieces.append((pick, branch.yielded(frame.picked(pick))))
            values = merged_results(frame.domain.shape, pieces)
        for slot, value in zip(results, values):
            frame.values[slot] = value

    return step


class _Loop:
    """The programs that are still in a loop, and those that have left it.

    Attributes:
        frame: The frame of those inside; the loop's own as long as none has left.
    """

    def __init__(self, frame: Frame) -> None:
        self._whole = frame
        self.frame = frame
        self._inside: Index | None = None
        self._left: list[tuple[Pick, Results]] = []

    def keep(
        self, condition: Scalar, carried: Results, extra: Results = ()
    ) -> tuple[bool, Results, Results]:
        """Let programs leave where a condition is false.

        Args:
            condition: Who stays.
            carried: What the loop carries; who leaves takes it along.
            extra: Other values of those inside.

        Returns:
            Whether any program stays, and both kinds of values of those.
        """
        goes = agreed(condition)
        if goes:
            return True, carried, extra
        if goes is not None:
            self._left.append((self._pick(slice(None)), carried))
            return False, (), ()
        whole = np.broadcast_to(condition, self.frame.domain.shape)
        stays, leaves = pick_where_full(whole), pick_where_full(~whole)
        flat = whole.reshape(-1)
        self._left.append((self._pick(~flat), _taken_all(carried, leaves)))
        inside = np.arange(flat.size) if self._inside is None else self._inside
        self._inside = inside[flat]
        self.frame = self._whole.picked(self._pick(slice(None)))
        return True, _taken_all(carried, stays), _taken_all(extra, stays)

    def results(self) -> Results:
        """Return what all programs left with."""
        if len(self._left) == 1:
            return self._left[0][1]
        return merged_results(self._whole.domain.shape, self._left)

    def _pick(self, chosen: Any) -> Pick:  # Any: an index of those inside
        shape = self._whole.domain.shape
        inside = self._inside
        if inside is None:
            if isinstance(chosen, slice):
                return Pick(None, None)
            inside = np.arange(self._whole.domain.programs)
        rows, cols = np.unravel_index(inside[chosen], shape)
        return Pick(rows, cols)


def pick_where_full(whole: Any) -> Pick:
    """Return single programs, even where whole rows or columns are chosen."""
    return Pick(*np.nonzero(whole))


def _taken_all(values: Results, pick: Pick) -> Results:
    return tuple(taken(value, pick) for value in values)


def _count_turn(frame: Frame, op: Op) -> None:
    frame.run.allowance.turn(frame.domain.programs, op.place)


def _pass(frame: Frame, slots: list[int], values: Results) -> None:
    for slot, value in zip(slots, values):
        frame.values[slot] = value


def build_for(op: Op, function: Function, template: list[Value]) -> Step:
    """Build a counted loop; programs may count differently far."""
    (body,) = _regions(op, function, template)
    is_unsigned = bool(op.attributes.get("unsigned"))
    low, high, by, *initial = op.operands
    results = op.results

    def step(frame: Frame) -> None:
        bounds = [_bound(frame, op, slot) for slot in (low, high, by)]
        index, limit, stride = bounds
        if not is_unsigned:
            _report_stride(frame, op, stride)
        trips = trip_counts(index, limit, stride, is_unsigned=is_unsigned)
        loop = _Loop(frame)
        carried: Results = tuple(frame.get(slot) for slot in initial)
        extra: Results = (index, stride, trips)
        done = 0
        while True:
            left = extra[2] > done
            stays, carried, extra = loop.keep(left, carried, extra)
            if not stays:
                break
            _count_turn(loop.frame, op)
            _pass(loop.frame, body.arguments, (extra[0], *carried))
            carried = body.yielded(loop.frame)
            extra = (extra[0] + extra[1], extra[1], extra[2])
            done += 1
        _pass(frame, results, loop.results())

    return step


def _bound(frame: Frame, op: Op, slot: int) -> Scalar:
    value = frame.get(slot)
    if value.__class__ is Partial:
        frame.misstep(
            "undefined-value",
            op.place,
            "a loop's bound depends on a lane that a load left undefined",
            value.undefined,
        )
    return plain(value)


def _report_stride(frame: Frame, op: Op, stride: Scalar) -> None:
    frame.misstep(
        "undefined-arithmetic",
        op.place,
        "a loop's step is not above 0: the result is undefined",
        stride <= 0,
    )


def trip_counts(
    low: Scalar, high: Scalar, stride: Scalar, *, is_unsigned: bool
) -> Scalar:
    """Return how often each program runs the body; bounds lie less than 2**63 apart."""
    if is_unsigned:
        runs = unsigned(low) < unsigned(high)
        distance = unsigned(high - low).astype(np.uint64)
        positive = np.maximum(unsigned(stride).astype(np.uint64), np.uint64(1))
        whole, rest = np.divmod(distance, positive)
        trips = (whole + (rest > 0)).astype(np.int64)
        return where(runs, trips, np.int64(0))
    distance = high.astype(np.int64) - low.astype(np.int64)
    positive = np.maximum(stride.astype(np.int64), np.int64(1))
    return np.maximum(-(-distance // positive), np.int64(0))


def build_while(op: Op, function: Function, template: list[Value]) -> Step:
    """Build a loop with a condition; programs may leave at different turns."""
    before, after = _regions(op, function, template)
    condition_slot, *passed = before.end.operands
    place = before.end.place

    def step(frame: Frame) -> None:
        loop = _Loop(frame)
        carried: Results = tuple(frame.get(slot) for slot in op.operands)
        while True:
            _pass(loop.frame, before.arguments, carried)
            before.run(loop.frame)
            condition = loop.frame.condition(condition_slot, place)
            values = tuple(loop.frame.get(slot) for slot in passed)
            stays, values, _ = loop.keep(condition, values)
            if not stays:
                break
            _count_turn(loop.frame, op)
            _pass(loop.frame, after.arguments, values)
            carried = after.yielded(loop.frame)
        _pass(frame, op.results, loop.results())

    return step


def build_call(op: Op, function: Function) -> Step:
    """Build a call of another function of the module."""
    del function
    name, operands, results = op.attributes.get("callee", ""), op.operands, op.results

    def step(frame: Frame) -> None:
        callee = frame.run.functions.get(name)
        if callee is None:
            raise NotJudgedError(f"call of {name} at {op.place}")
        inner = Frame(callee.template, frame.domain, frame.run)
        _pass(inner, callee.function.arguments, tuple(frame.get(s) for s in operands))
        _pass(frame, results, callee.run(inner))

    return step


def build_nothing(op: Op, function: Function) -> Step:
    """Build an operation without a result that matters here."""
    del op, function
    return lambda _: None


def combining_by(
    build: Callable[[Op, Function, BuiltBlock], Step],
) -> "StructuredBuilder":
    """Return a builder that hands over the function which combines two lanes."""

    @wraps(build)
    def built(op: Op, function: Function, template: list[Value]) -> Step:
        if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
            return stopping(op)
        return build(op, function, _regions(op, function, template)[0])

    return built


StructuredBuilder = Callable[[Op, Function, list[Value]], Step]
STRUCTURED: dict[str, StructuredBuilder] = {
    "scf.if": build_if,
    "scf.for": build_for,
    "scf.while": build_while,
    "tt.reduce": combining_by(build_reduce),
    "tt.scan": combining_by(build_scan),
}
BUILDERS: dict[str, Builder] = {
    **SHAPES,
    **ELEMENTWISE,
    **FLOATS,
    **ACCESSES,
    **ATOMICS,
    "llvm.intr.assume": build_assume,
    "tt.call": build_call,
    "gpu.barrier": build_nothing,
    "ttg.barrier": build_nothing,
    "tt.print": build_nothing,
}

REFUSED: dict[str, str] = {
    "tt.cat": "its lanes may come in any order",
    "tt.histogram": "no address needs it",
    "tt.dot": "no address needs it",
    "tt.elementwise_inline_asm": "the machine's own code",
    "tt.extern_elementwise": "code of a library",
    "tt.make_tensor_descriptor": "hardware copies with shapes of their own",
    "tt.descriptor_load": "hardware copies with shapes of their own",
    "tt.descriptor_store": "hardware copies with shapes of their own",
    "tt.map_elementwise": "a function of several lanes",
}
"""Operations that are known and not evaluated, and why; others are only named."""
