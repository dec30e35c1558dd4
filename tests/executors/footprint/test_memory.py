"""Sets of bytes, the arena, and memory that programs read."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.case import Placement
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.footprint import arena as arena_module
from kvzero.executors.footprint.arena import ARENA_ADDRESS, arena, arena_tensors
from kvzero.executors.footprint.domain import Domain
from kvzero.executors.footprint.real_memory import RealMemory, reachable_tensors
from kvzero.executors.footprint.shadow import OtherBytes
from kvzero.executors.footprint.stores import ZeroStore
from kvzero.executors.footprint.stretches import NO_BYTES, Stretches, stretches
from kvzero.executors.footprint.torch_writes import Write
from kvzero.executors.footprint.watch import ArenaWatch
from kvzero.poison import poison_at
from tests.executors.footprint.bench import Bench, one_page_case

SIZE = 64
parts = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=6)


def of(pairs: list[tuple[int, int]]) -> Stretches:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return stretches(columns[:, 0].copy(), columns[:, 1].copy())


def as_set(found: Stretches) -> set[int]:
    return {
        address
        for begin, end in zip(found.starts.tolist(), found.ends.tolist())
        for address in range(begin, end)
    }


@given(parts, parts)
def test_stretches_are_sets_of_bytes(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    x, y = of(first), of(second)
    assert as_set(x) == {a for begin, end in first for a in range(begin, end)}
    assert as_set(x.union(y)) == as_set(x) | as_set(y)
    assert as_set(x.minus(y)) == as_set(x) - as_set(y)
    assert as_set(x.common(y)) == as_set(x) & as_set(y)
    addresses = np.arange(SIZE)
    inside = [a in as_set(x) for a in range(SIZE)]
    assert x.holds(addresses).tolist() == inside
    assert x.total_bytes == len(as_set(x))


@given(
    st.lists(st.integers(0, 12), min_size=6, max_size=6),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
)
@example(starts=[0, 8, 2, 4, 4, 12], lengths=[2, 2, 2, 2, 2, 2])
def test_rows_that_continue_each_other_are_joined_without_loss(
    starts: list[int], lengths: list[int]
) -> None:
    domain = Domain((3, 2))
    shape = (3, 2)
    columns = (np.array(part).reshape(shape) for part in (starts, lengths))
    store = ZeroStore(domain, "here", *columns)
    assert as_set(stretches(*store.joined())) == as_set(stretches(*store.flat()))


def test_arena_lies_at_one_address_in_every_process() -> None:
    assert arena().start == ARENA_ADDRESS
    assert len(arena()) in arena_module.ARENA_SIZES


def test_refused_arena_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_module, "_map", lambda _: False)
    with pytest.raises(EnvironmentMissingError, match="overcommit_memory="):
        arena.__wrapped__()


def test_tensors_have_the_addresses_of_the_case() -> None:
    bases = np.array([ARENA_ADDRESS + 512, ARENA_ADDRESS + 2**40 + 3])
    tensors = arena_tensors(bases, np.array([2**38, 5]))
    assert [t.data_ptr() for t in tensors] == bases.tolist()
    assert [t.untyped_storage().nbytes() for t in tensors] == [2**38, 5]


def test_many_tensors_are_made_quickly() -> None:
    count = 2**14
    bases = ARENA_ADDRESS + np.arange(count) * 4096
    tensors = arena_tensors(bases, np.full(count, 100))
    assert tensors[-1].data_ptr() == bases[-1]


@given(st.integers(0, 511), st.integers(-100, 4000))
def test_memory_holds_the_poison_of_its_allocation(shift: int, offset: int) -> None:
    bench = Bench(one_page_case(placement=Placement(misalignments_bytes=(shift,))))
    expected = poison_at(0, 0, np.arange(offset, offset + 9))
    assert bench.read(offset, 9) == bytes(expected)


def test_address_belongs_to_the_allocation_whose_guard_it_is_in() -> None:
    bench = Bench()
    base = bench.memory.data_ptr()
    addresses = np.array([base - 4096, base - 1, base, base + 4095, base + 4096, 5])
    allocation, offset = bench.shadow.allocation_of(addresses)
    assert allocation.tolist() == [0, 0, 0, 0, 0, -1]
    assert offset.tolist() == [-4096, -1, 0, 4095, 4096, 5]
    inside = bench.shadow.is_inside(addresses, 1).tolist()
    assert inside == [False, False, True, True, False, False]


def test_zeros_and_other_bytes_replace_each_other() -> None:
    bench = Bench()
    base = bench.memory.data_ptr()
    bench.shadow.store(
        of([(base, base + 8)]), OtherBytes(np.zeros(0, np.int64), np.zeros(0, np.uint8))
    )
    other = OtherBytes(np.array([base + 2, base + 9]), np.array([7, 8], np.uint8))
    bench.shadow.store(NO_BYTES, other)
    assert bench.zeros() == [(0, 2), (3, 8)]
    assert bench.read(2, 1) == b"\x07"
    bench.shadow.store(
        of([(base + 1, base + 4)]),
        OtherBytes(np.zeros(0, np.int64), np.zeros(0, np.uint8)),
    )
    assert bench.zeros() == [(0, 8)]
    assert bench.read(9, 1) == b"\x08"


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_registered_memory_is_read_at_any_alignment(size: int) -> None:
    memory = RealMemory(range(0))
    tensor = torch.arange(64, dtype=torch.uint8)
    region = memory.add(tensor)
    assert region is not None
    raw = bytes(tensor.numpy())
    for offsets in ([0, 8, 16], [3, 3 + size, 3 + 5 * size], [1, 4, 9, 30]):
        seen = region.read(region.start + np.array(offsets), size)
        expected = [
            int.from_bytes(raw[o : o + size], "little", signed=True) for o in offsets
        ]
        assert seen.tolist() == expected


def test_tensors_are_found_a_few_levels_deep() -> None:
    class Holder:
        __slots__ = ("inside",)

        def __init__(self) -> None:
            self.inside = {"table": [torch.zeros(3)], "array": np.zeros(2)}

    found = list(reachable_tensors(Holder()))
    assert [type(item) for item in found] == [np.ndarray, torch.Tensor] or len(
        found
    ) == 2


def never(_write: Write, place: str) -> None:
    raise AssertionError(f"a write at {place}")


def test_watched_write_is_named_and_left_out() -> None:
    bench = Bench()
    with ArenaWatch(arena(), never) as watch:
        bench.memory.view(torch.int32)[:4].mul_(3)
        torch.zeros(4).mul_(1)
    assert watch.touched == ["aten::mul_.Tensor"]
    assert not bench.memory[:16].any()


_WATCHED = """
import sys
import torch
from kvzero.executors.footprint.arena import arena
from kvzero.executors.footprint.watch import ArenaWatch

def watched():
    with ArenaWatch(arena(), print) as watch:
        torch.zeros(3).add_(1)
    return watch.touched

assert watched() == [] and "torch._dynamo" not in sys.modules
import torch._dynamo
assert watched() == []
"""


@pytest.mark.slow
def test_watching_does_not_import_torchs_compiler() -> None:
    subprocess.run([sys.executable, "-c", _WATCHED], check=True, timeout=120)


def test_sets_of_read_only_addresses_are_subtracted() -> None:
    starts, ends = (np.array(part) for part in ([0, 20], [10, 30]))
    starts.flags.writeable = ends.flags.writeable = False
    assert as_set(stretches(starts, ends).minus(of([(5, 25)]))) == {
        *range(5),
        *range(25, 30),
    }


def test_watched_view_is_free() -> None:
    bench = Bench()
    with ArenaWatch(arena(), never) as watch:
        view = bench.memory.view(64, 64)[3]
        assert view.data_ptr() == bench.memory.data_ptr() + 192
    assert watch.touched == []
