"""Stores of drawn lanes against one dictionary of bytes for each program."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.accesses import build_load, build_store
from kvzero.executors.footprint.domain import Domain
from kvzero.executors.footprint.stores import linear_ids
from kvzero.executors.footprint.values import Affine, Dense, Value
from kvzero.limits import Grid
from tests.executors.footprint.stage import (
    FORMS,
    GRIDS,
    Program,
    Stage,
    integer,
    masks,
    over_programs,
    pointer,
    said,
    scalars,
)

FIRST, WINDOW = -64, 384
"""Bytes that are looked at afterwards, from the begin of the allocation."""


@dataclass
class Written:
    """What one store did: each program's bytes, and how often it stored any.

    Attributes:
        bytes: Offset to byte; None: lanes of one store disagree.
        lanes: Lanes that each program stored.
        odd: Programs whose store was misaligned, with the first such address.
    """

    size: int
    bytes: dict[Program, dict[int, int | None]] = field(default_factory=dict)
    lanes: dict[Program, int] = field(default_factory=dict)
    odd: dict[Program, int] = field(default_factory=dict)

    def add(self, program: Program, offset: int, value: int, base: int) -> None:
        own = self.bytes.setdefault(program, {})
        self.lanes[program] = self.lanes.get(program, 0) + 1
        if (base + offset) % self.size:
            self.odd.setdefault(program, base + offset)
        for i, byte in enumerate(value.to_bytes(self.size, "little", signed=True)):
            at = offset + i
            own[at] = byte if own.get(at, byte) == byte else None


@st.composite
def pointers(
    draw: st.DrawFn,
    stage: Stage,
    shape: tuple[int, ...],
    size: int,
    base: int,
    is_affine: bool,
) -> Value:
    """Pointers to lanes: written out, or affine with steps that are often of a row."""
    unit = draw(st.sampled_from((1, size)))
    spots = st.sampled_from((0, 1, 3, 6, 7)).map(lambda at: base + at * unit)
    if not shape:
        return draw(scalars(spots, stage, np.int64))
    if not is_affine and draw(st.booleans()):
        return Dense(draw(over_programs(spots, stage, np.int64, shape)))
    wide = st.sampled_from((0, size, -size, 2 * size, 4 * size, 24, unit))
    steps = tuple(draw(st.just(size) | wide) for _ in shape)
    return Affine(draw(scalars(spots, stage, np.int64)), steps, shape)


@st.composite
def lanes(
    draw: st.DrawFn, stage: Stage, shape: tuple[int, ...], dtype: str, is_zero: bool
) -> Value:
    """Values to store; shrink to the same zero in all lanes."""
    form = "zero" if is_zero else draw(st.sampled_from(("zero", "splat", "dense")))
    numbers = st.just(0) if form == "zero" else st.integers(-3, 3)
    if form == "dense" and shape:
        return Dense(draw(over_programs(numbers, stage, dtype, shape)))
    base = draw(scalars(numbers, stage, dtype))
    return Affine(base, (0,) * len(shape), shape) if shape else base


def stored(
    data: st.DataObject, stage: Stage, shape: tuple[int, ...], *, is_zero: bool
) -> Written:
    """Run one drawn store; return what plain Python makes of it.

    Zeros are stored in the lanes that an affine pointer and bounds leave.
    """
    size = data.draw(st.sampled_from((1, 2, 4, 8)), "size")
    kind = integer(8 * size, shape)
    base = stage.bench.memory.data_ptr()
    forms = ("none", "splat", "box", "box") if is_zero else FORMS
    address = data.draw(pointers(stage, shape, size, base, is_zero), "pointer")
    value = data.draw(lanes(stage, shape, f"i{size}", is_zero), "value")
    mask = data.draw(masks(stage, shape, forms), "mask")
    masked = [] if mask is None else [mask]
    kinds = [pointer(integer(8 * size), shape), kind, integer(1, shape)]
    stage.step(build_store, kinds[: 2 + len(masked)], [address, value, *masked])
    where, what = stage.lanes(address, shape), stage.lanes(value, shape)
    active = stage.lanes(np.bool_(True) if mask is None else mask, shape)
    written = Written(size)
    for program in stage.programs:
        for lane in np.ndindex(shape):
            at = (*program, *lane)
            if active[at]:
                written.add(program, int(where[at]) - base, int(what[at]), base)
    return written


def seen_bytes(stage: Stage) -> Iterator[tuple[Program, int, int]]:
    """Yield program, offset and byte as each program now loads them."""
    base = stage.bench.memory.data_ptr() + FIRST
    each = np.zeros((*stage.domain.shape, 1), np.int64)
    addresses = Dense(each + np.arange(base, base + WINDOW))
    kinds = [pointer(integer(8), (WINDOW,))]
    found = stage.step(build_load, kinds, [addresses], integer(8, (WINDOW,)))
    rows = stage.lanes(found, (WINDOW,)).astype(np.uint8)
    for program in stage.programs:
        for at, byte in enumerate(rows[program].tolist()):
            yield program, FIRST + at, byte


@pytest.mark.parametrize("shape", [(), (4,), (2, 4), (4, 2), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("is_zero", [True, False])
@settings(max_examples=40)
@given(data=st.data())
def test_program_sees_what_it_stored_and_nothing_else(
    is_zero: bool, shape: tuple[int, ...], data: st.DataObject
) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    base = stage.bench.memory.data_ptr()
    count = data.draw(st.integers(1, 2), "stores")
    stores = [stored(data, stage, shape, is_zero=is_zero) for _ in range(count)]
    now: dict[Program, dict[int, int | None]] = {p: {} for p in stage.programs}
    for written in stores:
        for program, own in written.bytes.items():
            now[program] |= own
    poison = dict(zip(range(FIRST, FIRST + WINDOW), stage.bench.read(FIRST, WINDOW)))
    writers = Counter(offset for own in now.values() for offset in own)
    for program, offset, byte in seen_bytes(stage):
        expected = now[program].get(offset, poison[offset])
        # What another program stores too is a race, and has no winner.
        if expected is not None and writers[offset] == (offset in now[program]):
            assert byte == expected
    found = [m for m in stage.missteps if m.kind == "false-promise"]
    assert_misaligned(stage, stores, len(found))
    pending = [*stage.memory.pending]
    stage.memory.commit(stage.domain)
    covered = {
        address - base
        for store in pending
        for begin, end in zip(*(part.tolist() for part in store.flat()))
        for address in range(begin, end)
    }
    assert covered == {offset for own in now.values() for offset in own}
    assert_tally(stage, stores)


def assert_misaligned(stage: Stage, stores: list[Written], found: int) -> None:
    odd = [written for written in stores if written.odd]
    assert found == bool(odd)
    if odd:
        (_, text, program, _), *_ = said(
            "false-promise",
            odd[0].odd,
            lambda a: f"store of {odd[0].size} B at {a:#x}, but must be",
            stage,
        )
        misstep = next(m for m in stage.missteps if m.kind == "false-promise")
        assert text in misstep.text
        assert misstep.program == program
        assert misstep.count == sum(len(written.odd) for written in odd)


def assert_tally(stage: Stage, stores: list[Written]) -> None:
    tally = stage.memory.tally
    # Lanes of one address count once where they are a stretch, else once each.
    least = sum(len(own) for w in stores for own in w.bytes.values())
    most = sum(w.size * count for w in stores for count in w.lanes.values())
    assert least <= tally.stored_bytes <= most
    idle = [p for p in stage.programs if not any(p in w.bytes for w in stores)]
    assert tally.idle_programs == len(idle)
    assert tally.first_idle == (stage.domain.program(*idle[0]) if idle else None)
    sizes = [w.size for w in stores if w.bytes]
    assert tally.narrowest_bytes == min(sizes, default=0)


@st.composite
def launches(draw: st.DrawFn) -> tuple[Grid, list[Grid]]:
    """Grids up to the widest, and the ids of some programs; shrink to one program."""
    wide = st.sampled_from((1, 2, 3, 5, 256, 2**15, 2**15 + 1, 2**16 - 1, 2**16 + 1))
    x = draw(wide | st.sampled_from((2**30, 2**31 - 1)))
    y, z = draw(wide), draw(wide)
    assume(x * y * z < 2**63)  # no platform launches more
    if x * y * z <= 64:
        return (x, y, z), [(i, j, k) for i, j, k in np.ndindex(x, y, z)]
    ids = st.tuples(*(st.sampled_from((0, n // 2, n - 1)) for n in (x, y, z)))
    return (x, y, z), draw(st.lists(ids, min_size=1, max_size=8))


@given(launches())
def test_two_programs_never_have_one_number(launch: tuple[Grid, list[Grid]]) -> None:
    grid, ids = launch
    x, y, z = (np.array(axis, np.int32)[:, None] for axis in zip(*ids))
    domain = Domain((len(ids), 1), (x, y, z), grid=grid)
    rows = np.arange(len(ids))
    numbers = linear_ids(domain, rows, 0 * rows, domain.shape).tolist()
    assert min(numbers) >= 0
    assert len({*zip(numbers, ids)}) == len({*numbers}) == len({*ids})
