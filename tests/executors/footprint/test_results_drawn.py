"""Facts of what launches stored, against a list of single bytes and their writers."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint import facts, stores
from kvzero.executors.footprint.arena import arena
from kvzero.executors.footprint.domain import Array, Domain, grid_domains
from kvzero.executors.footprint.evaluate import LaunchResult
from kvzero.executors.footprint.facts import (
    again_bytes,
    again_writer,
    joined,
    stored_bytes,
    touched_bytes,
)
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.shadow import OtherBytes, Shadow
from kvzero.executors.footprint.stores import (
    ByteStore,
    Store,
    ZeroStore,
    covering,
    linear_ids,
    writer_of,
)
from kvzero.executors.footprint.stretches import stretches
from kvzero.limits import Grid
from kvzero.memory import Addresses
from kvzero.observation import MAX_SPANS, ByteSpan, Writer, WrongBytes
from kvzero.oracle import Intervals
from tests.executors.footprint.test_memory import as_set

SPAN = 36
GRIDS = ((1, 1, 1), (2, 1, 1), (1, 3, 1), (2, 1, 2))


@dataclass
class Item:
    """One stretch or element of a store, as plain Python keeps it.

    Attributes:
        program: Who stored it, or the first of many.
        is_shared: Whether many programs stored it alike.
        values: Byte by address.
    """

    program: Grid
    is_shared: bool
    values: dict[int, int]


@dataclass
class Drawn:
    """A store, and its items in order."""

    store: Store
    items: list[Item]


@st.composite
def zero_stores(draw: st.DrawFn, domain: Domain, place: str) -> Drawn:
    """Stores of zeros; shrink to one empty stretch of all programs."""
    rows, cols = domain.shape
    shape = (draw(st.sampled_from((1, rows))), draw(st.sampled_from((1, cols))))
    whole = (*shape, *draw(st.sampled_from(((), (1,), (3,)))))
    count = int(np.prod(whole))
    spots = st.lists(st.integers(0, SPAN - 6), min_size=count, max_size=count)
    starts = np.array(draw(spots), np.int64).reshape(whole) + arena().start
    sizes = st.lists(st.integers(0, 6), min_size=count, max_size=count)
    lengths = np.array(draw(sizes), np.int64).reshape(whole)
    each: Array | int = lengths
    if draw(st.booleans()):
        each = lengths[:1] if draw(st.booleans()) else int(lengths.flat[0])
    ends = starts + each
    items = [
        Item(
            domain.program(at[0], at[1]),
            shape != domain.shape,
            dict.fromkeys(range(int(starts[at]), int(ends[at])), 0),
        )
        for at in np.ndindex(whole)
    ]
    return Drawn(ZeroStore(domain, place, starts, each), items)


@st.composite
def element_stores(draw: st.DrawFn, domain: Domain, place: str) -> Drawn:
    """Stores of elements, of atomics too; shrink to none."""
    rows, cols = domain.shape
    shape = (draw(st.sampled_from((1, rows))), draw(st.sampled_from((1, cols))))
    size = draw(st.sampled_from((1, 2, 4)))
    one = st.tuples(
        st.integers(0, SPAN - size),
        st.integers(0, shape[0] - 1),
        st.integers(0, shape[1] - 1),
        st.binary(min_size=size, max_size=size),
    )
    drawn = draw(st.lists(one, max_size=4))
    addresses = np.array([a for a, *_ in drawn], np.int64) + arena().start
    raw = b"".join(value for *_, value in drawn)
    at = [np.array([each[i] for each in drawn], np.intp) for i in (1, 2)]
    store = ByteStore(
        domain,
        place,
        addresses,
        np.frombuffer(raw, np.uint8).reshape(-1, size),
        (at[0], at[1]),
        shape,
        is_atomic=draw(st.booleans()),
    )
    items = [
        Item(
            domain.program(row, col),
            shape != domain.shape,
            dict(enumerate(value, address + arena().start)),
        )
        for address, row, col, value in drawn
    ]
    return Drawn(store, items)


@st.composite
def launches(draw: st.DrawFn) -> list[Drawn]:
    """The stores of one launch, in two parts where it has more programs than one."""
    domains = grid_domains(draw(st.sampled_from(GRIDS)), 2)
    found = []
    for kind in draw(st.lists(st.sampled_from((zero_stores, element_stores)))):
        place = draw(st.sampled_from(("a.py:1", "b.py:2")))
        found.append(draw(kind(draw(st.sampled_from(domains)), place)))
    return found


def result_of(launch: list[Drawn]) -> LaunchResult:
    """Return what a launch did: of the values of a byte, the last."""
    last: dict[int, int] = {}
    again = 0
    for drawn in launch:
        for item in drawn.items:
            again += len(last.keys() & item.values.keys())
            last |= item.values
    others = sorted((at, value) for at, value in last.items() if value)
    zeros = np.array(sorted(at for at, value in last.items() if not value), np.int64)
    columns = np.array(others, np.int64).reshape(-1, 2)
    return LaunchResult(
        zero=stretches(zeros, zeros + 1),
        other=OtherBytes(columns[:, 0], columns[:, 1].astype(np.uint8)),
        stores=tuple(drawn.store for drawn in launch),
        again_bytes=again,
    )


NO_INDEX = np.zeros(0, np.intp)
NOTHING = Drawn(
    ByteStore(
        Domain((1, 1)),
        "a.py:1",
        np.zeros(0, np.int64),
        np.zeros((0, 1), np.uint8),
        (NO_INDEX, NO_INDEX),
        (1, 1),
    ),
    [],
)
"""What torch stores in a view without elements."""


@settings(max_examples=50)
@given(calls=st.lists(launches(), max_size=3))
@example(calls=[[NOTHING]])
def test_stores_of_a_call_are_counted_and_traced(calls: list[list[Drawn]]) -> None:
    results = [result_of(launch) for launch in calls]
    items = [item for launch in calls for drawn in launch for item in drawn.items]
    stored, other = stored_bytes(results)
    assert as_set(stored) == {at for item in items for at in item.values}
    assert as_set(other) == {at for r in results for at in r.other.addresses.tolist()}
    total = sum(len(item.values) for item in items)
    assert again_bytes(results, stored) == total - stored.total_bytes
    all_stores = [store for result in results for store in result.stores]
    for at in range(arena().start, arena().start + SPAN):
        found = [writer for writer, item in written(calls) if at in item.values]
        if found:
            last = found[-1].place
            # The first item of the last store: another place tells another store.
            assert writer_of(all_stores, at) in [w for w in found if w.place == last]
        else:
            assert writer_of(all_stores, at) is None
    plain = [[d for d in launch if not d.store.is_atomic] for launch in calls]
    check_again(results, [*written(plain)])


def written(calls: list[list[Drawn]]) -> Iterator[tuple[Writer, Item]]:
    """Yield who stored each item."""
    for launch in calls:
        for drawn in launch:
            for item in drawn.items:
                yield Writer(item.program, drawn.store.place), item


def check_again(results: list[LaunchResult], items: list[tuple[Writer, Item]]) -> None:
    second = [
        writer
        for i, (writer, item) in enumerate(items)
        if any(item.values.keys() & before.values.keys() for _, before in items[:i])
    ]
    full = [writer for writer, item in items if item.values]
    found = again_writer(results)
    if second:
        assert found in second
    elif items:
        assert found == (full or [items[0][0]])[0]
    else:
        assert found is None
    for spared in (-1, 0) if items else ():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(facts, "MOST_ITEMS", len(items) + spared)
            assert again_writer(results) == (found if spared == 0 else None)


@settings(max_examples=40)
@given(drawn=st.lists(launches(), min_size=1, max_size=1), data=st.data())
def test_bytes_of_a_store_have_the_values_and_the_programs_that_stored_them(
    drawn: list[list[Drawn]], data: st.DataObject
) -> None:
    for each in drawn[0]:
        store = each.store
        spots = st.integers(arena().start - 1, arena().start + SPAN)
        where = np.array(data.draw(st.lists(spots, max_size=9), "bytes"), np.int64)
        pairs = covering(store, where)
        expected = {
            (i, n)
            for (i, at), (n, item) in product(
                enumerate(where.tolist()), enumerate(each.items)
            )
            if at in item.values
        }
        seen = [*zip(pairs.byte.tolist(), pairs.item.tolist())]
        assert len(seen) == len(expected)
        assert {*seen} == expected
        assert [byte for byte, _ in seen] == sorted(byte for byte, _ in seen)
        values = store.bytes_of(pairs.item, where[pairs.byte]).tolist()
        ids = store.programs(pairs.item).tolist()
        grid = np.ravel_multi_index
        for (byte, n), value, number in zip(seen, values, ids):
            item = each.items[n]
            assert value == item.values[int(where[byte])]
            assert store.program_of(n) == item.program
            x, y, z = item.program
            width, height, depth = store.domain.grid
            alone = grid((z, y, x), (depth, height, width))
            assert number == (-2 if item.is_shared else alone)
        check_bounds(store, each.items)


def check_bounds(store: Store, items: list[Item]) -> None:
    starts, ends = (part.tolist() for part in store.flat())
    assert [[*range(b, e)] for b, e in zip(starts, ends)] == [
        sorted(item.values) for item in items
    ]
    assert as_set(stretches(*store.joined())) == {at for i in items for at in i.values}
    assert store.is_empty() == (not any(item.values for item in items))
    assert store.bounds == ((min(starts), max(ends)) if starts else (0, 0))


@settings(max_examples=30)
@given(
    first=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1),
    rows=st.lists(st.tuples(st.sampled_from((0, 0, 1, -2)), st.integers(1, 4))),
)
def test_rows_that_continue_the_row_before_are_joined_to_it(
    first: list[tuple[int, int]], rows: list[tuple[int, int]]
) -> None:
    columns = np.array(first)
    starts, lengths = [columns[:, 0]], [columns[:, 1]]
    for gap, length in rows:
        starts.append(starts[-1] + lengths[-1] + gap)
        lengths.append(np.full(len(first), length))
    domain = Domain((len(starts), len(first)))
    store = ZeroStore(domain, "a.py:1", np.stack(starts), np.stack(lengths))
    apart = sum(bool(gap) for gap, _ in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "_FEW", 0)
        found = store.joined()
    assert as_set(stretches(*found)) == as_set(stretches(*store.flat()))
    assert len(found[0]) == len(found[1]) == (1 + apart) * len(first)


@settings(max_examples=30)
@given(overlaps=st.integers(1, 5), bytes_=st.integers(1, 4), spared=st.integers(-1, 1))
def test_more_overlaps_than_the_most_are_not_judged(
    overlaps: int, bytes_: int, spared: int
) -> None:
    starts = np.zeros((1, 1, overlaps), np.int64)
    store = ZeroStore(Domain((1, 1)), "a.py:1", starts, 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "MAX_PAIRS", overlaps * bytes_ + spared)
        if spared < 0:
            with pytest.raises(NotJudgedError, match=r"places at a\.py:1"):
                covering(store, np.arange(bytes_))
        else:
            assert len(covering(store, np.arange(bytes_)).byte) == overlaps * bytes_


@settings(max_examples=20)
@given(
    grid=st.tuples(*[st.integers(1, 4)] * 3),
    part=st.integers(1, 9),
    several=st.sampled_from((-1, -2)),
)
def test_numbers_of_programs_count_x_first(grid: Grid, part: int, several: int) -> None:
    x, y, z = grid
    order = [(i, j, k) for k, j, i in product(range(z), range(y), range(x))]
    for domain in grid_domains(grid, part):
        rows, cols = (np.array(axis) for axis in zip(*np.ndindex(domain.shape)))
        numbers = linear_ids(domain, rows, cols, domain.shape, several).tolist()
        programs = [domain.program(*at) for at in np.ndindex(domain.shape)]
        assert [order[number] for number in numbers] == programs
        for shape in product(*({1, n} for n in domain.shape)):
            is_whole = shape == domain.shape
            found = linear_ids(domain, 0 * rows, 0 * cols, shape, several)
            assert (found == several).all() == (not is_whole)


@settings(max_examples=40)
@given(calls=st.lists(launches(), max_size=2), data=st.data())
def test_touched_bytes_are_what_was_stored_and_may_not_be(
    calls: list[list[Drawn]], data: st.DataObject
) -> None:
    begin = arena().start
    bases = np.array([2, 20], np.int64)
    shadow = Shadow(1, Addresses(bases, 2, SPAN), np.array([14, 9]), begin)
    results = [result_of(launch) for launch in calls]
    for result in results:
        shadow.store(result.zero, result.other)
    parts = st.lists(st.booleans(), min_size=SPAN, max_size=SPAN)
    must, may = (
        {begin + at for at, is_in in enumerate(data.draw(parts, name)) if is_in}
        for name in ("must be zero", "may be zero")
    )
    stored, others = (as_set(part) for part in stored_bytes(results))
    wrong = {at for at in stored - must if at not in may or at in others}
    found = touched_bytes(results, intervals(must), intervals(may), shadow)
    assert found.count == len(wrong)
    edges = {begin + edge for edge in (2, 16, 20, 29)}
    firsts = [at for at in sorted(wrong) if at - 1 not in wrong or at in edges]
    assert len(found.spans) == min(len(firsts), MAX_SPANS)
    every = [store for result in results for store in result.stores]
    for span, first in zip(found.spans, firsts):
        allocation, offset = shadow.allocation_of(np.array([first]))
        assert (span.allocation, span.offset_bytes) == (
            int(allocation[0]) if allocation[0] >= 0 else None,
            int(offset[0]),
        )
        assert span.writer == writer_of(every, first)
        end = first + span.length_bytes
        assert {*range(first, end)} <= wrong
        assert end not in wrong or end in edges
        where = np.arange(first, min(end, first + 16))
        assert span.allocation is None or span.seen == bytes(shadow.bytes_at(where))


def intervals(addresses: set[int]) -> Intervals:
    starts = torch.tensor(sorted(addresses), dtype=torch.int64)
    found = stretches(starts.numpy(), starts.numpy() + 1)
    return found.as_intervals()


@settings(max_examples=25)
@given(first=st.integers(0, 2 * MAX_SPANS), second=st.integers(0, 2 * MAX_SPANS))
def test_wrong_bytes_of_two_parts_are_added(first: int, second: int) -> None:
    spans = [ByteSpan(None, at, 1, b"", None) for at in range(first + second)]
    mine, theirs = spans[:first][:MAX_SPANS], spans[first:][:MAX_SPANS]
    found = joined(WrongBytes(first, tuple(mine)), WrongBytes(second, tuple(theirs)))
    assert found.count == first + second
    assert found.spans == tuple([*mine, *theirs][:MAX_SPANS])
