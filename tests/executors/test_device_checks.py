"""What a subject must do on a GPU that needs a set-up of its own to be seen.

Each check takes any subject, and is shown to fail on one that has the fault.
"""

import pytest
import torch

from kvzero.executors.hold import Hold
from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.protocol import MadeSubject, Subject
from kvzero.subjects.registry import find_subject
from tests.executors.gpu_subjects import TABLE_IN_FLIGHT
from tests.executors.on_gpu import NEEDS_GPU, Live

pytestmark = NEEDS_GPU

CALLS = 10_000
WARM_CALLS = 512
HOLD_SECONDS = 0.3
"""A constructor may wait, so its hold must end by itself."""
KVZERO = find_subject("kvzero")
BASE = MadeSubject("asynchronous", ONLY_QUEUES, Asynchronous)


def a_stream() -> torch.cuda.Stream:
    return torch.cuda.Stream(0)  # type: ignore[no-untyped-call]  # torch's own gap


def a_hold() -> Hold:
    return Hold(torch.device("cuda", 0))


def grown_bytes(subject: Subject, calls: int) -> int:
    """Return how much more device memory is in use after many calls than after some."""
    live = Live(subject)
    ids = torch.tensor([3, 1], device="cuda:0")

    def in_use_after(count: int) -> int:
        for call in range(count // 2):
            live.zeroer.zero([call % 64, 5])
            live.zeroer.zero(ids)
        torch.cuda.synchronize()
        torch.empty(1, device="cuda:0")  # the allocator looks for what is free
        return torch.cuda.memory_allocated()

    before = in_use_after(WARM_CALLS)
    return in_use_after(calls) - before


def allocations(subject: Subject) -> int:
    """Return what a call with aligned contiguous int64 ids on the device allocates."""
    live = Live(subject)
    ids = torch.tensor([5, 0, 63, 5], device="cuda:0")
    live.zeroer.zero(ids)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    live.zeroer.zero(ids)
    made: int = torch.cuda.memory_stats()["allocation.all.allocated"] - before
    assert live.holds([5, 0, 63])
    return made


def table_is_ready(subject: Subject) -> bool:
    """Return whether a call does its work while the constructor's stream is held."""
    live, hold, builder, other = Live(subject), a_hold(), a_stream(), a_stream()
    live.zeroer.zero([9])  # what is loaded while a stream is held would wait for it
    live.poison()
    with torch.cuda.stream(builder), hold.on_current_stream(HOLD_SECONDS):
        built = subject.build(live.pool)
        with torch.cuda.stream(other):
            built.zero([7, 3])
        other.synchronize()
        return live.holds([7, 3])


def streams_are_kept_apart(subject: Subject) -> bool:
    """Return whether a call on one stream acts while one on another is held."""
    live, hold, held_stream, other = Live(subject), a_hold(), a_stream(), a_stream()
    held_ids, ids = (torch.tensor(x, device="cuda:0") for x in ([1, 2], [11, 12, 13]))
    for each in (held_ids, ids):
        live.zeroer.zero(each)
    live.poison()
    seen = torch.bitwise_or(live.memory, 0)
    torch.cuda.synchronize()
    with torch.cuda.stream(held_stream), hold.on_current_stream(2.0) as held:
        live.zeroer.zero(held_ids)
        with torch.cuda.stream(other):
            live.zeroer.zero(ids)
            torch.bitwise_or(live.memory, 0, out=seen)
        other.synchronize()
        was_held = held.lasts()
    torch.cuda.synchronize()
    final = live.holds([1, 2, 11, 12, 13])
    live.memory.copy_(seen)
    return was_held and final and live.holds([11, 12, 13])


@pytest.mark.slow
@pytest.mark.parametrize("subject", [KVZERO, BASE], ids=lambda s: s.name)
def test_10_000_calls_keep_no_memory(subject: Subject) -> None:
    assert grown_bytes(subject, CALLS) == 0


def test_ids_that_are_never_freed_are_seen_to_grow() -> None:
    # One list of the host in two calls; the ids on the device are kept anyway.
    assert grown_bytes(find_subject("ids-never-freed"), 500) >= 250 * 512


def test_aligned_contiguous_int64_ids_allocate_nothing() -> None:
    assert allocations(KVZERO) == 0


def test_a_copy_of_the_ids_is_seen_as_an_allocation() -> None:
    assert allocations(BASE) > 0


@pytest.mark.parametrize("subject", [KVZERO, BASE], ids=lambda s: s.name)
def test_a_table_is_ready_for_any_stream(subject: Subject) -> None:
    assert table_is_ready(subject)


def test_a_table_that_is_still_on_its_way_is_seen() -> None:
    assert not table_is_ready(TABLE_IN_FLIGHT)


def test_two_streams_zero_disjoint_blocks_each_in_its_turn() -> None:
    assert streams_are_kept_apart(KVZERO)


def test_a_stream_that_is_not_the_callers_is_seen() -> None:
    assert not streams_are_kept_apart(find_subject("launched-on-the-default-stream"))
