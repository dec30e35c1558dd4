"""Processes that share a GPU: who gets which, and how much of it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.errors import EnvironmentMissingError
from kvzero.executors.admission import (
    ALONE_BYTES,
    LARGE_BYTES,
    Ledger,
    devices_of_worker,
    ledger_of,
)

CAPACITY = 40 * 2**30
DIES_WITH_A_CLAIM = """
import os, sys
from pathlib import Path
from kvzero.executors.admission import Ledger
Ledger(Path(sys.argv[1]), 100).claim(100)
os._exit(9)
"""


def refused(ledger: Ledger, size_bytes: int) -> bool:
    """Return whether a claim would have to wait."""
    try:
        ledger.claim(size_bytes, 0.0).release()
    except EnvironmentMissingError:
        return True
    return False


def test_claims_are_granted_while_they_fit(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, CAPACITY)
    first = ledger.claim(15 * 2**30)
    second = ledger.claim(15 * 2**30)
    assert ledger.claimed_bytes() == 30 * 2**30
    assert refused(ledger, 11 * 2**30)
    second.release()
    assert not refused(ledger, 11 * 2**30)
    first.release()
    assert ledger.claimed_bytes() == 0


@pytest.mark.parametrize(
    ("standing", "asked", "must_wait"),
    [
        (ALONE_BYTES, LARGE_BYTES, True),
        (LARGE_BYTES, ALONE_BYTES, True),
        (ALONE_BYTES, LARGE_BYTES - 1, False),
        (LARGE_BYTES - 1, ALONE_BYTES, False),
        (ALONE_BYTES - 1, ALONE_BYTES - 1, False),
    ],
)
def test_the_very_large_run_alone_among_the_large(
    tmp_path: Path, standing: int, asked: int, *, must_wait: bool
) -> None:
    ledger = Ledger(tmp_path, CAPACITY)
    claim = ledger.claim(standing)
    assert refused(ledger, asked) == must_wait
    claim.release()


def test_what_no_gpu_holds_may_be_claimed_alone(tmp_path: Path) -> None:
    # `DeviceExecutor.fits` refuses such a case with the reason; here nobody waits.
    assert not refused(Ledger(tmp_path, 100), 101)


def test_a_claim_that_waits_is_granted_when_another_is_released(tmp_path: Path) -> None:
    ledger, granted = Ledger(tmp_path, 100), threading.Event()
    first = ledger.claim(80)

    def wait() -> None:
        Ledger(tmp_path, 100).claim(80, 60.0).release()
        granted.set()

    thread = threading.Thread(target=wait)
    thread.start()
    first.release()
    thread.join(60)
    assert granted.is_set()


def test_a_claim_that_waits_too_long_says_why(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, 100)
    claim = ledger.claim(80)
    with pytest.raises(
        EnvironmentMissingError,
        match=r"claim of 30 B, but other processes have claimed 80 B of 100 B",
    ):
        ledger.claim(30, 0.0)
    claim.release()


@pytest.mark.slow
def test_the_claim_of_a_process_that_died_is_dropped(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", DIES_WITH_A_CLAIM, str(tmp_path)],
        check=False,
        timeout=60,
    )
    assert ran.returncode == 9
    assert [*tmp_path.glob("*.claim")]
    assert not refused(Ledger(tmp_path, 100), 100)
    assert not [*tmp_path.glob("*.claim")]


def test_each_gpu_has_a_ledger_of_its_own() -> None:
    first, second = ledger_of("GPU-1/a", 1), ledger_of("GPU-2/a", 1)
    assert first.folder != second.folder
    assert first.folder == ledger_of("GPU-1/a", 1).folder
    assert str(os.getuid()) in first.folder.parent.name


@pytest.mark.parametrize(
    ("worker", "given_devices", "present", "expected"),
    [
        (0, None, 0, None),
        (3, None, 1, None),
        (0, None, 2, "0,1"),
        (1, None, 2, "1,0"),
        (2, None, 2, "0,1"),
        (1, "5", 8, None),
        (1, "5,2", 8, "2,5"),
        (4, "5,2,GPU-7", 8, "2,GPU-7,5"),
        (1, "", 8, None),
    ],
)
def test_workers_begin_with_the_callers_devices_in_turn(
    worker: int, given_devices: str | None, present: int, expected: str | None
) -> None:
    environment = (
        {} if given_devices is None else {"CUDA_VISIBLE_DEVICES": given_devices}
    )
    assert devices_of_worker(worker, environment, present) == expected


@given(st.integers(0, 500), st.integers(2, 16))
def test_every_worker_sees_all_devices_and_its_own_first(
    worker: int, present: int
) -> None:
    devices = (devices_of_worker(worker, {}, present) or "").split(",")
    assert sorted(map(int, devices)) == list(range(present))
    assert int(devices[0]) == worker % present
