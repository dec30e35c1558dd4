"""A driver of a device that does not exist: everything happens but the launch.

A launch goes through Triton's own binder, specialisation key, compile cache and
compiler, to machine code, and is handed to a callback.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from kvzero.errors import EnvironmentMissingError
from kvzero.limits import INT32_MAX
from kvzero.triton_internals.internals import (
    CompiledKernel,
    DriverBase,
    GPUTarget,
    Internal,
    driver_config,
    internal,
)
from kvzero.triton_internals.kernels import (
    Kernel,
    OnLaunch,
    event_of,
    gpu_target,
    platform_of,
)

_FIRST_DRY_DEVICE = 1_000_000
"""Dry devices are numbered from here, beyond any real one: Triton's caches of kernels
go by device number alone, and would serve one target another's kernel."""

_MAX_SHARED_BYTES = {
    "cuda:80": 166_912,
    "cuda:90": 232_448,
    "cuda:100": 232_448,
    "cuda:120": 101_376,
    "hip:gfx942": 65_536,
    "hip:gfx950": 163_840,
    "hip:gfx1100": 65_536,
}
_SMALLEST_MAX_SHARED_BYTES = 65_536
_MAX_THREADS = 1024
_PROCESSORS = 132


class DryLauncher:
    """What Triton calls instead of a launcher: it reports, and meets the same limits.

    Instances live as long as Triton's caches, so they ask for the session at each call.
    """

    def __init__(self, source: Internal, metadata: Internal) -> None:
        """Take what Triton gives a launcher of a variant."""
        self._kernel = Kernel(source, metadata)

    @property
    def backend(self) -> str:
        """Return the backend whose limits it keeps to."""
        return str(self._kernel.target.backend)

    def __call__(  # Triton's calling convention of a launcher
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: Internal,
        function: Internal,
        packed_metadata: Internal,
        launch_metadata: Internal,
        enter_hook: Internal,
        exit_hook: Internal,
        *values: object,
    ) -> None:
        """Report a launch, and raise what its platform's launcher raises."""
        del stream, function, packed_metadata
        session = DryDriver.sessions[-1] if DryDriver.sessions else None
        if session is None or session.platform != self._kernel.platform:
            raise EnvironmentMissingError(
                f"kernel {self._kernel.name!r} was compiled under a dry driver for "
                f"{self._kernel.platform}, but must be launched under the same: it has "
                f"not been loaded on any device"
            )
        event = event_of(self._kernel, (grid_x, grid_y, grid_z), values)
        if max(event.shape.grid) > INT32_MAX:
            session.on_launch(event)
            raise OverflowError("signed integer is greater than maximum")
        if enter_hook is not None:
            enter_hook(launch_metadata)
        session.on_launch(event)
        if event.fate == "rejected":
            name = "CUDA" if self._kernel.target.backend == "cuda" else "HIP"
            raise RuntimeError(f"Triton Error [{name}]: invalid argument")
        if exit_hook is not None:
            exit_hook(launch_metadata)


class _DryUtils:
    """The part of a driver that loads binaries and knows the device's properties."""

    def __init__(self, target: GPUTarget) -> None:
        self._target = target

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[int, int, int, int, int]:
        """Return handles that stand for nothing, registers, spills and threads."""
        del name, kernel, shared, device
        return 1, 1, 32, 0, _MAX_THREADS

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """Return what such a device would say of itself."""
        del device
        shared = _MAX_SHARED_BYTES.get(
            platform_of(self._target), _SMALLEST_MAX_SHARED_BYTES
        )
        return {
            "max_shared_mem": shared,
            "max_num_regs": 65_536,
            "multiprocessor_count": _PROCESSORS,
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 5_120,
            "warpSize": self._target.warp_size,
            "arch": str(self._target.arch),
        }


class DryDriver(DriverBase):  # type: ignore[misc]  # Triton's class has no types
    """A driver of a device that does not exist.

    Attributes:
        platform: What it compiles for.
        on_launch: Gets every launch.
        launcher_cls: Makes its launches.
        sessions: The drivers in use, the innermost last.
    """

    launcher_cls = DryLauncher
    sessions: list["DryDriver"] = []  # noqa: RUF012 - one stack for the whole process
    _devices: dict[str, int] = {}  # noqa: RUF012 - device numbers never change

    def __init__(self, platform: str, on_launch: OnLaunch) -> None:
        """Prepare a driver; `dry_driver` puts it in place."""
        super().__init__()
        self.platform = platform
        self.on_launch = on_launch
        self._target = gpu_target(platform)
        self._device = self._devices.setdefault(
            platform, _FIRST_DRY_DEVICE + len(self._devices)
        )
        self.utils = _DryUtils(self._target)

    @classmethod
    def is_active(cls) -> bool:
        """Return False: Triton must never pick it by itself."""
        return False

    def get_current_target(self) -> GPUTarget:
        """Return the target."""
        return self._target

    def get_current_device(self) -> int:
        """Return the number of the device, one a target."""
        return self._device

    def set_current_device(self, device: int) -> None:
        """Do nothing: there is one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the default stream."""
        del device
        return 0

    def get_active_torch_device(self) -> Internal:
        """Return where the tensors of a dry run lie."""
        import torch

        return torch.device("cpu")

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the type as it is: nothing is compiled for the host."""
        return ty

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return a benchmark that finds all configurations equal, so the first wins."""

        def equal(
            kernel_call: Callable[[], object],
            *,
            quantiles: Sequence[float] = (0.5,),
            **options: object,
        ) -> list[float]:
            del kernel_call, options
            return [1.0] * len(quantiles)

        return equal


@cache
def spare_dry_kernels(kernels: type) -> None:
    """Let kernels end without unloading what a dry driver has never loaded.

    Since Triton 3.8 a kernel that ends unloads its module, by whatever driver is active
    then. To give it no module at all would have it loaded anew for each launch.

    Args:
        kernels: Triton's class of compiled kernels.
    """
    original = getattr(kernels, "__del__", None)
    if original is None:
        return

    def end(self: Internal) -> None:
        if isinstance(getattr(self, "_run", None), DryLauncher):
            self.module = None
        original(self)

    kernels.__del__ = end  # type: ignore[attr-defined]  # it has one


@contextmanager
def dry_driver(platform: str, on_launch: OnLaunch) -> Iterator[DryDriver]:
    """Compile for a platform and report launches, until the block ends.

    The driver that was active before, a live GPU's included, is active afterwards, and
    kernels of one are never served to the other.

    Args:
        platform: Such as ``"cuda:90"`` or ``"hip:gfx942"``.
        on_launch: Gets every launch, those that the platform skips or rejects too.

    Raises:
        EnvironmentMissingError: The platform is unknown, or Triton's internals moved.
    """
    spare_dry_kernels(CompiledKernel)
    config = driver_config()
    before = internal(config, "_active")
    session = DryDriver(platform, on_launch)
    config.set_active(session)
    DryDriver.sessions.append(session)
    try:
        yield session
    finally:
        DryDriver.sessions.remove(session)
        config._active = before  # noqa: SLF001 - `set_active` may ask for a device
