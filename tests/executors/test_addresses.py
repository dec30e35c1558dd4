"""Addresses beyond 32 bits, on real memory: elements, bytes, offsets, distances."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvzero.case import Call, Case, IdRun, Placement, id_runs
from kvzero.casefile import read_case_file
from kvzero.executors import executor_named
from kvzero.executors.device import DeviceExecutor
from kvzero.executors.isolated import Isolation
from kvzero.layout import Allocation, Layout, Run
from kvzero.properties import BYTE_PROPERTIES, Holds
from kvzero.subjects.registry import find_subject
from tests.executors.on_gpu import NEEDS_GPU, broken, results

pytestmark = [*NEEDS_GPU, pytest.mark.slow]

KILLS = Path(__file__).parents[1] / "meta" / "kills"
BLOCKS, STRIDE = 4_352, 2**20
"""4.25 GiB: beyond 2**32 bytes, and 2**31 elements of 2 bytes."""
IDS = [0, 2_047, 2_048, 2_049, 4_095, 4_096, 4_097, BLOCKS - 1]
"""Block offsets on both sides of 2**31 and 2**32."""
CORRECT = ["kvzero", "masked-3d", "narrow-z"]


@pytest.fixture(scope="module")
def device() -> Iterator[DeviceExecutor]:
    executor = DeviceExecutor()
    yield executor
    executor.close()


def holds_bytes(device: DeviceExecutor, name: str, case: Case) -> bool:
    if not device.fits(case):
        pytest.skip("the GPU's memory does not hold the case")
    subject = find_subject(name)
    judged = results(subject, case, device.run(subject, case))
    return all(judged[each] == Holds(each) for each in BYTE_PROPERTIES)


@pytest.mark.parametrize("name", CORRECT)
def test_block_offsets_beyond_32_bits_are_met(
    device: DeviceExecutor, name: str
) -> None:
    runs = (Run(272, STRIDE), Run(4_104, STRIDE, STRIDE - 4_104))
    layout = Layout(BLOCKS, (Allocation(BLOCKS * STRIDE),), runs)
    calls = (Call(id_runs(IDS)), Call((IdRun(BLOCKS - 2, 700, -3),)))
    assert holds_bytes(device, name, Case(layout, calls))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", CORRECT)
def test_allocations_far_apart_are_met(
    device: DeviceExecutor, name: str, *, descending: bool
) -> None:
    far = Allocation(BLOCKS * STRIDE)
    near = Allocation(BLOCKS * 512)
    layout = Layout(
        BLOCKS,
        (near, far, near),
        (Run(64, 512), Run(64, STRIDE, 0, 1), Run(8, 512, 0, 2)),
    )
    placement = Placement(misalignments_bytes=(0, 16, 4), descending=descending)
    assert holds_bytes(
        device, name, Case(layout, (Call(id_runs(IDS)),), placement=placement)
    )


def test_offsets_of_32_bits_are_seen() -> None:
    # In a process of its own: a wrapped offset leads out of the case's memory.
    case = read_case_file(KILLS / "offsets-32-bit.json").case
    executor = executor_named("device", isolation=Isolation())
    try:
        if not executor.fits(case):
            pytest.skip("the GPU's memory does not hold the case")
        subject = find_subject("offsets-32-bit")
        seen = broken(subject, case, executor.run(subject, case))
    finally:
        executor.close()  # type: ignore[attr-defined]  # an isolated one has it
    assert {name for name, _ in seen} & {*BYTE_PROPERTIES, "the_process_survives"}
