"""Atomics, loads and stores in any order, against one order of the programs."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.accesses import build_load, build_store
from kvzero.executors.footprint.atomics import build_atomic_rmw
from kvzero.executors.footprint.frame import MisstepLog, NotJudgedError
from kvzero.executors.footprint.shared_atomics import settle_atomics
from kvzero.executors.footprint.values import Value
from kvzero.observation import Misstep
from tests.executors.footprint.stage import (
    GRIDS,
    Program,
    Stage,
    integer,
    masks,
    over_programs,
    pointer,
    signed,
)
from tests.executors.footprint.test_atomics_drawn import rule_of


@dataclass
class Element:
    """One atomic operation on one element.

    Attributes:
        is_own: Its result is used.
    """

    program: Program
    at: int
    size: int
    kind: str
    operand: int
    is_own: bool

    @property
    def bytes(self) -> range:
        """Return the bytes that it changes."""
        return range(self.at, self.at + self.size)


@dataclass
class History:
    """What the programs of a launch did one after another, told by plain Python.

    Attributes:
        now: Byte by offset.
        atomics: One list an instruction.
        plain: Who stored each byte, one dictionary an instruction.
    """

    stage: Stage
    now: dict[int, int] = field(default_factory=dict)
    atomics: list[list[Element]] = field(default_factory=list)
    plain: list[dict[int, set[Program]]] = field(default_factory=list)

    def number(self, at: int, size: int) -> int:
        raw = bytes(self.now[i] for i in range(at, at + size))
        return int.from_bytes(raw, "little", signed=True)

    def apply(self, element: Element) -> None:
        bits = 8 * element.size
        old = self.number(element.at, element.size)
        new = signed(rule_of(element.kind, bits)(old, element.operand), bits)
        raw = new.to_bytes(element.size, "little", signed=True)
        self.now |= dict(enumerate(raw, element.at))

    def is_refused_at_once(self, mine: list[Element]) -> bool:
        """Return whether an instruction meets what depends on an order."""
        shared = [e for each in self.atomics for e in each if not e.is_own]
        where = {i for element in mine for i in element.bytes}
        return any(not where.isdisjoint(element.bytes) for element in shared)

    def is_refused(self) -> bool:
        """Return whether atomics of several programs or kinds share a byte."""
        every = [element for each in self.atomics for element in each]
        for i, x in enumerate(every):
            for y in every[:i]:
                if not {*x.bytes} & {*y.bytes}:
                    continue
                if (x.at, x.size) != (y.at, y.size):
                    return True
                if (x.is_own or y.is_own) and (
                    x.program != y.program or x.is_own != y.is_own
                ):
                    return True
                if not x.is_own and x.kind != y.kind:
                    return True
                if not x.is_own and x.kind == "exch" and x.operand != y.operand:
                    return True
        return False

    def races(self) -> tuple[list[Program], int, bool]:
        """Return who races, how often, and whether a shared atomic meets its own."""
        racing: list[Program] = []
        count, refused = 0, False
        for mine in self.atomics:
            for writers in self.plain:
                met = [
                    (e.program, writers.get(i, set())) for e in mine for i in e.bytes
                ]
                found = [program for program, by in met if by - {program}]
                racing += found
                count += len({*found})
                is_own = mine and mine[0].is_own
                if not found and any(by for _, by in met) and not is_own:
                    return racing, count, True
        return racing, count, refused


def store_zeros(data: st.DataObject, history: History) -> None:
    """Let programs store single bytes."""
    stage = history.stage
    base = stage.bench.memory.data_ptr()
    spots = data.draw(over_programs(st.integers(0, 31), stage, np.int64), "bytes")
    stage.step(
        build_store, [pointer(integer(8)), integer(8)], [spots + base, np.int8(0)]
    )
    where = stage.lanes(spots, ())
    writers: dict[int, set[Program]] = defaultdict(set)
    for program in stage.programs:
        writers[int(where[program])].add(program)
        history.now[int(where[program])] = 0
    history.plain.append(writers)


def load_one(data: st.DataObject, history: History) -> bool:
    """Let programs load an element; return whether it is refused."""
    stage = history.stage
    bits = data.draw(st.sampled_from((8, 32)), "bits")
    base = stage.bench.memory.data_ptr()
    at = data.draw(st.integers(0, 7), "element") * bits // 8
    element = Element((0, 0), at, bits // 8, "", 0, is_own=True)
    values: list[Value] = [np.int64(base + at)]
    kinds = [pointer(integer(bits))]
    if history.is_refused_at_once([element]):
        with pytest.raises(NotJudgedError, match="of what the atomic at"):
            stage.step(build_load, kinds, values, integer(bits))
        return True
    stage.step(build_load, kinds, values, integer(bits))
    return False


def do_atomic(data: st.DataObject, history: History) -> bool:
    """Let programs do an atomic operation; return whether it is refused."""
    stage = history.stage
    size = data.draw(st.sampled_from((4, 4, 8)), "size")
    kind = data.draw(st.sampled_from(("add", "add", "max", "exch")), "kind")
    is_own = data.draw(st.booleans(), "the result is used")
    mask = data.draw(masks(stage, ()), "mask")
    spots = st.integers(0, 6)
    some = spots if not is_own else st.sampled_from(range(7))
    at = data.draw(over_programs(some, stage, np.int64), "elements") * 4
    operand = data.draw(over_programs(st.integers(0, 2), stage, f"i{size}"), "operand")
    where, added = stage.lanes(at, ()), stage.lanes(operand, ())
    active = stage.lanes(np.bool_(1) if mask is None else mask, ())
    mine = [
        Element(p, int(where[p]), size, kind, int(added[p]), is_own)
        for p in stage.programs
        if active[p]
    ]
    values = [at + stage.bench.memory.data_ptr(), operand]
    values += [] if mask is None else [mask]
    kinds = [pointer(integer(8 * size)), integer(8 * size), integer(1)]

    def do() -> None:
        stage.step(
            build_atomic_rmw,
            kinds[: len(values)],
            values,
            integer(8 * size),
            is_read=is_own,
            attributes={"words": [kind]},
        )

    is_shared = len({e.at for e in mine}) < len(mine)
    if is_own and (is_shared or history.is_refused_at_once(mine)):
        with pytest.raises(NotJudgedError, match="atomic"):
            do()
        return True
    do()
    for element in mine:
        history.apply(element)
    history.atomics.append(mine)
    return False


@settings(max_examples=120)
@given(data=st.data())
def test_atomics_are_judged_where_no_order_of_programs_matters(
    data: st.DataObject,
) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    history = History(stage, dict(enumerate(stage.bench.read(0, 40))))
    before = dict(history.now)
    works = st.sampled_from(("atomic", "atomic", "store", "load"))
    for work in data.draw(st.lists(works, min_size=2, max_size=4), "works"):
        if work == "store":
            store_zeros(data, history)
        elif (load_one if work == "load" else do_atomic)(data, history):
            return
    stage.memory.commit(stage.domain)
    log = MisstepLog()
    racing, count, meets_own = history.races()
    if meets_own or history.is_refused():
        with pytest.raises(NotJudgedError, match=r"atomic|exchanged"):
            settle_atomics(stage.memory, log)
        return
    settle_atomics(stage.memory, log)
    check_races(stage, log.missteps(), racing, count)
    base = stage.bench.memory.data_ptr()
    seen = dict(before)
    for store in stage.memory.stores:
        starts, ends = store.flat()
        for item, (begin, end) in enumerate(zip(starts.tolist(), ends.tolist())):
            where = np.arange(begin, end)
            values = store.bytes_of(np.full(len(where), item), where).tolist()
            seen |= dict(zip(range(begin - base, end - base), values))
    assert racing or seen == history.now


def check_races(
    stage: Stage, found: tuple[Misstep, ...], racing: list[Program], count: int
) -> None:
    assert [(m.kind, m.program, m.count) for m in found] == [
        ("race", stage.domain.program(*program), count) for program in racing[:1]
    ]
