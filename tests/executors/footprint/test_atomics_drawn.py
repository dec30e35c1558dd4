"""Atomics on drawn addresses against Python's integers."""

from collections import defaultdict
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint import shared_atomics
from kvzero.executors.footprint.accesses import build_store
from kvzero.executors.footprint.atomics import build_atomic_cas, build_atomic_rmw
from kvzero.executors.footprint.frame import MisstepLog, NotJudgedError
from kvzero.executors.footprint.ir import Type
from kvzero.executors.footprint.shared_atomics import settle_atomics
from kvzero.executors.footprint.values import Dense, Value
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

SPOTS = 6
"""Elements that programs share."""


def rule_of(kind: str, bits: int) -> Callable[[int, int], int]:
    """Return what an operation makes of an old value and an operand."""
    rules: dict[str, Callable[[int, int], int]] = {
        "add": lambda x, y: x + y,
        "and": lambda x, y: x & y,
        "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "max": max,
        "min": min,
        "umax": lambda x, y: max(x % 2**bits, y % 2**bits),
        "umin": lambda x, y: min(x % 2**bits, y % 2**bits),
        "exch": lambda _, y: y,
    }
    return rules[kind]


KINDS = ("add", "and", "or", "xor", "max", "min", "umax", "umin", "exch")


class Drawn:
    """One atomic operation of drawn lanes, and who does it.

    Attributes:
        lanes: Program, element and operand of each active lane, in order.
        before: What each element held before the launch.
    """

    def __init__(
        self, data: st.DataObject, stage: Stage, kind: str, *, is_shared: bool
    ) -> None:
        self.stage = stage
        self.shape: tuple[int, ...] = data.draw(st.sampled_from(((), (2,))), "shape")
        self.bits = data.draw(st.sampled_from((32, 64)), "bits")
        self.kind = kind
        self.size = self.bits // 8
        self.base = stage.bench.memory.data_ptr()
        whole = (*stage.domain.shape, *self.shape)
        count = int(np.prod(whole))
        if is_shared:
            spots = st.lists(st.integers(0, SPOTS - 1), min_size=count, max_size=count)
        else:
            spots = st.permutations(range(count))
        self.spots = np.array(data.draw(spots, "elements")).reshape(whole)
        operands = st.integers(-2, 2) | st.integers(-(2**31), 2**31 - 1)
        drawn = over_programs(operands, stage, f"i{self.size}", self.shape)
        self.operand = data.draw(drawn, "operands")
        self.mask = data.draw(masks(stage, self.shape), "mask")
        raw = stage.bench.read(0, count * SPOTS * self.size)
        self.before = np.frombuffer(raw, f"i{self.size}").tolist()
        active = stage.lanes(
            np.bool_(1) if self.mask is None else self.mask, self.shape
        )
        operand = stage.lanes(Dense(self.operand), self.shape)
        self.lanes: list[tuple[Program, int, int]] = [
            ((at[0], at[1]), int(self.spots[at]), int(operand[at]))
            for at in np.ndindex(whole)
            if active[at]
        ]
        self.rule = rule_of(self.kind, self.bits)

    def run(self, *, is_read: bool) -> Value:
        element = integer(self.bits)
        lanes = element.with_shape(self.shape)
        addresses = self.spots * self.size + self.base
        values = [Dense(addresses), Dense(self.operand)]
        if not self.shape:
            values = [addresses, self.operand]  # type: ignore[list-item]  # scalars
        kinds = [pointer(element, self.shape), lanes, integer(1, self.shape)]
        masked = [] if self.mask is None else [self.mask]
        return self.stage.step(
            build_atomic_rmw,
            kinds[: 2 + len(masked)],
            [*values, *masked],
            lanes,
            is_read=is_read,
            attributes={"words": [self.kind]},
        )

    def stored(self) -> dict[int, int]:
        """Return what all atomics of the launch leave, by element."""
        memory = self.stage.memory
        return {
            (address - self.base) // self.size: int(value)
            for store in memory.stores
            if store.is_atomic
            for address, value in zip(
                store.addresses.tolist(), store.values.view(f"i{self.size}")[:, 0]
            )
        }


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(data=st.data())
def test_atomic_whose_result_is_used_is_a_load_and_a_store(
    kind: str, data: st.DataObject
) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    drawn = Drawn(data, stage, kind, is_shared=False)
    result = drawn.run(is_read=True)
    old, marks = (part(result, drawn.shape) for part in (stage.lanes, stage.undefined))
    stage.memory.commit(stage.domain)
    expected = {
        spot: signed(drawn.rule(drawn.before[spot], operand), drawn.bits)
        for _, spot, operand in drawn.lanes
    }
    assert drawn.stored() == expected
    for at in np.ndindex(old.shape):
        spot = int(drawn.spots[at])
        assert marks[at] == (spot not in expected)
        assert marks[at] or old[at] == drawn.before[spot]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(data=st.data())
def test_shared_atomics_leave_the_value_of_any_order(
    kind: str, data: st.DataObject
) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    drawn = Drawn(data, stage, kind, is_shared=True)
    drawn.run(is_read=False)
    stage.memory.commit(stage.domain)
    operands = defaultdict(list)
    for _, spot, operand in drawn.lanes:
        operands[spot].append(operand)
    if drawn.kind == "exch" and any(len({*each}) > 1 for each in operands.values()):
        with pytest.raises(NotJudgedError, match="different values exchanged"):
            settle_atomics(stage.memory, MisstepLog())
        return
    settle_atomics(stage.memory, MisstepLog())
    assert drawn.stored() == {
        spot: signed(reduce(drawn.rule, each, drawn.before[spot]), drawn.bits)
        for spot, each in operands.items()
    }


@settings(max_examples=40)
@given(data=st.data())
def test_atomic_races_with_plain_stores_of_other_programs(data: st.DataObject) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    drawn = Drawn(
        data, stage, data.draw(st.sampled_from(KINDS), "kind"), is_shared=True
    )
    spots = st.integers(0, SPOTS * drawn.size - 1)
    stores = data.draw(over_programs(spots, stage, np.int64), "stored bytes")
    mask = data.draw(masks(stage, ()), "mask of the store")
    values = [stores + drawn.base, np.int8(0), *([] if mask is None else [mask])]
    kinds = [pointer(integer(8)), integer(8), integer(1)]
    stage.step(build_store, kinds[: len(values)], values)
    drawn.run(is_read=False)
    stage.memory.commit(stage.domain)
    active = stage.lanes(np.bool_(1) if mask is None else mask, ())
    where = stage.lanes(stores, ())
    writers = [(p, int(where[p]) // drawn.size) for p in stage.programs if active[p]]
    met = [
        (program, writer == program)
        for program, spot, _ in drawn.lanes
        for writer, at in writers
        if at == spot
    ]
    racing = [program for program, is_own in met if not is_own]
    log = MisstepLog()
    if met and not racing:
        with pytest.raises(NotJudgedError, match="what its own program stores"):
            settle_atomics(stage.memory, log)
        return
    try:
        settle_atomics(stage.memory, log)
    except NotJudgedError as error:
        assert "different values exchanged" in str(error)  # noqa: PT017 - some may be
        return
    found = [(m.kind, m.program, m.count) for m in log.missteps()]
    first = [stage.domain.program(*racing[0])] if racing else []
    assert found == [("race", program, len({*racing})) for program in first]


@settings(max_examples=25)
@given(data=st.data())
def test_compare_and_swap_stores_where_the_old_value_is_the_expected_one(
    data: st.DataObject,
) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    drawn = Drawn(data, stage, "exch", is_shared=False)
    whole = drawn.spots.shape
    count = drawn.spots.size
    hits = data.draw(st.lists(st.booleans(), min_size=count, max_size=count), "hits")
    hit = np.array(hits).reshape(whole)
    before = np.array(drawn.before)[drawn.spots]
    wanted = np.where(hit, before, before ^ 1).astype(f"i{drawn.size}")
    element = integer(drawn.bits)
    lanes = element.with_shape(drawn.shape)
    arrays = [drawn.spots * drawn.size + drawn.base, wanted, drawn.operand]
    values: list[Value] = [Dense(each) if drawn.shape else each for each in arrays]
    kinds = [pointer(element, drawn.shape), lanes, lanes]
    result = stage.step(build_atomic_cas, kinds, values, lanes)
    stage.memory.commit(stage.domain)
    operand = stage.lanes(Dense(drawn.operand), drawn.shape)
    assert drawn.stored() == {
        int(drawn.spots[at]): int(operand[at]) for at in np.ndindex(whole) if hit[at]
    }
    assert (stage.lanes(result, drawn.shape) == before).all()
    assert not stage.undefined(result, drawn.shape).any()


FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}


@settings(max_examples=25)
@given(data=st.data(), bits=st.sampled_from((16, 32, 64)))
def test_sums_of_floats_are_judged_where_one_program_adds(
    data: st.DataObject, bits: int
) -> None:
    stage = Stage(data.draw(st.sampled_from(GRIDS), "grid"))
    dtype, size = FLOATS[bits], bits // 8
    count = stage.domain.programs
    spots = data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    numbers = st.lists(st.floats(width=16, allow_nan=False), min_size=count)
    added = np.array(data.draw(numbers, "operands")[:count], dtype)
    base = stage.bench.memory.data_ptr()
    where = np.array(spots).reshape(stage.domain.shape) * size + base
    element = Type(f"f{bits}", bits)
    values: list[Value] = [where, added.view(f"i{size}").reshape(stage.domain.shape)]

    def add() -> Value:
        attributes = {"words": ["fadd"]}
        kinds = [pointer(element), element]
        return stage.step(
            build_atomic_rmw, kinds, values, element, attributes=attributes
        )

    if len({*spots}) < count:
        with pytest.raises(NotJudgedError, match="several programs or lanes share"):
            add()
        return
    add()
    raw = np.frombuffer(stage.bench.read(0, 6 * size), dtype)
    (store,) = stage.memory.pending
    with np.errstate(all="ignore"):
        expected = raw[spots] + added
    stored = store.values.view(dtype)[:, 0]  # type: ignore[union-attr]  # of elements
    assert stored.tobytes() == expected.astype(dtype).tobytes()


@settings(max_examples=25)
@given(
    counts=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4),
    spared=st.integers(-2, 1),
)
def test_more_atomics_than_the_most_are_not_judged(
    counts: list[tuple[int, bool]], spared: int
) -> None:
    stage = Stage()
    total = sum(count for count, _ in counts)
    done = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_atomics, "MAX_ATOMICS", total + spared)
        for count, is_committed in counts:
            where = stage.bench.memory.data_ptr() + 4 * np.arange(count)
            values: list[Value] = [
                Dense(where.reshape(1, 1, count)),
                Dense(np.ones((1, 1, count), np.int32)),
            ]
            kinds = [pointer(integer(32), (count,)), integer(32, (count,))]
            done += count
            if done > total + spared:
                with pytest.raises(NotJudgedError, match="more than"):
                    add(stage, kinds, values)
                return
            add(stage, kinds, values)
            if is_committed:
                stage.memory.commit(stage.domain)


def add(stage: Stage, kinds: list[Type], values: list[Value]) -> None:
    """Add to elements, and use no result."""
    words = {"words": ["add"]}
    stage.step(
        build_atomic_rmw, kinds, values, kinds[1], is_read=False, attributes=words
    )
