"""Waits for the device are counted where torch notices them."""

import warnings

import pytest
import torch

from kvzero.executors.host_waits import counted_host_waits
from tests.executors.on_gpu import NEEDS_GPU

pytestmark = NEEDS_GPU


def test_a_copy_to_the_host_is_a_wait() -> None:
    values = torch.ones(4, device="cuda")
    with counted_host_waits() as waits:
        values.tolist()
        values.sum().item()
    assert waits.count == 2


def test_queued_work_is_no_wait() -> None:
    values, pinned = torch.ones(4, device="cuda"), torch.ones(4).pin_memory()
    with counted_host_waits() as waits:
        values.zero_()
        values.copy_(pinned, non_blocking=True)
    assert waits.count == 0


def test_the_mode_before_is_the_mode_after_even_if_a_call_raises() -> None:
    before = torch.cuda.get_sync_debug_mode()
    with pytest.raises(ValueError, match="mine"), counted_host_waits():
        raise ValueError("mine")
    assert torch.cuda.get_sync_debug_mode() == before


def test_other_warnings_pass() -> None:
    with pytest.warns(UserWarning, match="mine"), counted_host_waits() as waits:
        warnings.warn("mine", UserWarning, stacklevel=1)
    assert waits.count == 0
