"""A guard for production: a launch that would not happen raises instead.

Triton's launcher skips some launches without an error (`kvzero.limits`), and the
platform rejects others with an error that does not say why. `launch_guard` judges every
Triton launch of the process just before it is made, and raises `LaunchLimitError`.

It stands in the classes of Triton's launchers, so it sees kernels that were compiled,
cached or bound long before, whoever launches them, and costs one comparison a launch.
What does not go through those launchers, torch's own static launcher of compiled graphs
or a replayed CUDA graph, it does not see.
"""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from operator import index
from typing import Any

from kvzero.errors import KvzeroError, LaunchLimitError
from kvzero.limits import Grid, LaunchShape, launch_fate
from kvzero.triton_internals.internals import CompiledKernel
from kvzero.triton_internals.launchers import launcher_types

SWITCH = "KVZERO_LAUNCH_GUARD"
"""The environment variable that guards a process from its import of kvzero on."""

ALWAYS_LEGAL = 65_535
"""Programs that are legal in any grid, with any number of warps and CTAs."""

Launcher = Any  # one of Triton's launchers, which have no types
Call = Callable[..., Any]  # any arguments: Triton's own convention


class _Guard:
    """The one guard of the process: on while somebody is inside it."""

    def __init__(self) -> None:
        self.depth = 0
        self._lock = threading.Lock()
        self._found: dict[type, tuple[Call, Call]] = {}

    def enter(self) -> None:
        """Guard launches, from the first to enter on."""
        with self._lock:
            if not self.depth:
                for launcher, backend in launcher_types().items():
                    found: Call = launcher.__call__
                    ours = self._guarded(found, backend)
                    self._found[launcher] = found, ours
                    launcher.__call__ = ours  # type: ignore[method-assign]  # the hook itself
            self.depth += 1

    def leave(self) -> None:
        """Put back what was found, when the last leaves."""
        with self._lock:
            self.depth -= 1
            if not self.depth:
                for launcher, (found, ours) in self._found.items():
                    # Somebody may have come after us; ours then stays, and is silent.
                    if launcher.__call__ is ours:
                        launcher.__call__ = found  # type: ignore[method-assign]  # the hook itself
                self._found.clear()

    def _guarded(self, found: Call, backend: str | None) -> Call:
        """Return a launcher's call that is judged first."""

        def judged(
            launcher: Launcher,
            grid_x: int,
            grid_y: int,
            grid_z: int,
            stream: int,
            function: int,
            packed_metadata: tuple[int, ...],
            *rest: object,
        ) -> Any:  # Any: what Triton's launcher returns
            programs = index(grid_x) * index(grid_y) * index(grid_z)
            if not 0 <= programs <= ALWAYS_LEGAL and self.depth:
                grid = index(grid_x), index(grid_y), index(grid_z)
                refusal = _refusal(
                    grid, packed_metadata[:2], backend or launcher.backend
                )
                if refusal is not None:
                    raise LaunchLimitError(refusal.format(_kernel_name(launcher)))
            return found(
                launcher,
                grid_x,
                grid_y,
                grid_z,
                stream,
                function,
                packed_metadata,
                *rest,
            )

        return judged


_GUARD = _Guard()


@contextmanager
def launch_guard() -> Iterator[None]:
    """Raise on every Triton launch that would be skipped or rejected.

    The guard is the process's: inside the block, launches of all threads are judged. It
    may be entered again, by any thread; what it found is put back when the last leaves.

    Raises:
        LaunchLimitError: From the launch itself, before anything is launched.
        EnvironmentMissingError: Triton's internals have moved.
    """
    _GUARD.enter()
    try:
        yield
    finally:
        _GUARD.leave()


def guard_if_asked() -> None:
    """Guard the process to its end if the environment says ``KVZERO_LAUNCH_GUARD=1``.

    Raises:
        KvzeroError: The variable is neither 1 nor 0: a typing error must not pass for
            a guard.
    """
    asked = os.environ.get(SWITCH, "0")
    if asked not in ("", "0", "1"):
        raise KvzeroError(f"{SWITCH}={asked!r}, but must be 1 to guard launches, or 0")
    if asked == "1":
        _GUARD.enter()


@lru_cache(maxsize=4096)
def _refusal(grid: Grid, warps_and_ctas: tuple[int, int], backend: str) -> str | None:
    """Return why a launch must not be made, with a gap for its kernel, or None."""
    fate, limit = launch_fate(LaunchShape(grid, *warps_and_ctas), backend)
    if min(grid) < 0:
        fate = "skipped"
    if fate == "runs":
        return None
    meets = "Triton's launcher would skip it without an error"
    if limit is None:
        return f"grid={grid} of {{}}, but must have no negative dimension: {meets}"
    if fate == "rejected":
        meets = f"Triton or {'CUDA' if backend == 'cuda' else 'HIP'} would reject it"
    rule = f"{limit.name} ({limit.rule})"
    return f"grid={grid} of {{}}, but must fit {rule}: {meets}, launch it in parts"


def _kernel_name(launcher: Launcher) -> str:
    """Return the name of the kernel that a launcher launches, as far as it is known."""
    for kernel in gc.get_objects():
        if type(kernel) is CompiledKernel:
            run = getattr(kernel, "_run", None)
            if getattr(run, "launcher", run) is launcher:
                return str(kernel.name)
    return "a kernel"
