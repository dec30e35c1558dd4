"""Loads and stores of the parts of a launch, against one dictionary a program."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint import launch_memory
from kvzero.executors.footprint.accesses import build_load, build_store
from kvzero.executors.footprint.domain import Array, grid_domains
from kvzero.executors.footprint.frame import MisstepLog, NotJudgedError
from kvzero.executors.footprint.launch_memory import find_races
from kvzero.executors.footprint.values import Dense, Value
from kvzero.limits import Grid
from tests.executors.footprint.stage import (
    Stage,
    integer,
    masks,
    over_programs,
    pointer,
)
from tests.executors.footprint.test_memory import as_set

FIRST, WINDOW = -8, 48
"""Bytes that are accessed, from the begin of the allocation."""
Bytes = dict[int, int | None]
Lane = tuple[Grid, tuple[int, ...], int]


@dataclass
class Did:
    """What one instruction did.

    Attributes:
        bytes: Program, offset and value of each byte, in order; loads have no value.
        is_alone: Whether each program's lanes are written out.
        is_zero: A store of zeros and of nothing else.
    """

    bytes: list[tuple[Grid, int, int]]
    is_alone: bool
    is_zero: bool = False

    @property
    def offsets(self) -> set[int]:
        """Return the bytes without their programs."""
        return {offset for _, offset, _ in self.bytes}


@dataclass
class Launch:
    """A launch in parts, and what plain Python makes of it.

    Attributes:
        stage: Whose programs run; its domain is the part's.
        base: Address that offsets count from.
        before: What each byte held before the launch.
        own: What each program of the part stored so far; None: its lanes disagree.
        pending: Loads and stores of the part.
        stores: Stores of finished parts that still have names.
        loads: Loads of finished parts.
        zeros: Bytes that finished parts set to zero.
        nameless: Those of them whose writers are forgotten.
    """

    stage: Stage
    base: int = 0
    before: Bytes = field(default_factory=dict)
    own: dict[Grid, Bytes] = field(default_factory=dict)
    pending: list[Did] = field(default_factory=list)
    stores: list[Did] = field(default_factory=list)
    loads: list[Did] = field(default_factory=list)
    zeros: set[int] = field(default_factory=set)
    nameless: set[int] = field(default_factory=set)
    kept: int = 0

    def __post_init__(self) -> None:
        begin = self.stage.bench.memory.data_ptr()
        first = FIRST + -begin % 8
        self.base = begin + first
        self.before = dict(enumerate(self.stage.bench.read(first, WINDOW)))

    def access(self, data: st.DataObject, *, is_store: bool) -> None:
        """Draw and run one instruction."""
        stage = self.stage
        size = data.draw(st.sampled_from((1, 2, 4)), "size")
        shape: tuple[int, ...] = data.draw(st.sampled_from(((), (3,))), "shape")
        near = data.draw(st.integers(0, WINDOW // size - 4), "first spot")
        width = data.draw(st.sampled_from((3, WINDOW // size - 1 - near)), "spots")
        spots = st.integers(near, near + width).map(lambda i: self.base + i * size)
        addresses = data.draw(over_programs(spots, stage, np.int64, shape), "addresses")
        if not is_store and data.draw(st.sampled_from((True, True, False)), "alone"):
            whole = (*stage.domain.shape, *shape)
            addresses = np.ascontiguousarray(np.broadcast_to(addresses, whole))
        mask = data.draw(masks(stage, shape, ("none", "dense", "box")), "mask")
        kinds = [pointer(integer(8 * size), shape), integer(8 * size, shape)]
        where = stage.lanes(Dense(addresses), shape)
        active = stage.lanes(np.bool_(1) if mask is None else mask, shape)
        lanes = [
            (stage.domain.program(at[0], at[1]), at, int(where[at]) - self.base)
            for at in np.ndindex(where.shape)
            if active[at]
        ]
        is_alone = addresses.shape[:2] == stage.domain.shape
        values: list[Value] = [Dense(addresses) if shape else addresses]
        masked = [] if mask is None else [mask]
        if is_store:
            numbers = data.draw(st.sampled_from((st.just(0), st.integers(-300, 300))))
            some = over_programs(numbers, stage, np.int64, shape)
            stored = data.draw(some, "values").astype(f"i{size}")
            values += [Dense(stored) if shape else stored, *masked]
            kinds.append(integer(1, shape))
            stage.step(build_store, kinds[: len(values)], values)
            self._store(lanes, stage.lanes(Dense(stored), shape), size, is_alone)
            return
        loading = [kinds[0], integer(1, shape)][: 1 + len(masked)]
        found = stage.step(build_load, loading, [*values, *masked], kinds[1])
        self._load(lanes, stage.lanes(found, shape), size, is_alone)

    def _store(
        self, lanes: list[Lane], values: Array, size: int, is_alone: bool
    ) -> None:
        now: dict[Grid, Bytes] = {}
        done = []
        for name, at, offset in lanes:
            raw = int(values[at]).to_bytes(size, "little", signed=True)
            for i, byte in enumerate(raw, offset):
                mine = now.setdefault(name, {})
                mine[i] = byte if mine.get(i, byte) == byte else None
                done.append((name, i, byte))
        for name, mine in now.items():
            self.own.setdefault(name, {}).update(mine)
        is_zero = not any(byte for _, _, byte in done)
        self.pending.append(Did(done, is_alone, is_zero))

    def _load(self, lanes: list[Lane], seen: Array, size: int, is_alone: bool) -> None:
        for name, at, offset in lanes:
            where = range(offset, offset + size)
            # Who loads alike with others also meets their loads of what it stored.
            racing = [p for p in self.own if p != name or not is_alone]
            others = {i for p in racing for i in self.own[p]}
            known = self.before | self.own.get(name, {})
            found = [known[i] for i in where]
            if others.isdisjoint(where) and None not in found:  # else it is a race
                whole = int.from_bytes(bytes(found), "little", signed=True)  # type: ignore[arg-type]  # no None is left
                assert int(seen[at]) == whole
        done = [(p, i, -1) for p, _, at in lanes for i in range(at, at + size)]
        self.pending.append(Did(done, is_alone))

    def finish(self, *, is_abandoned: bool) -> None:
        """End a part of the launch."""
        memory = self.stage.memory
        if is_abandoned:
            memory.discard()
        else:
            self.kept += sum(s.starts.size for s in memory.pending if s.is_zero)
            memory.commit(self.stage.domain)
            self._keep()
        self.own, self.pending = {}, []

    def _keep(self) -> None:
        is_load = [bool(did.bytes) and did.bytes[0][2] < 0 for did in self.pending]
        self.loads += [did for did, load in zip(self.pending, is_load) if load]
        self.stores += [did for did, load in zip(self.pending, is_load) if not load]
        for did in self.stores:
            if did.is_zero:
                self.zeros |= did.offsets
        if self.kept > launch_memory.MAX_STRETCHES:
            self.stores = [did for did in self.stores if not did.is_zero]
            self.nameless, self.kept = {*self.zeros}, 0

    def races(self) -> tuple[list[Grid], int]:
        """Return who raced first, and how often any did.

        Raises:
            NotJudgedError: A load meets a byte whose writer is forgotten.
        """
        racing: list[Grid] = []
        count = 0
        for load in self.loads:
            if not self.nameless.isdisjoint(load.offsets):
                raise NotJudgedError("forgotten")
            for store in self.stores:
                writers = defaultdict(set)
                for name, offset, _ in store.bytes:
                    writers[offset].add(name)
                found = [p for p, i, _ in load.bytes if writers[i] - {p}]
                racing += found
                count += len({*found})
        return racing, count


def launched(data: st.DataObject, *, keeps_loads: bool) -> Launch:
    """Run a drawn launch to its end."""
    stage = Stage(data.draw(st.sampled_from(((2, 1, 1), (1, 3, 1), (2, 1, 2))), "grid"))
    stage.memory.keeps_loads = keeps_loads
    launch = Launch(stage)
    works = st.lists(st.booleans(), min_size=1, max_size=4)
    for part in grid_domains(stage.grid, data.draw(st.sampled_from((1, 2, 9)), "part")):
        stage.domain = part
        for is_store in data.draw(works, "stores"):
            launch.access(data, is_store=is_store)
        is_abandoned = data.draw(st.sampled_from((False, False, True)), "abandoned")
        launch.finish(is_abandoned=is_abandoned)
    return launch


@pytest.mark.parametrize("most", [0, 3, launch_memory.MAX_STRETCHES])
@settings(max_examples=40)
@given(data=st.data())
def test_programs_of_a_launch_see_their_own_stores_and_race_with_others(
    most: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_memory, "MAX_STRETCHES", most)
        keeps_loads = data.draw(st.sampled_from((True, True, False)), "loads are kept")
        launch = launched(data, keeps_loads=keeps_loads)
        memory, log = launch.stage.memory, MisstepLog()
        assert as_set(memory.zeros()) == {launch.base + at for at in launch.zeros}
        named = [did for did in launch.stores if did.bytes]
        assert len(memory.stores) == len(named)
        assert not memory.pending
        assert bool(memory.loads) == (keeps_loads and bool(launch.loads))
        if keeps_loads:
            check_races(launch, log)


def check_races(launch: Launch, log: MisstepLog) -> None:
    try:
        racing, count = launch.races()
    except NotJudgedError:
        with pytest.raises(NotJudgedError, match="some of which meet the load"):
            find_races(launch.stage.memory, log)
        return
    find_races(launch.stage.memory, log)
    missteps = log.missteps()
    assert len(missteps) == bool(racing)
    for misstep in missteps:
        if all(load.is_alone for load in launch.loads):
            assert (misstep.program, misstep.count) == (racing[0], count)
            assert misstep.kind == "race"
        assert 0 < misstep.count <= count


@settings(max_examples=40)
@given(
    data=st.data(),
    size=st.sampled_from((1, 2, 4)),
    programs=st.integers(2, 5),
    lanes=st.sampled_from((1, 3)),
)
def test_race_is_told_of_the_first_program_whose_own_spot_another_stores(
    data: st.DataObject, size: int, programs: int, lanes: int
) -> None:
    stage = Stage((programs, 1, 1))
    stage.memory.keeps_loads = True
    loaded, storing = data.draw(st.permutations(range(programs)), "programs")[:2]
    begin = stage.bench.memory.data_ptr()
    spots = begin + np.arange(programs * lanes).reshape(1, programs, lanes) * size
    hit = spots[0, loaded, data.draw(st.integers(0, lanes - 1), "lane")]
    element, wide = integer(8 * size), integer(8 * size, (lanes,))
    stage.step(build_load, [pointer(element, (lanes,))], [Dense(spots)], wide)
    is_storing = np.arange(programs)[None, :] == storing
    stage.step(
        build_store,
        [pointer(element), element, integer(1)],
        [np.full((1, 1), hit), np.dtype(f"i{size}").type(0), is_storing],
    )
    stage.memory.commit(stage.domain)
    log = MisstepLog()
    find_races(stage.memory, log)
    (race,) = log.missteps()
    assert (race.program, race.count) == ((loaded, 0, 0), 1)
    assert f"program ({storing}, 0, 0)" in race.text
