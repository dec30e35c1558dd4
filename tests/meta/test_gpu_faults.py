"""The GPU rows of the kill matrix: each fault is caught by its own property."""

from collections.abc import Iterator

import pytest

from kvzero.campaign.faults import kill
from kvzero.executors.device import DeviceExecutor
from kvzero.properties.registry import PROPERTIES
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.faults.fault import Fault
from tests.executors.on_gpu import NEEDS_GPU

SEED = 0
CASES = 4_000
FAULTS = [fault for fault in fault_subjects() if fault.needs_gpu]
ON_THE_DEVICE_ALONE = {
    "calls_do_not_wait",
    "calls_keep_no_memory",
    "graphs_replay_with_new_ids",
    "queued_calls_act_in_order",
}


@pytest.fixture(scope="module")
def device() -> Iterator[DeviceExecutor]:
    executor = DeviceExecutor()
    yield executor
    executor.close()


def test_each_property_of_the_device_has_its_faults() -> None:
    assert {fault.breaks for fault in FAULTS} == ON_THE_DEVICE_ALONE
    assert set(PROPERTIES) >= ON_THE_DEVICE_ALONE


@pytest.mark.gpu
@pytest.mark.slow
@NEEDS_GPU[1]
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught_by_its_property_and_shrunk(
    device: DeviceExecutor, fault: Fault
) -> None:
    made = kill(fault, SEED, CASES, device)
    assert made.found is not None, f"{fault.name} survived {made.cases} cases"
    assert made.killed
    assert (made.runs, made.blocks) <= (2, 4)
