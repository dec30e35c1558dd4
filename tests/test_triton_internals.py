"""The dry driver, and what it leaves behind: nothing."""

import sys
from contextlib import ExitStack
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
import triton
from triton.runtime import driver as config

from kvzero.errors import EnvironmentMissingError
from kvzero.triton_internals import (
    DryDriver,
    LaunchEvent,
    dry,
    dry_driver,
    gpu_target,
    internals,
    recording_launches,
)
from tests.executors.footprint import fault_kernels as kernels

TARGETS = (
    "cuda:80",
    "cuda:90",
    "cuda:100",
    "cuda:120",
    "hip:gfx942",
    "hip:gfx950",
    "hip:gfx1100",
)


@pytest.fixture
def memory() -> torch.Tensor:
    return torch.zeros(256, dtype=torch.uint8)


def launch(memory: torch.Tensor, grid: tuple[int, ...] = (2,), size: int = 100) -> Any:
    return kernels.fill[grid](memory, size, 0, 128)


@pytest.mark.parametrize("platform", TARGETS)
def test_kernel_is_compiled_to_machine_code_for_its_platform(
    platform: str, memory: torch.Tensor
) -> None:
    events: list[LaunchEvent] = []
    with dry_driver(platform, events.append):
        compiled = launch(memory)
    assert events[0].kernel.platform == platform
    assert compiled.metadata.target == gpu_target(platform)
    assert compiled.asm.keys() & {"cubin", "hsaco"}
    wave = 64 if platform.startswith("hip:gfx9") else 32
    assert compiled.metadata.target.warp_size == wave


def test_launch_is_recorded_with_shape_constants_and_line(memory: torch.Tensor) -> None:
    events: list[LaunchEvent] = []
    with dry_driver("cuda:90", events.append):
        launch(memory, (3, 4))
    record = events[0].launch(2)
    assert (record.call, record.kernel, record.fate) == (2, "fill", "runs")
    assert record.shape.grid == (3, 4, 1)
    assert record.place.startswith("fault_kernels.py:")
    assert dict(record.constants) == {"value": 0, "LANES": 128}
    assert [p.name for p in events[0].kernel.parameters] == ["out", "size"]
    assert events[0].arguments[0] is memory
    assert events[0].arguments[1] == 100
    assert "tt.store" in (events[0].kernel.ttir or "")


def test_launch_through_a_compiled_kernel_is_recorded(memory: torch.Tensor) -> None:
    events: list[LaunchEvent] = []
    with dry_driver("cuda:90", events.append):
        compiled = kernels.fill.warmup(memory, 100, 0, 128, grid=(1,))
        assert events == []
        compiled[5, 1, 1](memory, 100, 0, 128)
    assert [event.shape.grid for event in events] == [(5, 1, 1)]


def test_each_platform_gets_its_own_kernel(memory: torch.Tensor) -> None:
    events: list[LaunchEvent] = []
    for platform in (*TARGETS, *TARGETS):
        with dry_driver(platform, events.append):
            launch(memory)
    assert [event.kernel.platform for event in events] == [*TARGETS, *TARGETS]
    assert len({event.kernel.variant for event in events}) == len(TARGETS)


class EndingKernel:
    """Unloads its module when it ends, as kernels of Triton 3.8 and newer do."""

    unloaded: ClassVar[list[int]] = []

    def __init__(self, module: int, run: object) -> None:
        self.module: int | None = module
        self._run = run

    def __del__(self) -> None:
        if self.module is not None:
            self.unloaded.append(self.module)


def test_a_kernel_that_ends_unloads_only_what_was_loaded() -> None:
    dry.spare_dry_kernels(EndingKernel)
    for module, run in ((1, object.__new__(dry.DryLauncher)), (2, len)):
        EndingKernel(module, run)
    assert EndingKernel.unloaded == [2]


def test_a_dry_kernel_is_loaded_once(
    memory: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    load = dry._DryUtils.load_binary

    def counted(self: Any, name: str, *others: Any) -> Any:
        loads.append(name)
        return load(self, name, *others)

    monkeypatch.setattr(dry._DryUtils, "load_binary", counted)
    with dry_driver("cuda:90", lambda _: None):
        compiled = kernels.fill.warmup(memory, 101, 0, 64, grid=(1,))
        for _ in range(3):
            compiled[1, 1, 1](memory, 101, 0, 64)
    assert len(loads) <= 1


def test_driver_of_before_is_active_afterwards(memory: torch.Tensor) -> None:
    def fail(event: LaunchEvent) -> None:
        raise ValueError(event.kernel.name)

    before = config._active
    with (
        pytest.raises(ValueError, match="fill"),
        dry_driver("cuda:90", fail),
        dry_driver("hip:gfx942", fail),
    ):
        launch(memory)
    assert config._active is before
    assert DryDriver.sessions == []


def test_kernel_of_a_dry_driver_is_never_launched_for_real(
    memory: torch.Tensor,
) -> None:
    with dry_driver("cuda:90", lambda _: None):
        compiled = launch(memory)
    with (
        dry_driver("cuda:80", lambda _: None),
        pytest.raises(EnvironmentMissingError, match="compiled under a dry driver"),
    ):
        compiled[1, 1, 1](memory, 100, 0, 128)


@pytest.mark.parametrize(
    ("platform", "grid", "fate", "limit"),
    [
        ("cuda:90", (0, 1, 1), "runs", None),
        ("cuda:90", (32768, 256, 256), "skipped", "nvidia-product"),
        ("hip:gfx942", (16384, 16384, 16), "skipped", "amd-product"),
        ("hip:gfx942", (8, 65536, 1), "runs", None),
    ],
)
def test_launch_meets_the_fate_of_its_platform_in_silence(
    platform: str,
    grid: tuple[int, ...],
    fate: str,
    limit: str | None,
    memory: torch.Tensor,
) -> None:
    events: list[LaunchEvent] = []
    with dry_driver(platform, events.append):
        launch(memory, grid)
    assert [(event.fate, event.limit) for event in events] == [(fate, limit)]


@pytest.mark.parametrize(
    ("platform", "grid", "error", "message"),
    [
        ("cuda:90", (2**31, 1, 1), OverflowError, "greater than maximum"),
        ("cuda:90", (1, 65536, 1), RuntimeError, r"\[CUDA\]: invalid argument"),
        ("hip:gfx942", (2**24, 1, 1), RuntimeError, r"\[HIP\]: invalid argument"),
        ("cuda:90", (1.5, 1, 1), TypeError, "float"),
    ],
)
def test_launch_that_the_platform_rejects_raises(
    platform: str,
    grid: tuple[int, ...],
    error: type[Exception],
    message: str,
    memory: torch.Tensor,
) -> None:
    with (
        dry_driver(platform, lambda _: None),
        pytest.raises(error, match=message),
    ):
        launch(memory, grid)


@pytest.mark.parametrize("platform", ["cuda:x", "hip:sm90", "metal:1"])
def test_unknown_platform_is_refused(platform: str) -> None:
    with pytest.raises(EnvironmentMissingError, match="must be cuda:CAPABILITY"):
        gpu_target(platform)


def test_internal_that_moved_is_named() -> None:
    with pytest.raises(EnvironmentMissingError, match=r"kvzero needs object\.gone"):
        internals.internal(object(), "gone")
    with pytest.raises(EnvironmentMissingError, match=r"kvzero needs sys\.gone"):
        internals.internal(sys, "gone")
    with pytest.raises(EnvironmentMissingError, match=r"needs triton\.gone, which"):
        internals.internal_module("triton.gone")


def test_import_that_moved_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.backends.driver", ModuleType("driver"))
    spec = spec_from_file_location("imported_again", internals.__file__)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(
        EnvironmentMissingError,
        match=r"needs an internal \(cannot import name 'DriverBase' from 'driver'\), "
        r"which is not where Triton 3.6 to 3.9 have it: install one of those",
    ):
        spec.loader.exec_module(module_from_spec(spec))


def test_driver_that_keeps_its_state_elsewhere_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class DriverConfig:
        set_active = None

    monkeypatch.setattr(dry, "driver_config", DriverConfig)
    with (
        pytest.raises(EnvironmentMissingError, match=r"needs DriverConfig\._active"),
        dry_driver("cuda:90", lambda _: None),
    ):
        pass
    assert DryDriver.sessions == []


def test_recording_wraps_the_active_driver_and_unwraps_it(
    memory: torch.Tensor,
) -> None:
    real: list[LaunchEvent] = []
    seen: list[LaunchEvent] = []
    with dry_driver("cuda:90", real.append) as active:
        launcher = active.launcher_cls
        # A constant of its own, so that no test before has loaded the kernel.
        with recording_launches(seen.append):
            kernels.fill[2, 3](memory, 5, 3, 32)
            kernels.fill[4, 1](memory, 5, 3, 32)
        kernels.fill[2, 3](memory, 5, 3, 32)
        assert active.launcher_cls is launcher
    assert [event.shape.grid for event in seen] == [(2, 3, 1), (4, 1, 1)]
    assert len(real) == 3


def test_recordings_may_end_in_any_order(memory: torch.Tensor) -> None:
    seen: dict[str, list[LaunchEvent]] = {"first": [], "second": []}
    with dry_driver("cuda:90", lambda _: None) as active:
        launcher = active.launcher_cls
        ends = {name: ExitStack() for name in seen}
        for name, events in seen.items():
            ends[name].enter_context(recording_launches(events.append))
        # Constants of its own: loaded while both record, and while one does.
        kernels.fill[2, 4](memory, 5, 4, 32)
        ends["first"].close()
        kernels.fill[3, 4](memory, 5, 4, 32)
        kernels.fill[4, 4](memory, 5, 4, 64)
        ends["second"].close()
        kernels.fill[5, 4](memory, 5, 4, 32)
        assert active.launcher_cls is launcher
    grids = {name: [e.shape.grid[0] for e in events] for name, events in seen.items()}
    assert grids == {"first": [2], "second": [2, 3, 4]}


def test_recording_needs_a_driver() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a driver here")
    with (
        pytest.raises(EnvironmentMissingError, match="driver=None"),
        recording_launches(lambda _: None),
    ):
        pass


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_real_launch_after_a_dry_one_changes_memory() -> None:
    host = torch.ones(256, dtype=torch.uint8)
    with dry_driver("cuda:90", lambda _: None):
        launch(host)
    device = torch.ones(256, dtype=torch.uint8, device="cuda")
    launch(device)
    assert device[:100].sum() == 0
    seen: list[LaunchEvent] = []
    # An executor of another test may be recording all the while.
    before = triton.runtime.driver.active.launcher_cls
    with recording_launches(seen.append):
        launch(device)
    assert [event.shape.grid for event in seen] == [(2, 1, 1)]
    assert triton.runtime.driver.active.launcher_cls is before
