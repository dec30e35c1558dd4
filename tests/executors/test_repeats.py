"""Calls repeated on a device: in flight, in a graph, again and again."""

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest

from kvzero.case import Arrival, Call, Case, IdRun, id_runs
from kvzero.executors.device import DeviceExecutor
from kvzero.executors.repeats import MOST_IDS
from kvzero.layout import Allocation, Layout, Run
from kvzero.observation import Queued
from kvzero.properties import Holds
from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.protocol import MadeSubject
from kvzero.subjects.registry import find_subject
from tests.executors.gpu_subjects import PAGEABLE_IDS
from tests.executors.on_gpu import (
    LAYOUT,
    NEEDS_GPU,
    broken,
    calls_of,
    not_judged,
    results,
)

pytestmark = NEEDS_GPU

ARRIVALS: tuple[Arrival, ...] = get_args(Arrival)
BASE = MadeSubject(
    "asynchronous", replace(ONLY_QUEUES, allows_capture=True), Asynchronous
)
IN_ORDER = "queued_calls_act_in_order"
IN_GRAPH = "graphs_replay_with_new_ids"
NO_GROWTH = "calls_keep_no_memory"
NO_WAIT = "calls_do_not_wait"
LISTS = [1, 5, 2], [7, 6], [63, 9, 4], [33, 34, 35, 36]
"""No list holds block 0, which ids that are reused name."""


@pytest.fixture(scope="module")
def device() -> Iterator[DeviceExecutor]:
    executor = DeviceExecutor()
    yield executor
    executor.close()


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize(
    "subject", [find_subject("kvzero"), BASE], ids=lambda s: s.name
)
def test_calls_that_only_queue_act_on_their_own_ids_in_order(
    device: DeviceExecutor, subject: MadeSubject, arrival: Arrival
) -> None:
    case = calls_of(arrival, *LISTS)
    seen = device.run(subject, case)
    judged = results(subject, case, seen)
    assert seen.queued == Queued()
    assert seen.kept_bytes == 0
    for name in (IN_ORDER, NO_GROWTH, NO_WAIT):
        assert judged[name] == Holds(name)


@pytest.mark.parametrize(
    "subject", [find_subject("kvzero"), BASE], ids=lambda s: s.name
)
def test_a_graph_of_a_call_reads_its_ids_at_each_replay(
    device: DeviceExecutor, subject: MadeSubject
) -> None:
    case = calls_of("device", [1, 5, 2, 5])
    seen = device.run(subject, case)
    assert seen.replayed is not None
    assert (seen.replayed.call, seen.replayed.ids) == (0, (2, 6, 3, 6))
    assert results(subject, case, seen)[IN_GRAPH] == Holds(IN_GRAPH)


@pytest.mark.parametrize(
    ("name", "arrival", "violation"),
    [
        ("pinned-ids-not-copied", "pinned", (IN_ORDER, "listed-byte-not-zero")),
        ("pinned-ids-not-copied", "pinned", (IN_ORDER, "unlisted-byte-changed")),
        ("staging-refilled-in-flight", "list", (IN_ORDER, "listed-byte-not-zero")),
        ("staging-refilled-in-flight", "tensor", (IN_ORDER, "listed-byte-not-zero")),
        ("launched-on-the-default-stream", "list", (IN_ORDER, "listed-byte-not-zero")),
        ("fork-not-joined", "array", (IN_ORDER, "listed-byte-not-zero")),
        ("device-ids-not-held", "device", (IN_ORDER, "listed-byte-not-zero")),
        ("ids-read-back", "device", (NO_WAIT, "host-waits")),
        ("waits-for-its-kernel", "list", (NO_WAIT, "host-waits")),
        ("ids-never-freed", "list", (NO_GROWTH, "memory-kept")),
        (
            "ids-prepared-outside-the-graph",
            "device",
            (IN_GRAPH, "listed-byte-not-zero"),
        ),
    ],
)
def test_a_fault_that_only_a_gpu_shows_is_seen(
    device: DeviceExecutor, name: str, arrival: Arrival, violation: tuple[str, str]
) -> None:
    subject, case = find_subject(name), calls_of(arrival, *LISTS)
    assert violation in broken(subject, case, device.run(subject, case))


def test_each_fault_is_right_where_its_fault_does_not_show(
    device: DeviceExecutor,
) -> None:
    """Sanity check: what is seen is the fault, not the way it is looked for."""
    for name, arrival in (
        ("pinned-ids-not-copied", "tensor"),
        ("device-ids-not-held", "pinned"),
        ("ids-read-back", "list"),
    ):
        subject, case = find_subject(name), calls_of(arrival, *LISTS)  # type: ignore[arg-type]  # each is an arrival
        assert broken(subject, case, device.run(subject, case)) == set()


def test_calls_that_wait_are_not_held(device: DeviceExecutor) -> None:
    subject, case = PAGEABLE_IDS, calls_of("list", *LISTS)
    seen = device.run(subject, case)
    assert all(call.host_waits for call in seen.calls)
    assert "wait for the device" in not_judged(subject, case, seen)[IN_ORDER]
    assert broken(subject, case, seen) == {(NO_WAIT, "host-waits")}


def test_a_subject_that_does_wrong_alone_is_not_repeated(
    device: DeviceExecutor,
) -> None:
    subject = find_subject("mask-missing")
    case = Case(LAYOUT, (Call(id_runs([1, 3])),))
    reasons = not_judged(subject, case, device.run(subject, case))
    for name in (IN_ORDER, IN_GRAPH, NO_GROWTH):
        assert "already go wrong" in reasons[name]


def test_a_case_without_calls_is_not_repeated(device: DeviceExecutor) -> None:
    subject, case = find_subject("kvzero"), Case(LAYOUT, ())
    seen = device.run(subject, case)
    assert not_judged(subject, case, seen)[IN_ORDER] == "the case makes no call"


def test_long_lists_and_large_memory_are_not_repeated(device: DeviceExecutor) -> None:
    subject = find_subject("kvzero")
    long = Case(LAYOUT, (Call((IdRun(0, MOST_IDS + 1, 0),)),))
    wide = Layout(4, (Allocation(2**27),), (Run(8, 2**25),))
    large = Case(wide, (Call(id_runs([3])),))
    for case, text in ((long, "at most 65,536 ids"), (large, "memory of one piece")):
        reasons = not_judged(subject, case, device.run(subject, case))
        assert text in reasons[IN_ORDER]


def test_bad_ids_are_refused_in_flight_too(device: DeviceExecutor) -> None:
    subject, case = find_subject("kvzero"), calls_of("list", [1, 2], [64], [3])
    seen = device.run(subject, case)
    assert seen.calls[1].raised is not None
    assert seen.queued == Queued()
    assert broken(subject, case, seen) == set()


def test_repeated_calls_are_not_among_the_launches(device: DeviceExecutor) -> None:
    subject, case = find_subject("kvzero"), calls_of("device", [1, 2])
    seen = device.run(subject, case)
    assert {launch.kernel for launch in seen.launches} == {"zero_chunks"}
    assert sum(launch.call == 0 for launch in seen.launches) == 1
