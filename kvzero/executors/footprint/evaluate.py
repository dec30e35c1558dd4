"""A launch, evaluated: from a grid and arguments to what it stored.

The grid is evaluated in parts of about `PART_PROGRAMS` programs. A part whose lanes
would take too much memory is thrown away and done again in halves.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.executors.footprint.control import BuiltFunction, build_module
from kvzero.executors.footprint.domain import Domain, grid_domains
from kvzero.executors.footprint.frame import (
    Allowance,
    Frame,
    MisstepLog,
    NotJudgedError,
    Run,
)
from kvzero.executors.footprint.ir import Type
from kvzero.executors.footprint.launch_memory import (
    CaseMemory,
    LaunchMemory,
    byte_stores,
    find_races,
)
from kvzero.executors.footprint.parse import parse_module
from kvzero.executors.footprint.promises import check_arguments
from kvzero.executors.footprint.real_memory import Region
from kvzero.executors.footprint.shadow import NO_OTHER_BYTES, OtherBytes
from kvzero.executors.footprint.shared_atomics import settle_atomics
from kvzero.executors.footprint.stores import Pairs, Store, covering
from kvzero.executors.footprint.stretches import NO_BYTES, Stretches, stretches
from kvzero.executors.footprint.tally import Tally
from kvzero.executors.footprint.values import TooWideError, Value, wrapped
from kvzero.layout import Int64Array
from kvzero.limits import Grid
from kvzero.observation import Misstep
from kvzero.triton_internals import LaunchEvent

PART_PROGRAMS = 2**19
"""Programs evaluated together: arrays of 4 MiB, with few calls of NumPy a launch."""


_UNLIMITED = Allowance()


@dataclass(frozen=True)
class LaunchResult:
    """What a launch did.

    Attributes:
        zero: Bytes that it set to zero, registered memory excluded.
        other: Bytes that it set to another value.
        stores: Its stores, to find writers in.
        missteps: Undefined things that its programs did.
        tally: What its stores cost.
        again_bytes: Bytes that it stored although it had stored them before.
    """

    zero: Stretches = NO_BYTES
    other: OtherBytes = NO_OTHER_BYTES
    stores: tuple[Store, ...] = ()
    missteps: tuple[Misstep, ...] = ()
    tally: Tally = field(default_factory=Tally)
    again_bytes: int = 0


class Evaluator:
    """Evaluates launches; each compiled variant is parsed and built once."""

    def __init__(self) -> None:
        """Begin with nothing built."""
        self._built: dict[str, tuple[str, dict[str, BuiltFunction]]] = {}

    def evaluate(
        self,
        event: LaunchEvent,
        memory: CaseMemory,
        allowance: Allowance = _UNLIMITED,
    ) -> LaunchResult:
        """Return what a launch stored; the case's memory is updated.

        Args:
            event: The launch.
            memory: The memory of its case.
            allowance: What may still be evaluated of the case.

        Raises:
            NotJudgedError: The launch needs something that the evaluator does not do,
                or more than is allowed.
        """
        allowance.launch(event.shape.programs)
        name, functions = self._functions(event)
        kernel = functions[name]
        arguments, regions = _arguments(event, kernel, memory)
        launch = LaunchMemory(memory, regions)
        with np.errstate(all="ignore"):
            grid = _Grid(event.shape.grid, functions, kernel, arguments, allowance)
            log = _run_grid(grid, launch)
            settle_atomics(launch, log)
            zero = launch.zeros()
            other = _other_bytes(launch, log, zero)
            if len(other):
                zero = zero.minus(other.extent())
                zero = zero.union(other.kept(other.values == 0).extent())
                other = other.kept(other.values != 0)
            if _loads_may_race(launch, zero, other):
                second = LaunchMemory(memory, regions, keeps_loads=True)
                _run_grid(grid, second)
                settle_atomics(second, MisstepLog())
                find_races(second, log)
        again = _again_bytes(launch, zero, other)
        zero, other = _applied(memory, zero, other)
        memory.shadow.store(zero, other)
        stores = tuple(launch.stores)
        return LaunchResult(zero, other, stores, log.missteps(), launch.tally, again)

    def _functions(self, event: LaunchEvent) -> tuple[str, dict[str, BuiltFunction]]:
        variant = event.kernel.variant
        if variant not in self._built:
            text = event.kernel.ttir
            if text is None:
                raise NotJudgedError(f"no TTIR of {event.kernel.name} was kept")
            module = parse_module(text)
            if module.kernel not in module.functions:
                raise NotJudgedError(f"no function in the TTIR of {event.kernel.name}")
            self._built[variant] = (module.kernel, build_module(module))
        return self._built[variant]


def _arguments(
    event: LaunchEvent, kernel: BuiltFunction, memory: CaseMemory
) -> tuple[list[Value], dict[int, Region]]:
    """Return the values of a kernel's arguments, and the storages of its tensors."""
    slots = kernel.function.arguments
    if len(slots) != len(event.arguments):
        raise NotJudgedError(
            f"{event.kernel.name} takes {len(slots)} values but got "
            f"{len(event.arguments)} arguments at {event.kernel.place}"
        )
    values: list[Value] = []
    regions: dict[int, Region] = {}
    for index, (slot, argument) in enumerate(zip(slots, event.arguments)):
        values.append(_argument(argument, kernel.function.types[slot], event))
        if isinstance(argument, (int, float)):
            continue
        region = memory.real.add(getattr(argument, "base", argument))
        region = region or memory.real.add(argument)
        if region is not None:
            regions[index] = region
    return values, regions


def _argument(argument: Any, kind: Type, event: LaunchEvent) -> Value:
    """Return what a program gets of an argument, as the launcher converts it."""
    if kind.is_pointer:
        address = argument.data_ptr() if hasattr(argument, "data_ptr") else argument
        if isinstance(address, int):
            return np.int64(wrapped(address, 64))
    elif argument.__class__ is int and kind.bits > 1 and not kind.is_float:
        return kind.dtype.type(wrapped(argument, kind.bits))
    elif kind.is_float and isinstance(argument, (int, float)):
        codes = {"f32": np.float32, "f64": np.float64, "f16": np.float16}
        if kind.element in codes:
            number: Any = codes[kind.element](argument)
            return number.view(kind.dtype)
        if kind.element == "bf16":
            return np.int16(int(np.float32(argument).view(np.int32)) >> 16)
    elif isinstance(argument, (bool, int, np.integer)) and kind.bits:
        if kind.bits == 1:
            return np.bool_(bool(argument))
        return kind.dtype.type(wrapped(int(argument), kind.bits))
    raise NotJudgedError(f"an argument of type {kind.element} at {event.kernel.place}")


class _Grid(NamedTuple):
    """What is the same for all programs of a launch."""

    shape: Grid
    functions: dict[str, BuiltFunction]
    kernel: BuiltFunction
    arguments: list[Value]
    allowance: Allowance


def _run_grid(grid: _Grid, memory: LaunchMemory) -> MisstepLog:
    """Run all programs of a launch and return their missteps."""
    log = MisstepLog()
    if min(grid.shape) == 0:
        return log
    waiting = grid_domains(grid.shape, PART_PROGRAMS)[::-1]
    # A part that was too wide says how wide the next ones may be.
    most = PART_PROGRAMS
    checks_arguments = True
    while waiting:
        domain = waiting.pop()
        if domain.programs > most:
            waiting.extend(domain.halves()[::-1])
            continue
        run = Run(memory, grid.shape, grid.functions, grid.allowance)
        try:
            _run_part(domain, run, grid, checks_arguments)
        except TooWideError:
            memory.discard()
            most = max(domain.programs // 2, 1)
            waiting.append(domain)
            continue
        checks_arguments = False
        memory.commit(domain)
        log.extend(run.missteps)
    return log


def _run_part(
    domain: Domain,
    run: Run,
    grid: _Grid,
    checks_arguments: bool,  # noqa: FBT001 - of this module only
) -> None:
    kernel = grid.kernel
    frame = Frame(kernel.template, domain, run)
    for slot, value in zip(kernel.function.arguments, grid.arguments):
        frame.values[slot] = value
    if checks_arguments:
        check_arguments(frame, kernel.function)
    kernel.run(frame)


def _other_bytes(memory: LaunchMemory, log: MisstepLog, zero: Stretches) -> OtherBytes:
    """Return the bytes other than zero that a launch leaves, and report races.

    Where one program stores a byte twice, the later value counts; where two programs
    store different values, there is no winner, and any of them is kept.
    """
    stores = byte_stores(memory.stores)
    if not stores:
        return NO_OTHER_BYTES
    touched = np.concatenate(
        [
            (s.addresses[:, None] + np.arange(s.values.shape[1])).reshape(-1)
            for s in stores
        ]
    )
    values = np.concatenate([s.values.reshape(-1) for s in stores])
    order = np.argsort(touched, kind="stable")
    addresses, values = touched[order], values[order]
    last = np.append(addresses[1:] != addresses[:-1], True)
    again = ~last
    differs = np.zeros(len(addresses), bool)
    differs[:-1] = again[:-1] & (values[1:] != values[:-1])
    if memory.nameless.holds(addresses).any():
        raise NotJudgedError(f"too many stores meet the one at {stores[0].place}")
    contested = np.unique(
        np.concatenate([addresses[differs], addresses[zero.holds(addresses)]])
    )
    kept = OtherBytes(addresses[last], values[last])
    if len(contested):
        winners = _settled(memory, log, contested)
        kept.values[np.searchsorted(kept.addresses, contested)] = winners
    return kept


def _settled(
    memory: LaunchMemory, log: MisstepLog, contested: Int64Array
) -> NDArray[np.uint8]:
    """Return the last value stored on each contested byte, and report races."""
    winners = np.zeros(len(contested), np.uint8)
    writer = np.zeros(len(contested), np.int64)
    place = np.full(len(contested), -1)
    for index, store in enumerate(memory.stores):
        pairs = covering(store, contested)
        programs = store.programs(pairs.item)
        values = store.bytes_of(pairs.item, contested[pairs.byte])
        seen = place[pairs.byte] >= 0
        clash = seen & (values != winners[pairs.byte])
        clash &= (writer[pairs.byte] != programs) | (programs < 0)
        clash |= _clash_inside(pairs.byte, values)
        if clash.any():
            _report_race(memory, log, store, contested, pairs, clash, place)
        winners[pairs.byte] = values
        writer[pairs.byte] = programs
        place[pairs.byte] = index
    return winners


def _clash_inside(
    byte: NDArray[np.intp], values: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Return where one store instruction puts different values on one byte."""
    order = np.argsort(byte, kind="stable")
    same = byte[order][1:] == byte[order][:-1]
    differs = same & (values[order][1:] != values[order][:-1])
    clash = np.zeros(len(byte), bool)
    clash[order[1:][differs]] = True
    return clash


def _report_race(
    memory: LaunchMemory,
    log: MisstepLog,
    store: Store,
    contested: Int64Array,
    pairs: Pairs,
    clash: NDArray[np.bool_],
    place: NDArray[np.int_],
) -> None:
    first = int(np.argmax(clash))
    byte, item = int(pairs.byte[first]), int(pairs.item[first])
    other = memory.stores[place[byte]] if place[byte] >= 0 else store
    log.add(
        "race",
        store.place,
        f"two values are stored on {memory.described(int(contested[byte]))} in one "
        f"launch, the other at {other.place}, but one launch must store one value",
        store.program_of(item),
        len(np.unique(store.programs(pairs.item[clash]))),
    )


def _again_bytes(launch: LaunchMemory, zero: Stretches, other: OtherBytes) -> int:
    """Return how many bytes were stored more than once; atomics count once."""
    atomics = [store.flat() for store in launch.stores if store.is_atomic]
    once = 0
    if atomics:
        starts, ends = (np.concatenate(part) for part in zip(*atomics))
        once = stretches(starts, ends).total_bytes
    distinct = zero.total_bytes + len(other)
    return max(launch.tally.stored_bytes + once - distinct, 0)


def _loads_may_race(memory: LaunchMemory, zero: Stretches, other: OtherBytes) -> bool:
    """Return whether the extent of any load meets a stored byte."""
    stored = zero.union(other.extent()) if len(other) else zero
    if not len(stored.starts):
        return False
    begin, end = int(stored.starts[0]), int(stored.ends[-1])
    for low, high in memory.load_extents:
        if high <= begin or low >= end:
            continue
        index = int(np.searchsorted(stored.ends, low, side="right"))
        if index < len(stored.starts) and stored.starts[index] < high:
            return True
    return False


def _applied(
    memory: CaseMemory, zero: Stretches, other: OtherBytes
) -> tuple[Stretches, OtherBytes]:
    """Store for real what lies in registered memory; return the rest."""
    arena = memory.arena
    if not len(other) and _all_inside(zero, arena):
        return zero, other
    memory.refresh()
    for region in memory.real.regions:
        whole = Stretches(np.array([region.start]), np.array([region.end]))
        here = zero.common(whole)
        for begin, end in zip(here.starts.tolist(), here.ends.tolist()):
            region.fill_zero(begin, end)
        zero = zero.minus(whole) if len(here.starts) else zero
        inside = (other.addresses >= region.start) & (other.addresses < region.end)
        if inside.any():
            region.write(other.addresses[inside], other.values[inside])
            other = other.kept(~inside)
    return zero, other


def _all_inside(zero: Stretches, arena: range) -> bool:
    if not len(zero.starts):
        return True
    return bool(zero.starts[0] >= arena.start and zero.ends[-1] <= arena.stop)
