"""The footprint foretells the bytes that the device then shows."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from kvzero.case import Case, id_runs
from kvzero.executors import Executor, executor_named
from kvzero.executors.device import DeviceExecutor
from kvzero.observation import EVERY_PROPERTY, Observation, WrongBytes
from kvzero.poison import poison_at
from kvzero.properties import BYTE_PROPERTIES
from kvzero.properties.unlisted_bytes_are_untouched import is_unseen
from kvzero.strategies import cases
from kvzero.subjects.registry import find_subject
from tests.executors.on_gpu import NEEDS_GPU

pytestmark = [*NEEDS_GPU, pytest.mark.slow]

MOST_BYTES = 2**24
MOST_PROGRAMS = 20_000
EXAMPLES = 60
CORRECT = ("kvzero", "masked-3d", "flat-1d", "narrow-z", "view-table")
FAULTY = (
    "id-0-skipped",
    "last-block-lost",
    "last-chunk-lost",
    "mask-missing",
    "only-the-last-id",
    "page-as-stride",
    "tail-not-written",
    "unit-truncation",
)
"""Faults whose stores stay inside the guards."""


@pytest.fixture(scope="module")
def device() -> Iterator[DeviceExecutor]:
    executor = DeviceExecutor()
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def footprint() -> Executor:
    return executor_named("footprint", max_programs=MOST_PROGRAMS)


def as_a_host_sees_it(case: Case) -> Case:
    """Return a case without the bad ids that only a kernel meets.

    It passes over them, so the bytes are the same. The footprint has ids of the device
    in host memory, where a subject that checks ids refuses the whole call.
    """
    num_blocks = case.layout.num_blocks
    calls = tuple(
        replace(call, ids=id_runs(call.blocks(num_blocks).tolist()))
        if is_unseen(call, num_blocks)
        else call
        for call in case.calls
    )
    return replace(case, calls=calls)


def judged_bytes(seen: Observation) -> bool:
    """Return whether all bytes of all calls were seen, and all have one meaning."""
    left_out = {name for name, _ in seen.not_judged}
    has_missteps = any(call.missteps for call in seen.calls)
    return not (left_out & {EVERY_PROPERTY, *BYTE_PROPERTIES} or has_missteps)


def assert_agree(case: Case, foretold: Observation, shown: Observation) -> None:
    """Check bytes call by call; where all wrong bytes are known, each of them."""
    assert (foretold.built is None) == (shown.built is None)
    assert len(foretold.calls) == len(shown.calls)
    for index, (told, seen) in enumerate(zip(foretold.calls, shown.calls)):
        assert (told.raised is None) == (seen.raised is None), case.calls[index]
        both = ((told.missed, seen.missed), (told.touched, seen.touched))
        for stored, changed in both:
            assert stored.count >= changed.count
            if index == 0 and is_whole(stored) and is_whole(changed):
                assert visible(case, stored) == visible(case, changed)


def is_whole(wrong: WrongBytes) -> bool:
    """Return whether every wrong byte is in a stretch that was kept."""
    return sum(span.length_bytes for span in wrong.spans) == wrong.count


def visible(case: Case, wrong: WrongBytes) -> set[tuple[int | None, int]]:
    """Return the wrong bytes, but for those whose poison is 0 by nature.

    A zero that was stored there, or that was not, is a fact for the footprint only.
    """
    found = set()
    for span in wrong.spans:
        offsets = np.arange(span.offset_bytes, span.offset_bytes + span.length_bytes)
        values = poison_at(case.seed, span.allocation or 0, offsets)
        found |= {(span.allocation, int(o)) for o in offsets[values != 0]}
    return found


@pytest.mark.parametrize("name", [*CORRECT, *FAULTY])
def test_the_device_shows_the_bytes_that_the_footprint_foretells(
    device: DeviceExecutor, footprint: Executor, name: str
) -> None:
    subject = find_subject(name)
    drawn = cases(
        contract=subject.contract,
        platforms=("cuda:90",),
        max_bytes=MOST_BYTES,
        max_programs_hint=MOST_PROGRAMS,
    )
    agreed = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=drawn)
    def check(case: Case) -> None:
        nonlocal agreed
        foretold = footprint.run(subject, as_a_host_sees_it(case))
        if not judged_bytes(foretold) or not device.fits(case):
            return
        shown = device.run(subject, case)
        if judged_bytes(shown):
            assert_agree(case, foretold, shown)
            agreed += 1

    check()
    assert agreed >= EXAMPLES // 3
