"""Loads at drawn addresses against a dictionary of bytes."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.accesses import build_load
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.shadow import OtherBytes
from kvzero.executors.footprint.stretches import stretches
from kvzero.executors.footprint.values import Dense, Value
from tests.executors.footprint.bench import Bench, one_page_case
from tests.executors.footprint.stage import (
    GRIDS,
    Program,
    Stage,
    integer,
    masks,
    over_programs,
    pointer,
    said,
    signed,
)

BITS = (8, 16, 32, 64)
ALLOCATED = 48
REGISTERED = 160
BEFORE = 16
"""Bytes in front of what may be loaded from, from which loads may begin."""


@dataclass
class Memory:
    """Registered storages with gaps between them, and a case's memory.

    Attributes:
        buffer: What the storages are cut from.
        cuts: First and last byte of each in the buffer.
        base: Address of the case's allocation.
        known: What is in each byte that may be loaded.
    """

    bench: Bench
    buffer: np.ndarray[tuple[int], np.dtype[np.uint8]]
    cuts: list[tuple[int, int]]

    def __post_init__(self) -> None:
        self.begin = self.buffer.ctypes.data
        self.base = self.bench.memory.data_ptr()
        self.parts = [range(self.begin + a, self.begin + b) for a, b in self.cuts]
        self.storages = [self.bench.real.add(self.buffer[a:b]) for a, b in self.cuts]
        self.parts.append(range(self.base, self.base + ALLOCATED))
        self.known = {
            address: int(self.buffer[address - self.begin])
            for part in self.parts[:-1]
            for address in part
        }
        poison = self.bench.read(0, ALLOCATED)
        self.known |= dict(zip(self.parts[-1], poison))

    def store(self, zeros: list[int], others: dict[int, int]) -> None:
        """Store bytes of the allocation as an earlier launch did."""
        begins = np.array(zeros, np.int64) + self.base
        sorted_others = sorted(others.items())
        columns = np.array(sorted_others, np.int64).reshape(-1, 2)
        self.bench.shadow.store(
            stretches(begins, begins + 1),
            OtherBytes(columns[:, 0] + self.base, columns[:, 1].astype(np.uint8)),
        )
        self.known |= {self.base + zero: 0 for zero in zeros}
        self.known |= {self.base + at: value for at, value in sorted_others}

    def value(self, address: int, size: int) -> int | None:
        """Return the element at an address; None where it lies in no one storage."""
        end = address + size
        if not any(p.start <= address and end <= p.stop for p in self.parts):
            return None
        whole = sum(self.known[address + i] << 8 * i for i in range(size))
        return signed(whole, 8 * size)


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Memory with one to three storages, some of which touch; shrink to one."""
    cuts, end = [], BEFORE
    for _ in range(draw(st.integers(1, 3))):
        begin = end + draw(st.integers(0, 9))
        end = begin + draw(st.integers(1, 30))
        cuts.append((begin, end))
    seed = draw(st.integers(0, 2**16))
    buffer = np.random.default_rng(seed).integers(0, 256, REGISTERED + 8, np.uint8)
    memory = Memory(Bench(one_page_case(ALLOCATED)), buffer, cuts)
    offsets = st.integers(0, ALLOCATED - 1)
    others = draw(st.dictionaries(offsets, st.integers(1, 255), max_size=6))
    memory.store(draw(st.lists(offsets, max_size=6)), others)
    return memory


@pytest.mark.parametrize("shape", [(), (4,), (2, 2)], ids=str)
@settings(max_examples=60)
@given(data=st.data())
def test_load_returns_the_bytes_that_lie_at_its_addresses(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    memory = data.draw(memories(), "memory")
    root = memory.storages[0]
    has_root = data.draw(st.booleans(), "the storage of the argument is known")
    stage = Stage(
        data.draw(st.sampled_from(GRIDS), "grid"),
        {0: root} if root is not None and has_root else {},
        memory.bench,
    )
    bits = data.draw(st.sampled_from(BITS), "bits")
    size = bits // 8
    step = data.draw(st.sampled_from((1, size)), "step of addresses")
    inside = [
        st.sampled_from([a for a in part[: 1 - size or None] if a % step == 0] or part)
        for part in memory.parts
    ]
    near = st.integers(-BEFORE, REGISTERED).map(lambda at: memory.begin + at)
    guard = st.integers(-BEFORE, ALLOCATED + 8).map(lambda at: memory.base + at)
    spots = data.draw(
        st.sampled_from((*inside, st.one_of(*inside), st.one_of(*inside, near, guard))),
        "spots",
    )
    addresses = data.draw(over_programs(spots, stage, np.int64, shape), "addresses")
    mask = data.draw(masks(stage, shape), "mask")
    other = None
    if mask is not None and data.draw(st.booleans(), "other"):
        lanes = st.integers(-100, 100)
        other = data.draw(over_programs(lanes, stage, f"i{size}", shape), "others")
    check_load(stage, memory, addresses, mask, other, shape, bits)


def check_load(
    stage: Stage,
    memory: Memory,
    addresses: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    mask: Value,
    other: Value,
    shape: tuple[int, ...],
    bits: int,
) -> None:
    size = bits // 8
    value = Dense(addresses) if shape else addresses
    if not shape and addresses.size == 1:
        value = addresses[0, 0]
    kinds = [pointer(integer(bits), shape), integer(1, shape), integer(bits, shape)]
    values = [value]
    if mask is not None:
        values.append(mask)
    if other is not None:
        values.append(Dense(other) if shape else other)
    wide = stage.lanes(Dense(addresses), shape)
    active = stage.lanes(np.bool_(True) if mask is None else mask, shape)
    loaded = {
        (*program, *lane): int(wide[*program, *lane])
        for program in stage.programs
        for lane in np.ndindex(shape)
        if active[*program, *lane]
    }
    lost = {at: a for at, a in loaded.items() if memory.value(a, size) is None}
    outside = [a for a in lost.values() if abs(a - memory.base) > 4096]

    def load() -> Value:
        return stage.step(build_load, kinds[: len(values)], values, kinds[2])

    if outside and not stage.arguments:
        with pytest.raises(NotJudgedError, match=f"address {outside[0]:#x}"):
            load()
        return
    result = load()
    seen, marks = stage.lanes(result, shape), stage.undefined(result, shape)
    filled = None if other is None else stage.lanes(Dense(other), shape)
    for program in stage.programs:
        for lane in np.ndindex(shape):
            at = (*program, *lane)
            assert marks[at] == (at not in loaded and filled is None)
            if at in lost or marks[at]:
                continue
            if at in loaded:
                assert seen[at] == memory.value(loaded[at], size)
            elif filled is not None:
                assert seen[at] == filled[at]
    check_missteps(stage, loaded, lost, size)
    if loaded:
        ends = max(loaded.values()) + size
        assert stage.memory.load_extents == {(min(loaded.values()), ends)}


def check_missteps(
    stage: Stage,
    loaded: dict[tuple[int, ...], int],
    lost: dict[tuple[int, ...], int],
    size: int,
) -> None:
    bad: dict[Program, int] = {}
    for at, address in lost.items():
        bad.setdefault((at[0], at[1]), address)
    odd: dict[Program, int] = {}
    for at, address in loaded.items():
        if address % size:
            odd.setdefault((at[0], at[1]), address)
    expected = [
        *said("bad-load", bad, stage.memory.described, stage),
        *said("false-promise", odd, lambda a: f"load of {size} B at {a:#x}", stage),
    ]
    assert [(m.kind, m.program, m.count) for m in stage.missteps] == [
        (kind, program, count) for kind, _, program, count in expected
    ]
    for misstep, (_, text, _, _) in zip(stage.missteps, expected):
        assert f"{text}, but must" in misstep.text
