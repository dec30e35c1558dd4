"""A launch of a compiled kernel with little around it.

What `kernel[grid](...)` does between its arguments and Triton's launcher takes 4 us
(H200 host, Triton 3.6.0): it asks for device and stream, and makes metadata for hooks.
Here the caller knows the stream, and hooks are looked for first. The kernel is asked
for its launcher at each launch, so whoever records or guards launches sees these too.
Where Triton has moved what this needs, it launches as Triton documents it.
"""

from typing import Any

import triton


class QuickKernel:
    """A compiled kernel, launched with the least work on the host."""

    def __init__(self, compiled: Any) -> None:  # Any: Triton ships no types
        """Take a kernel that has been launched before."""
        self._compiled = compiled
        self._function = getattr(compiled, "function", None)
        self._metadata = getattr(compiled, "packed_metadata", None)
        known = (getattr(compiled, "_run", None), self._function, self._metadata)
        self._is_quick = None not in known

    def launch(self, x: int, y: int, z: int, stream: int, *arguments: object) -> None:
        """Launch a grid on the current device.

        Args:
            x: Programs in x.
            y: Programs in y.
            z: Programs in z.
            stream: Handle of one of the device's streams: its current one, which is
                where a Triton that has moved its internals launches.
            *arguments: All arguments of the kernel; an address stands for a tensor.
        """
        kernel = self._compiled
        if not self._is_quick or _has_launch_hooks():
            kernel[x, y, z](*arguments)
            return
        kernel._run(  # noqa: SLF001 - what the property `run` returns, but for a call
            x,
            y,
            z,
            stream,
            self._function,
            self._metadata,
            None,
            None,
            None,
            *arguments,
        )


def _has_launch_hooks() -> bool:
    """Return whether somebody, a profiler say, wants to know of every launch."""
    try:
        runtime = triton.knobs.runtime
        return bool(runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls)
    except AttributeError:  # a single hook instead of a chain, or none: ask Triton
        return True
