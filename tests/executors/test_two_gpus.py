"""A cache on one GPU while torch's current device is another."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kvzero.case import Arrival
from kvzero.executors.device import DeviceExecutor
from kvzero.executors.hold import Hold
from kvzero.subjects.protocol import Subject
from kvzero.subjects.registry import find_subject
from tests.executors.gpu_subjects import ON_CURRENT_DEVICE
from tests.executors.on_gpu import NEEDS_TWO_GPUS, Live, broken, calls_of

pytestmark = NEEDS_TWO_GPUS

KVZERO = find_subject("kvzero")
FAR = torch.device("cuda", 1)
HOLD_SECONDS = 2.0
IDS = [5, 0, 63, 31]
SEES_THE_FAULT = """
from tests.executors import test_two_gpus as checks
raise SystemExit(0 if checks.acts_on_its_own_device(checks.ON_CURRENT_DEVICE) else 7)
"""


def acts_on_its_own_device(subject: Subject) -> bool:
    """Return whether calls act on device 1, in its order, while device 0 is current."""
    live, hold, ids = Live(subject, "cuda:1"), Hold(FAR), torch.tensor(IDS).to(FAR)
    live.zeroer.zero(IDS)
    live.zeroer.zero(ids)
    torch.cuda.synchronize(FAR)
    if not live.holds(IDS):
        return False
    live.poison()
    seen, other = torch.bitwise_or(live.memory, 0), torch.cuda.Stream(FAR)  # type: ignore[no-untyped-call]  # torch's own gap
    torch.cuda.synchronize(FAR)
    with hold.on_current_stream(HOLD_SECONDS) as held:
        live.zeroer.zero(ids)
        torch.cuda.synchronize(0)  # where a launch on the current device is at work
        with torch.cuda.stream(other):
            torch.bitwise_or(live.memory, 0, out=seen)
        other.synchronize()
        was_held = held.lasts()
    torch.cuda.synchronize(FAR)
    acted = live.holds(IDS)
    live.memory.copy_(seen)
    return was_held and acted and live.holds([]) and torch.cuda.current_device() == 0


def test_a_cache_on_the_second_gpu_is_zeroed_and_the_first_stays_current() -> None:
    assert acts_on_its_own_device(KVZERO)


@pytest.mark.slow
def test_a_launch_on_the_current_device_is_seen() -> None:
    # In a process of its own: its stores may be illegal, and end the use of a device.
    assert ON_CURRENT_DEVICE.contract.uses_triton
    ran = subprocess.run(
        [sys.executable, "-c", SEES_THE_FAULT],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode != 0


@pytest.mark.parametrize("arrival", ["list", "pinned", "device"])
def test_the_executor_judges_on_the_second_gpu(arrival: Arrival) -> None:
    executor, case = DeviceExecutor("cuda:1"), calls_of(arrival, [1, 2], [3, 60, 4])
    try:
        seen = executor.run(KVZERO, case)
    finally:
        executor.close()
    assert broken(KVZERO, case, seen) == set()
    assert torch.cuda.current_device() == 0
