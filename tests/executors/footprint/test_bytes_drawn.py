"""Sets of bytes, registered memory and the shadow, against sets and dictionaries."""

import ctypes
import mmap
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.errors import EnvironmentMissingError
from kvzero.executors.footprint import arena as arena_module
from kvzero.executors.footprint import real_memory, shadow
from kvzero.executors.footprint.arena import ARENA_ADDRESS, arena
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.real_memory import RealMemory, Region, reachable_tensors
from kvzero.executors.footprint.shadow import OtherBytes, Shadow
from kvzero.executors.footprint.stretches import Stretches, stretches
from kvzero.memory import Addresses
from kvzero.poison import poison_at
from tests.executors.footprint.test_memory import as_set

SPAN = 40
Int64Array = np.ndarray[tuple[int], np.dtype[np.int64]]


@st.composite
def pieces(draw: st.DrawFn, base: int) -> tuple[Int64Array, Int64Array]:
    """Stretches in any order, which overlap, touch or are empty; shrink to none."""
    spots = st.tuples(st.integers(0, SPAN), st.integers(0, 6))
    drawn = np.array(draw(st.lists(spots, max_size=7)), np.int64).reshape(-1, 2)
    return drawn[:, 0] + base, drawn.sum(axis=1) + base


def set_of(parts: tuple[Int64Array, Int64Array]) -> set[int]:
    starts, ends = (part.tolist() for part in parts)
    return {at for begin, end in zip(starts, ends) for at in range(begin, end)}


def assert_is(found: Stretches, expected: set[int]) -> None:
    """Hold a set of bytes against plain Python's; it must be sorted and disjoint."""
    assert as_set(found) == expected
    edges = [at for pair in zip(*(p.tolist() for p in found)) for at in pair]
    assert all(before < behind for before, behind in pairwise(edges))
    assert found.total_bytes == len(expected)


@settings(max_examples=60)
@given(data=st.data(), base=st.sampled_from((0, arena().start)))
def test_sets_of_bytes_are_pythons_sets(data: st.DataObject, base: int) -> None:
    first, second = (data.draw(pieces(base), name) for name in ("first", "second"))
    x, y = stretches(*first), stretches(*second)
    mine, theirs = set_of(first), set_of(second)
    assert_is(x, mine)
    assert_is(x.union(y), mine | theirs)
    assert_is(x.minus(y), mine - theirs)
    assert_is(x.common(y), mine & theirs)
    assert x.covers(y) == (mine >= theirs)
    assert x.union(y).covers(y)
    part = stretches(y.starts[1:2], y.ends[1:2])
    assert y.covers(part)
    addresses = np.arange(base - 3, base + SPAN + 9)
    for size in (1, 2, 5):
        assert x.holds(addresses, size).tolist() == [
            not mine.isdisjoint(range(at, at + size)) for at in addresses.tolist()
        ]
    assert (x.holds(addresses) == x.holds(addresses, 1)).all()


def number(raw: bytearray, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "little", signed=True)


@settings(max_examples=40)
@given(data=st.data())
def test_registered_storage_is_a_row_of_bytes(data: st.DataObject) -> None:
    skipped = data.draw(st.integers(0, 15), "bytes in front")
    length = data.draw(st.integers(1, 70), "bytes")
    owner = np.random.default_rng(length).integers(0, 256, 96, np.uint8)
    real = RealMemory(range(0))
    region = real.add(owner[skipped : skipped + length])
    assert region is not None
    assert (region.start, region.end - region.start) == (
        owner.ctypes.data + skipped,
        length,
    )
    raw = bytearray(owner[skipped : skipped + length])
    for _ in range(data.draw(st.integers(1, 3), "steps")):
        size = data.draw(st.sampled_from([s for s in (1, 2, 4, 8) if s <= length]))
        step = data.draw(st.sampled_from((1, size)), "step")
        phase = data.draw(st.integers(0, (length - size) % step), "phase")
        spots = st.integers(0, (length - size - phase) // step)
        at = [
            phase + step * spot
            for spot in data.draw(st.lists(spots, min_size=1, max_size=5), "elements")
        ]
        seen = region.read(region.start + np.array(at), size)
        assert seen.dtype == np.dtype(f"i{size}")
        assert seen.tolist() == [number(raw, i, size) for i in at]
        assert_elements(region, raw, size)
        where = np.array(at)
        region.write(region.start + where, np.full(len(at), size, np.uint8))
        begin, end = sorted(data.draw(st.tuples(spots, spots), "zeros"))
        region.fill_zero(region.start + begin, region.start + end)
        for i in at:
            raw[i] = size
        raw[begin:end] = bytes(end - begin)
        assert bytes(owner[skipped : skipped + length]) == bytes(raw)


def assert_elements(region: Region, raw: bytearray, size: int) -> None:
    """Hold the elements at multiples of their size against the bytes."""
    first = -region.start % size
    at = range(first, len(raw) - size + 1, size)
    if not at:
        return
    expected = [number(raw, i, size) for i in at]
    addresses = region.start + np.array(at)[:, None]
    assert region.elements(addresses, size)[:, 0].tolist() == expected
    assert int(region.elements(int(addresses[-1, 0]), size)) == expected[-1]


@settings(max_examples=40)
@given(data=st.data())
def test_storage_that_holds_bytes_is_found(data: st.DataObject) -> None:
    reserved = data.draw(st.integers(0, 4).map(lambda n: 16 * n), "reserved bytes")
    buffer = np.zeros(96, np.uint8)
    begin = buffer.ctypes.data
    real = RealMemory(range(begin, begin + reserved))
    spots = st.tuples(st.integers(0, 12).map(lambda n: 4 * n), st.integers(0, 40))
    known: dict[int, int] = {}
    for start, size in data.draw(st.lists(spots, max_size=6), "storages"):
        region = real.add(buffer[start : start + size])
        assert (region is None) == (start < reserved or not size)
        if region is not None:
            known[start] = max(known.get(start, 0), start + size)
            assert region.end == begin + known[start]
    assert {r.start - begin: r.end - begin for r in real.regions} == known
    wanted = st.tuples(st.integers(0, 90), st.integers(1, 12))
    for low, size in data.draw(st.lists(wanted, max_size=5), "accesses"):
        holding = {a for a, b in known.items() if a <= low and low + size <= b}
        found = real.containing(begin + low, begin + low + size)
        assert (found is None) == (not holding)
        assert found is None or found.start - begin in holding


def test_memory_that_is_no_strided_tensor_of_the_cpu_is_not_registered() -> None:
    real = RealMemory(range(0))
    for other in (torch.empty(3, device="meta"), torch.eye(3).to_sparse(), [1, 2]):
        assert real.add(other) is None
    assert real.regions == []


class Holder:
    """Holds something in its dictionary."""

    def __init__(self, inside: list[object]) -> None:
        self.inside = inside


class Slotted:
    """Holds two things in slots, one of which may be empty."""

    __slots__ = ("empty", "inside")

    def __init__(self, inside: list[object]) -> None:
        self.inside = inside


class Single(Slotted):
    """Holds one more thing, in a slot that is named by a word."""

    __slots__ = "more"

    def __init__(self, inside: list[object]) -> None:
        super().__init__(inside[1:])
        self.more = inside[0] if inside else None


@dataclass
class Held:
    """An object, and at which depth below it lie tensors and arrays.

    Attributes:
        root: The object.
        depths: Least depth of each tensor or array, by identity.
        items: All of them.
    """

    root: object
    depths: dict[int, int] = field(default_factory=dict)
    items: list[object] = field(default_factory=list)


WRAPPERS: dict[str, tuple[Callable[[list[object]], object], int]] = {
    "list": (lambda inside: inside, 1),
    "tuple": (tuple, 1),
    "dict": (lambda inside: dict(enumerate(inside)), 1),
    "object": (Holder, 2),
    "slots": (Slotted, 2),
}
"""What holds a list of things, and how much deeper they lie in it."""


LEAVES: dict[str, Callable[[], object]] = {
    "tensor": lambda: torch.zeros(1),
    "array": lambda: np.zeros(2),
    "number": lambda: 7,
    "word": str,
}


@st.composite
def held(draw: st.DrawFn, depth: int = 5) -> Held:
    """Tensors and arrays inside containers; shrink to a single tensor."""
    if not depth or draw(st.booleans()):
        made = LEAVES[draw(st.sampled_from(sorted(LEAVES)))]()
        is_memory = isinstance(made, (torch.Tensor, np.ndarray))
        return Held(made, {id(made): 0}, [made]) if is_memory else Held(made)
    inside = draw(st.lists(held(depth=depth - 1), min_size=1, max_size=3))
    if draw(st.booleans()):
        inside.append(inside[0])  # shared, and found once
    wrap, below = WRAPPERS[draw(st.sampled_from(sorted(WRAPPERS)))]
    whole = Held(wrap([each.root for each in inside]))
    for each in inside:
        whole.items += each.items
        for name, at in each.depths.items():
            whole.depths[name] = min(whole.depths.get(name, 99), at + below)
    return whole


@settings(max_examples=40)
@given(found=held())
def test_tensors_are_found_down_to_a_depth(found: Held) -> None:
    seen = [id(item) for item in reachable_tensors(found.root)]
    near = {name for name, depth in found.depths.items() if depth <= 4}
    assert {*seen} == near
    first = [name for name in seen if found.depths[name] < 4]
    assert len(first) == len({*first})


@settings(max_examples=15)
@given(tensors=st.integers(1, 6), most=st.integers(1, 4))
def test_objects_are_looked_into_until_they_are_many(tensors: int, most: int) -> None:
    held_by = [[torch.zeros(1)] for _ in range(tensors)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real_memory, "_MAX_OBJECTS", most)
        found = len([*reachable_tensors(held_by)])
    assert found == min(tensors, most)
    single = Single([torch.zeros(1)] * tensors)
    assert len([*reachable_tensors(single)]) == 1


@settings(max_examples=30)
@given(limit=st.integers(35, 46), less=st.integers(0, 1))
def test_arena_is_about_as_large_as_the_system_lets_it_be(
    limit: int, less: int
) -> None:
    most = 2**limit - less
    asked: list[int] = []

    def granted(size: int) -> bool:
        asked.append(size)
        return bool(size <= most)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena_module, "_map", granted)
        if most < 2**35:
            with pytest.raises(EnvironmentMissingError, match="32 GiB"):
                arena.__wrapped__()
            return
        found = arena.__wrapped__()
    assert found.start == arena_module.ARENA_ADDRESS
    assert len(found) <= most < 4 * len(found)
    assert asked == sorted(asked, reverse=True)
    assert asked[0] == 2**45  # 32 TiB


class Library:
    """What stands for the system's library: maps memory where it was told to.

    Attributes:
        mapped: Where; None and the number of -1 are no address.
        asked: Arguments of `mmap`.
        given_back: Address and size of what was unmapped.
    """

    def __init__(self, mapped: int | None) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.given_back: list[tuple[int, int]] = []

        def mmap(*arguments: int) -> int | None:
            self.asked.append(arguments)
            return mapped

        def munmap(address: ctypes.c_void_p, size: ctypes.c_size_t) -> None:
            self.given_back.append((address.value or 0, size.value))

        self.mmap, self.munmap = mmap, munmap


@settings(max_examples=30)
@given(
    mapped=st.sampled_from((ARENA_ADDRESS, None, 2**64 - 1)) | st.integers(1, 2**47),
    bits=st.integers(12, 46),
)
def test_arena_is_mapped_at_its_address_or_given_back(
    mapped: int | None, bits: int
) -> None:
    library = Library(mapped)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda *_, **__: library)
        is_mapped = arena_module._map(2**bits)
    assert is_mapped == (mapped == ARENA_ADDRESS)
    elsewhere = mapped not in (ARENA_ADDRESS, None, 2**64 - 1)
    assert library.given_back == ([(mapped, 2**bits)] if elsewhere else [])
    ((address, size, protection, flags, _, offset),) = library.asked
    assert (address, size, offset) == (ARENA_ADDRESS, 2**bits, 0)
    assert protection == mmap.PROT_READ + mmap.PROT_WRITE
    no_reserve, fixed_no_replace = 0x4000, 0x100000  # Linux: mman-linux.h
    sharing = mmap.MAP_PRIVATE + mmap.MAP_ANONYMOUS
    assert flags == sharing + no_reserve + fixed_no_replace


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2**34), st.integers(1, 2**20)), max_size=4))
def test_tensors_lie_where_they_were_told_to(parts: list[tuple[int, int]]) -> None:
    columns = np.array(parts, np.int64).reshape(-1, 2)
    tensors = arena_module.arena_tensors(columns[:, 0] + arena().start, columns[:, 1])
    for tensor, (offset, size) in zip(tensors, parts, strict=True):
        assert tensor.data_ptr() == arena().start + offset
        assert (tensor.dtype, tensor.shape) == (torch.uint8, (size,))
        assert tensor.untyped_storage().nbytes() == size


GUARD = 5


class Laid:
    """Allocations in any order, some of which touch, and what every byte holds.

    Attributes:
        bases: Offset of each allocation from the arena.
        sizes: Of each.
        stored: What was stored so far, by offset.
    """

    def __init__(self, data: st.DataObject) -> None:
        some = st.lists(st.sampled_from((0, 1, 2 * GUARD, 13)), max_size=5)
        gaps = data.draw(some, "gaps in front")
        self.sizes = [data.draw(st.integers(1, 12), "size") for _ in gaps]
        ends = np.cumsum(np.array(gaps) + np.array(self.sizes)).tolist()
        bases = [end - size for end, size in zip(ends, self.sizes)]
        order = data.draw(st.permutations(range(len(gaps))), "order")
        self.bases = [20 + bases[i] for i in order]
        self.sizes = [self.sizes[i] for i in order]
        self.end = 40 + max(ends, default=0)
        self.stored: dict[int, int] = {}
        addresses = Addresses(np.array(self.bases, np.int64), GUARD, self.end)
        sizes = np.array(self.sizes, np.int64)
        self.shadow = Shadow(3, addresses, sizes, arena().start)

    def owner(self, at: int) -> tuple[int, int]:
        """Return the allocation of a byte, and its offset there; else -1.

        A guard between two allocations belongs to the one in front of it.
        """
        index, begins = -1, sorted(zip(self.bases, self.sizes, range(5)))
        for begin, size, each in begins:
            is_first = index < 0 and begin - GUARD <= at < begin
            if is_first or begin <= at < begin + size + GUARD:
                index = each
        return index, at - (self.bases[index] if index >= 0 else -arena().start)

    def byte(self, at: int) -> int:
        """Return what a byte holds; only poison of allocations is known."""
        index, offset = self.owner(at)
        return self.stored.get(at, int(poison_at(3, index, np.array([offset]))[0]))

    def store(self, data: st.DataObject) -> None:
        spots = st.integers(0, self.end - 1)
        zeros = sorted(data.draw(st.sets(spots, max_size=8), "zeros"))
        others = data.draw(st.dictionaries(spots, st.integers(1, 255), max_size=5))
        others = {at: v for at, v in sorted(others.items()) if at not in zeros}
        begins = np.array(zeros, np.int64) + arena().start
        where = np.array([*others], np.int64) + arena().start
        values = np.array([*others.values()], np.uint8)
        zero = stretches(begins, begins + 1)
        self.stored |= dict.fromkeys(zeros, 0) | others
        self.shadow.store(zero, OtherBytes(where, values))


@settings(max_examples=40)
@given(data=st.data())
def test_shadow_is_poison_under_what_was_stored(data: st.DataObject) -> None:
    laid = Laid(data)
    for _ in range(data.draw(st.integers(0, 3), "launches")):
        laid.store(data)
    begin = arena().start
    where = np.arange(begin, begin + laid.end)
    owners = [laid.owner(at) for at in range(laid.end)]
    allocation, offset = laid.shadow.allocation_of(where)
    assert [*zip(allocation.tolist(), offset.tolist())] == owners
    seen = laid.shadow.bytes_at(where).tolist()
    for at in range(laid.end):
        if owners[at][0] >= 0 or at in laid.stored:
            assert seen[at] == laid.byte(at)
    zeros = {begin + at for at, value in laid.stored.items() if not value}
    assert_is(laid.shadow.zero, zeros)
    others = [begin + at for at, value in sorted(laid.stored.items()) if value]
    assert laid.shadow.other.addresses.tolist() == others
    for size in (1, 2, 8):
        inside = [
            any(b <= at and at + size <= b + n for b, n in zip(laid.bases, laid.sizes))
            for at in range(laid.end)
        ]
        assert laid.bases == [] or laid.shadow.is_inside(where, size).tolist() == inside


@settings(max_examples=50)
@given(data=st.data(), most=st.integers(1, 4))
def test_borders_of_allocations_are_told_up_to_a_number(
    data: st.DataObject, most: int
) -> None:
    laid = Laid(data)
    begin, end = sorted(
        data.draw(st.tuples(*[st.integers(0, laid.end)] * 2), "stretch")
    )
    edges = {edge for b, n in zip(laid.bases, laid.sizes) for edge in (b, b + n)}
    expected = [arena().start + at for at in sorted(edges) if begin < at < end]
    at = arena().start
    found = laid.shadow.borders_between(at + begin, at + end, most)
    # So many stretches are told, and one border less lies between them.
    assert found == expected[: len(found)]
    assert len(found) >= min(len(expected), most - 1)
    assert laid.shadow.borders_between(at + begin, at + end, 99) == expected


@settings(max_examples=12)
@given(data=st.data(), spared=st.integers(-1, 1))
def test_more_other_bytes_than_the_most_are_not_judged(
    data: st.DataObject, spared: int
) -> None:
    laid = Laid(data)
    count = data.draw(st.integers(1, 4), "bytes")
    where = arena().start + np.arange(count)
    other = OtherBytes(where, np.ones(count, np.uint8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shadow, "MAX_OTHER_BYTES", count + spared)
        if spared < 0:
            with pytest.raises(NotJudgedError, match="bytes other than zero"):
                laid.shadow.store(stretches(where[:0], where[:0]), other)
        else:
            laid.shadow.store(stretches(where[:0], where[:0]), other)
    assert laid.shadow.other.addresses.tolist() == where.tolist()
