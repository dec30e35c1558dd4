"""Everything that kvzero needs of Triton beyond what Triton promises.

Two ways to see launches. `dry_driver` puts a driver in place that has no device: a
launch goes through Triton's own binder, specialisation key, compile cache and compiler,
to machine code, and is handed to a callback instead of launched. `recording_launches`
wraps the launcher of the driver that is active, so that real launches are seen on their
way to the device. Both report the same `LaunchEvent`. No function of Triton is patched.

Where a newer Triton has moved something, one `EnvironmentMissingError` names it.
"""

import gc
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NoReturn

import triton

from kvzero.errors import EnvironmentMissingError
from kvzero.limits import INT32_MAX, Fate, LaunchShape, launch_fate
from kvzero.observation import Launch

_MOVED = (
    "triton={version}, but kvzero needs {name}, which is not where Triton 3.6 to 3.9 "
    "have it: install one of those, or a newer kvzero"
)
try:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase
    from triton.compiler import CompiledKernel
    from triton.runtime import cache as compile_cache
    from triton.runtime import driver as driver_config
    from triton.runtime.cache import get_cache_manager
except ImportError as error:
    said = str(error).partition(" (")[0]
    raise EnvironmentMissingError(
        _MOVED.format(version=triton.__version__, name=f"an internal ({said})")
    ) from error

Internal = Any  # an object of Triton's, which ships no type information

TRITON_VERSION: str = triton.__version__

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
_CUDA_WARP = 32
_PROCESSORS = 132


def _moved(name: str) -> NoReturn:
    raise EnvironmentMissingError(_MOVED.format(version=TRITON_VERSION, name=name))


def _internal(owner: object, name: str) -> Internal:
    """Return an attribute of one of Triton's objects, or say that it has moved."""
    try:
        return getattr(owner, name)
    except AttributeError:
        _moved(f"{type(owner).__name__}.{name}")


def gpu_target(platform: str) -> GPUTarget:
    """Return Triton's target of a platform such as ``"cuda:90"`` or ``"hip:gfx942"``.

    Raises:
        EnvironmentMissingError: It is neither a CUDA capability nor a HIP architecture.
    """
    backend, _, arch = platform.partition(":")
    if backend == "cuda" and arch.isdecimal():
        return GPUTarget("cuda", int(arch), _CUDA_WARP)
    if backend == "hip" and arch.startswith("gfx"):
        return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    raise EnvironmentMissingError(
        f"platform={platform!r}, but must be cuda:CAPABILITY or hip:gfxARCH for Triton "
        f"to compile for it"
    )


def platform_of(target: GPUTarget) -> str:
    """Return the platform of one of Triton's targets."""
    return f"{target.backend}:{target.arch}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A run-time parameter of a compiled variant: its name and Triton's type of it."""

    name: str
    type_name: str


class Kernel:
    """A compiled variant.

    Attributes:
        name: Name of the kernel.
        place: File and line of its definition.
        variant: Triton's hash of the variant.
        platform: What it is compiled for.
        constants: Compile-time arguments, by name.
        parameters: Run-time parameters; tuples are flattened.
    """

    def __init__(self, source: Internal, metadata: Internal) -> None:
        """Read what is fixed for every launch of the variant."""
        self._source = source
        self._function = getattr(source, "fn", None)
        self._signature = tuple(_internal(source, "signature").items())
        self.name: str = _internal(metadata, "name")
        self.variant: str = _internal(metadata, "hash")
        self.target: GPUTarget = _internal(metadata, "target")
        self.platform = platform_of(self.target)
        self.num_warps: int = _internal(metadata, "num_warps")
        self.num_ctas: int = getattr(metadata, "num_ctas", 1)
        self.place = _definition_place(self._function)
        self.constants = self._read_constants()
        self.parameters = tuple(
            Parameter(str(name), type_name)
            for name, type_name in _flat(self._signature)
        )

    def arguments(self, values: Sequence[object]) -> list[object]:
        """Return the run-time arguments, in the order of `parameters`."""
        types = [type_name for _, type_name in self._signature]
        return [value for value, _ in _flat(list(zip(values, types)))]

    @cached_property
    def ttir(self) -> str | None:
        """Return the variant's TTIR, or None if Triton no longer has it."""
        for compiled in self._cached_variants():
            if getattr(compiled, "hash", None) == self.variant:
                return str(_internal(compiled, "asm")["ttir"])
        group = get_cache_manager(self.variant).get_group(f"{self.name}.json") or {}
        paths = [path for name, path in group.items() if name.endswith(".ttir")]
        return Path(paths[0]).read_text() if paths else None

    def _cached_variants(self) -> Iterator[Internal]:
        caches = getattr(self._function, "device_caches", {})
        for cache in list(caches.values()):
            yield from list(cache[0].values())

    def _read_constants(self) -> tuple[tuple[str, object], ...]:
        names = getattr(self._function, "arg_names", ())
        constants: dict[Any, object] = getattr(self._source, "constants", {})
        return tuple(
            (".".join([names[path[0]], *map(str, path[1:])]), value)
            for path, value in sorted(constants.items(), key=lambda item: item[0])
        )


def _flat(pairs: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, str]]:
    """Yield (value or name, type) of what exists at run time; tuples are opened."""
    for value, type_name in pairs:
        if isinstance(type_name, tuple):
            named = isinstance(value, str)
            parts = [f"{value}.{i}" for i in range(len(type_name))] if named else value
            yield from _flat(list(zip(parts, type_name)))
        elif type_name != "constexpr":
            yield value, type_name


def _definition_place(function: Internal) -> str:
    python = inspect.unwrap(getattr(function, "fn", None) or (lambda: None))
    code = getattr(python, "__code__", None)
    if function is None or code is None:
        return "an unknown line"
    line = code.co_firstlineno
    try:
        source, line = inspect.getsourcelines(python)
    except (OSError, TypeError):
        source = []
    decorators = next(
        (i for i, text in enumerate(source) if re.match(r"\s*def\b", text)), 0
    )
    return f"{PurePath(code.co_filename).name}:{line + decorators}"


@dataclass(frozen=True)
class LaunchEvent:
    """One launch on its way to the device.

    Attributes:
        kernel: The compiled variant.
        shape: Grid, warps and CTAs.
        arguments: Run-time arguments in the order of `Kernel.parameters`: tensors,
            ints, floats.
        fate: What the platform does with it.
        limit: Name of the limit that decides, if any.
    """

    kernel: Kernel
    shape: LaunchShape
    arguments: list[object]
    fate: Fate
    limit: str | None

    def launch(self, call: int) -> Launch:
        """Return the record of the launch, made by the given call."""
        return Launch(
            call=call,
            kernel=self.kernel.name,
            place=self.kernel.place,
            shape=self.shape,
            fate=self.fate,
            limit=self.limit,
            variant=self.kernel.variant,
            target=self.kernel.platform,
            constants=self.kernel.constants,
        )


OnLaunch = Callable[[LaunchEvent], None]


def _event(
    kernel: Kernel, grid: Sequence[int], values: Sequence[object]
) -> LaunchEvent:
    x, y, z = (operator.index(size) for size in grid)
    shape = LaunchShape((x, y, z), kernel.num_warps, kernel.num_ctas)
    fate, limit = launch_fate(shape, kernel.target.backend)
    if min(x, y, z) < 0:
        fate = "skipped"
    name = limit.name if limit else None
    return LaunchEvent(kernel, shape, kernel.arguments(values), fate, name)


class _DryLauncher:
    """What Triton calls instead of a launcher: it reports, and meets the same limits.

    Instances live as long as Triton's caches, so they ask for the session at each call.
    """

    def __init__(self, source: Internal, metadata: Internal) -> None:
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
        del stream, function, packed_metadata
        session = DryDriver.sessions[-1] if DryDriver.sessions else None
        if session is None or session.platform != self._kernel.platform:
            raise EnvironmentMissingError(
                f"kernel {self._kernel.name!r} was compiled under a dry driver for "
                f"{self._kernel.platform}, but must be launched under the same: it has "
                f"not been loaded on any device"
            )
        event = _event(self._kernel, (grid_x, grid_y, grid_z), values)
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

    launcher_cls = _DryLauncher
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


def warm_cache_key() -> None:
    """Read all of Triton's files, as its first compilation does, for what forks later.

    It saves each child 0.3 s; a Triton that has no such function is as good.
    """
    getattr(compile_cache, "triton_key", lambda: None)()


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
    config = _driver_config()
    before = _internal(config, "_active")
    session = DryDriver(platform, on_launch)
    config.set_active(session)
    DryDriver.sessions.append(session)
    try:
        yield session
    finally:
        DryDriver.sessions.remove(session)
        config._active = before  # noqa: SLF001 - `set_active` may ask for a device


def _driver_config() -> Internal:
    # `triton.runtime.driver` is the object that `triton.runtime.driver` (the module)
    # holds under the same name: what an import finds depends on who came first.
    config: Internal = driver_config
    return config if hasattr(config, "set_active") else _internal(config, "driver")


class _RecordingLauncher:
    """A real launcher that reports first; silent once nobody listens."""

    def __init__(self, launcher: Internal, kernel: Kernel, recording: "_Recording"):
        self.launcher = launcher
        self.recording = recording
        self._kernel = kernel

    def __call__(self, *values: Any) -> Any:  # Any: Triton's launcher, as it is
        if self.recording.listeners:
            event = _event(self._kernel, values[:3], values[_FIRST_VALUE:])
            for on_launch in tuple(self.recording.listeners):
                on_launch(event)
        return self.launcher(*values)


_FIRST_VALUE = 9
"""Where a kernel's arguments begin among those of a launcher: `_DryLauncher` names the
others."""


class _Recording:
    """Stands for a driver's launcher class while anybody listens to its launches.

    There is one a driver, however many listen, so they may end in any order: wrappers
    one around the other would leave one behind, or deafen who still listens.
    """

    def __init__(self, driver: Internal) -> None:
        self.listeners: list[OnLaunch] = []
        self._driver = driver
        self._launcher_cls = _internal(driver, "launcher_cls")

    def __call__(self, source: Internal, metadata: Internal) -> _RecordingLauncher:
        launcher = self._launcher_cls(source, metadata)
        return _RecordingLauncher(launcher, Kernel(source, metadata), self)

    def begin(self) -> None:
        """Wrap launchers, those of kernels that are loaded already too."""
        self._driver.launcher_cls = self
        for compiled in _loaded_kernels():
            if not isinstance(compiled._run, _RecordingLauncher):  # noqa: SLF001
                kernel = Kernel(compiled.src, compiled.metadata)
                compiled._run = _RecordingLauncher(compiled._run, kernel, self)  # noqa: SLF001

    def end(self) -> None:
        """Put back what was there."""
        self._driver.launcher_cls = self._launcher_cls
        for compiled in _loaded_kernels():
            run = compiled._run  # noqa: SLF001
            if isinstance(run, _RecordingLauncher) and run.recording is self:
                compiled._run = run.launcher  # noqa: SLF001


@contextmanager
def recording_launches(on_launch: OnLaunch) -> Iterator[None]:
    """Report every launch of the active driver before it is made, until the block ends.

    Kernels that were loaded before are seen too: their launchers are wrapped as well.
    Several may record at once, each from its begin to its end.

    Args:
        on_launch: Gets every launch; its `fate` is what the limits foretell.

    Raises:
        EnvironmentMissingError: There is no driver, or Triton's internals have moved.
    """
    try:
        active = _driver_config().active
    except RuntimeError as error:
        raise EnvironmentMissingError(
            f"driver=None, but launches are recorded on a live one: Triton says {error}"
        ) from error
    recording = _internal(active, "launcher_cls")
    if not isinstance(recording, _Recording):
        recording = _Recording(active)
        recording.begin()
    recording.listeners.append(on_launch)
    try:
        yield
    finally:
        recording.listeners.remove(on_launch)
        if not recording.listeners:
            recording.end()


def _loaded_kernels() -> list[Internal]:
    """Return all kernels with a launcher, whoever holds them; dry ones excepted."""
    kernels = [k for k in gc.get_objects() if type(k) is CompiledKernel]
    loaded = [k for k in kernels if _internal(k, "_run") is not None]
    return [k for k in loaded if not isinstance(k._run, _DryLauncher)]  # noqa: SLF001
