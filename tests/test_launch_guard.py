"""The launch guard: what would not happen raises, everything else is left alone."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.errors import KvzeroError, LaunchLimitError
from kvzero.executors.device import device_available
from kvzero.guarding import guard_if_asked, launch_guard
from kvzero.limits import LaunchShape, launch_fate
from kvzero.triton_internals import LaunchEvent, dry_driver, recording_launches
from kvzero.triton_internals.launchers import launcher_types

gpu = pytest.mark.skipif(not device_available(), reason="torch finds no GPU")


@triton.jit
def fill(out_ptr, value):  # type: ignore[no-untyped-def]  # a kernel's are Triton's
    """Store one byte for each program of the first 256."""
    program = tl.program_id(0) + tl.program_id(1) + tl.program_id(2)
    tl.store(out_ptr + program, value, mask=program < 256)


@triton.jit
def fill_recorded(out_ptr):  # type: ignore[no-untyped-def]  # a kernel's are Triton's
    """Store one byte."""
    tl.store(out_ptr, 1)


@pytest.fixture
def out() -> torch.Tensor:
    return torch.zeros(256, dtype=torch.uint8)


def calls() -> dict[type, Any]:
    return {launcher: launcher.__call__ for launcher in launcher_types()}


SKIPPED = (65_536, 65_536, 1)

# platform, grid, and the start of the message; None where the launch is legal
GRIDS = [
    ("cuda:90", (2, 3, 4), None),
    ("cuda:90", (0, 1, 1), None),
    ("cuda:90", (2**31 - 1, 1, 1), None),
    ("cuda:90", (32_768, 256, 255), None),
    ("cuda:90", (32_768, 256, 256), "must fit nvidia-product .* would skip it without"),
    ("cuda:90", (131_072, 32_769, 1), None),
    ("cuda:90", SKIPPED, r"grid=\(65536, 65536, 1\) of fill, but must fit nvidia-prod"),
    ("cuda:90", (1, 65_536, 1), r"must fit cuda-y \(y <= 65,535\): .* CUDA would rej"),
    ("cuda:90", (1, 1, 65_536), "must fit cuda-z"),
    ("cuda:90", (2**31, 1, 1), "must fit launcher-int32"),
    ("cuda:90", (-1, 1, 1), "must have no negative dimension"),
    ("hip:gfx942", (1, 65_536, 1), None),
    ("hip:gfx942", SKIPPED, "must fit amd-product"),
    ("hip:gfx942", (16_777_216, 1, 1), "must fit hip-work-items .* HIP would reject"),
    ("hip:gfx942", (32_768, 256, 256), None),
]


@pytest.mark.parametrize(("platform", "grid", "message"), GRIDS)
@pytest.mark.parametrize("through", ["function", "compiled variant"])
def test_a_launch_that_would_not_happen_raises(
    platform: str,
    grid: tuple[int, int, int],
    message: str | None,
    through: str,
    out: torch.Tensor,
) -> None:
    events: list[LaunchEvent] = []
    with dry_driver(platform, events.append):
        compiled = fill[(1, 1, 1)](out, 0)
        launch: Any = fill if through == "function" else compiled
        events.clear()
        with launch_guard():
            if message is None:
                launch[grid](out, 0)
            else:
                with pytest.raises(LaunchLimitError, match=message):
                    launch[grid](out, 0)
    assert bool(events) == (message is None)


@settings(deadline=None)  # the first launch of a platform compiles
@given(
    st.tuples(*[st.integers(0, 2**33) | st.sampled_from([1, 2**16, 2**31])] * 3),
    st.sampled_from(["cuda:90", "hip:gfx942"]),
)
def test_the_guard_agrees_with_the_table_of_limits(
    grid: tuple[int, int, int], platform: str
) -> None:
    out = torch.zeros(256, dtype=torch.uint8)
    with dry_driver(platform, lambda _: None), launch_guard():
        compiled = fill.warmup(out, 0, grid=(1,))
        shape = LaunchShape(grid, compiled.metadata.num_warps)
        fate, _ = launch_fate(shape, platform.partition(":")[0])
        if fate == "runs":
            compiled[grid](out, 0)
        elif shape.programs:  # an empty grid asks for nothing, and nothing is lost
            with pytest.raises(LaunchLimitError):
                compiled[grid](out, 0)


def test_a_bound_launcher_of_an_old_kernel_is_seen(out: torch.Tensor) -> None:
    with dry_driver("cuda:90", lambda _: None):
        compiled = fill[(1,)](out, 0)
        bound: Callable[..., object] = compiled.run
        rest = 0, compiled.function, compiled.packed_metadata, None, None, None
        bound(*SKIPPED, *rest, out, 0)
        with launch_guard(), pytest.raises(LaunchLimitError):
            bound(*SKIPPED, *rest, out, 0)
        bound(*SKIPPED, *rest, out, 0)


def test_it_puts_back_what_it_found_and_may_be_entered_again(
    out: torch.Tensor,
) -> None:
    found = calls()
    with dry_driver("cuda:90", lambda _: None):
        with launch_guard():
            assert all(now is not found[launcher] for launcher, now in calls().items())
            with launch_guard():
                pass
            with pytest.raises(LaunchLimitError):
                fill[SKIPPED](out, 0)
        assert calls() == found
        fill[SKIPPED](out, 0)


def test_it_puts_back_what_it_found_after_an_error() -> None:
    found = calls()
    with pytest.raises(ZeroDivisionError), launch_guard():
        raise ZeroDivisionError
    assert calls() == found


def wrapper(inner: Callable[..., object]) -> Callable[..., object]:
    """Return what another tool may put in a launcher's place."""

    def call(*args: object) -> object:
        return inner(*args)

    return call


def test_a_wrapper_that_came_later_stays_and_the_guard_falls_silent(
    out: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = next(iter(launcher_types()))
    with dry_driver("cuda:90", lambda _: None):
        fill[(1,)](out, 0)
        with launch_guard():
            ours: Any = launcher.__call__
            monkeypatch.setattr(launcher, "__call__", wrapper(ours))
            theirs = launcher.__call__
        assert launcher.__call__ is theirs
        fill[SKIPPED](out, 0)
        with launch_guard(), pytest.raises(LaunchLimitError):
            fill[SKIPPED](out, 0)


def test_threads_may_come_and_go(out: torch.Tensor) -> None:
    found, ready, done = calls(), threading.Barrier(4), threading.Barrier(4)
    raised = []

    def work() -> None:
        for _ in range(20):
            with launch_guard():
                pass
        with launch_guard():
            ready.wait()
            done.wait()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    with dry_driver("cuda:90", lambda _: None):
        try:
            fill[SKIPPED](out, 0)
        except LaunchLimitError as error:
            raised.append(error)
    done.wait()
    for thread in threads:
        thread.join()
    assert len(raised) == 1
    assert calls() == found


def test_recorded_launches_are_guarded_too(out: torch.Tensor) -> None:
    events: list[LaunchEvent] = []
    with dry_driver("cuda:90", lambda _: None), recording_launches(events.append):
        fill_recorded[(3,)](out)
        with launch_guard(), pytest.raises(LaunchLimitError, match="of fill_recorded"):
            fill_recorded[SKIPPED](out)
    assert [event.fate for event in events] == ["runs", "skipped"]


ENVIRONMENT = """
import sys
import kvzero
guarded = sys.modules.get("kvzero.guarding")
print("triton" in sys.modules, guarded._GUARD.depth if guarded else 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "printed"), [(None, "False 0"), ("0", "False 0"), ("1", "True 1")]
)
def test_the_environment_guards_from_the_import_on(
    value: str | None, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KVZERO_LAUNCH_GUARD", raising=False)
    if value is not None:
        monkeypatch.setenv("KVZERO_LAUNCH_GUARD", value)
    command = [sys.executable, "-c", ENVIRONMENT]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == printed


def test_a_misspelt_switch_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVZERO_LAUNCH_GUARD", "yes")
    with pytest.raises(KvzeroError, match="KVZERO_LAUNCH_GUARD='yes', but must be 1"):
        guard_if_asked()


@gpu
@pytest.mark.gpu
def test_a_skipped_launch_raises_on_a_gpu_and_is_silent_without() -> None:
    out = torch.full((256,), 7, dtype=torch.uint8, device="cuda")
    fill[(4,)](out, 1)
    fill[SKIPPED](out, 2)
    torch.cuda.synchronize()
    assert out.tolist() == [1] * 4 + [7] * 252
    with launch_guard():
        with pytest.raises(LaunchLimitError, match=r"grid=\(65536, 65536, 1\) of fill"):
            fill[SKIPPED](out, 2)
        with pytest.raises(LaunchLimitError, match="cuda-y"):
            fill[1, 65_536, 1](out, 2)
        fill[(8,)](out, 3)
    torch.cuda.synchronize()
    assert out.tolist() == [3] * 8 + [7] * 248
