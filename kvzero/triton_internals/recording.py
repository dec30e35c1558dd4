"""Real launches, seen on their way to the device."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvzero.errors import EnvironmentMissingError
from kvzero.triton_internals.dry import DryLauncher
from kvzero.triton_internals.internals import (
    CompiledKernel,
    Internal,
    driver_config,
    internal,
)
from kvzero.triton_internals.kernels import Kernel, OnLaunch, event_of


class _RecordingLauncher:
    """A real launcher that reports first; silent once nobody listens."""

    def __init__(self, launcher: Internal, kernel: Kernel, recording: "_Recording"):
        self.launcher = launcher
        self.recording = recording
        self._kernel = kernel

    def __call__(self, *values: Any) -> Any:  # Any: Triton's launcher, as it is
        if self.recording.listeners:
            event = event_of(self._kernel, values[:3], values[_FIRST_VALUE:])
            for on_launch in tuple(self.recording.listeners):
                on_launch(event)
        return self.launcher(*values)


_FIRST_VALUE = 9
"""Where a kernel's arguments begin among those of a launcher: `DryLauncher` names the
others."""


class _Recording:
    """Stands for a driver's launcher class while anybody listens to its launches.

    There is one a driver, however many listen, so they may end in any order: wrappers
    one around the other would leave one behind, or deafen who still listens.
    """

    def __init__(self, driver: Internal) -> None:
        self.listeners: list[OnLaunch] = []
        self._driver = driver
        self._launcher_cls = internal(driver, "launcher_cls")

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
        active = driver_config().active
    except RuntimeError as error:
        raise EnvironmentMissingError(
            f"driver=None, but launches are recorded on a live one: Triton says {error}"
        ) from error
    recording = internal(active, "launcher_cls")
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
    loaded = [k for k in kernels if internal(k, "_run") is not None]
    return [k for k in loaded if not isinstance(k._run, DryLauncher)]  # noqa: SLF001
