"""Faults that end a device's use: seen, told apart, and survived."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from kvzero.case import Call, Case, id_runs
from kvzero.executors import executor_named
from kvzero.executors.isolated import IsolatedExecutor, Isolation
from kvzero.layout import Allocation, Layout, Run
from kvzero.properties import Broken
from kvzero.properties.the_process_survives import the_process_survives
from kvzero.subjects.registry import find_subject
from tests.executors.on_gpu import NEEDS_GPU, broken, calls_of

pytestmark = [*NEEDS_GPU, pytest.mark.slow]

DEADLINE_SECONDS = 20.0
"""A new process takes about six to its first launch."""
CASE = calls_of("list", [], [3, 1])
KVZERO = find_subject("kvzero")


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[IsolatedExecutor]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    executor = executor_named("device", isolation=Isolation(DEADLINE_SECONDS))
    assert isinstance(executor, IsolatedExecutor)
    yield executor
    executor.close()


@pytest.fixture
def subjects(device: IsolatedExecutor) -> ModuleType:
    del device  # which put the folder of the module on the path
    return import_module("gpu_subjects")


@pytest.mark.parametrize(
    ("name", "what", "text"),
    [
        ("ILLEGAL", "device-died", "illegal memory access"),
        ("MISALIGNED", "device-died", "misaligned address"),
        ("ENDLESS", "process-hung", "no answer"),
    ],
)
def test_a_fault_of_the_device_is_seen_told_apart_and_survived(
    device: IsolatedExecutor, subjects: ModuleType, name: str, what: str, text: str
) -> None:
    seen = device.run(getattr(subjects, name), CASE)
    assert seen.died is not None
    assert (seen.died.what, text in seen.died.text) == (what, True)
    result = the_process_survives(CASE, seen)
    assert isinstance(result, Broken)
    assert broken(KVZERO, CASE, device.run(KVZERO, CASE)) == set()


def test_exhausted_memory_is_told_and_survived(
    device: IsolatedExecutor, subjects: ModuleType
) -> None:
    seen = device.run(subjects.HUNGRY, CASE)
    assert seen.died is None
    raised = [call.raised for call in seen.calls]
    assert [r and r.type_name for r in raised] == ["OutOfMemoryError"] * 2
    # It is the subject's doing, so it is held against it, and shrinks.
    assert ("legal_calls_are_accepted", "legal-call-refused") in broken(
        subjects.HUNGRY, CASE, seen
    )
    assert broken(KVZERO, CASE, device.run(KVZERO, CASE)) == set()


def test_a_promise_that_the_footprint_sees_broken_kills_the_device(
    device: IsolatedExecutor,
) -> None:
    # So it is shrunk on the footprint. Pages wide enough for stores of 16 bytes: on the
    # smallest case that breaks the promise the machine has nothing to trip over.
    layout = Layout(2, (Allocation(2 * 4_100),), (Run(4_096, 4_100),))
    case = Case(layout, (Call(id_runs([1])),))
    subject = find_subject("vector-store-alignment")
    foretold = executor_named("footprint").run(subject, case)
    assert ("promises_hold", "false-promise") in broken(subject, case, foretold)
    seen = device.run(subject, case)
    assert seen.died is not None
    assert "misaligned address" in seen.died.text
