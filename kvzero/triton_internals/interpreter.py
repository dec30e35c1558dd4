"""Triton's interpreter: its launches seen before they are made, and two of its faults.

It has no launcher to record and no hook before a launch, so the one class that walks a
grid is wrapped meanwhile. What an old one cannot do under a new NumPy is mended.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from triton.runtime import interpreter

from kvzero.triton_internals.internals import TRITON_VERSION, internal


@cache
def mend_interpreter() -> None:
    """Let legal kernels run in this process, whatever Triton and NumPy there are.

    Raises:
        EnvironmentMissingError: Triton's interpreter has moved.
    """
    _mend_masks()
    if TRITON_VERSION.startswith("3.6."):
        _mend_loop_bounds()


def _mend_masks() -> None:
    """Let a comparison of scalars be part of a mask.

    The interpreter spreads its result as numbers of the compared type, and since Triton
    3.9 a load or store refuses a mask that is not of bool.
    """
    builder = internal(interpreter, "InterpreterBuilder")
    original = internal(builder, "create_splat")

    def spread(self: Any, ret_ty: Any, arg: Any) -> Any:  # Any: Triton has no types
        handle = original(self, ret_ty, arg)
        if ret_ty.scalar.is_int1():
            handle.data = handle.data.astype(np.bool_)
        return handle

    builder.create_splat = spread


def _mend_loop_bounds() -> None:
    """Let a scalar bound a loop.

    Triton 3.6's interpreter makes an int of an array with one element, as newer ones do
    not: NumPy refuses that from 2.4 on, and ``range(n)`` raises.
    """
    original = internal(interpreter, "_patch_lang_tensor")

    def patched(tensor: Any, scope: Any) -> None:  # Any: Triton has no types
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched  # noqa: SLF001 - what this module is for


@contextmanager
def interpreted_launches(before: Callable[[tuple[int, ...]], None]) -> Iterator[None]:
    """Hand over the grid of each interpreted launch of this process before it is made.

    Args:
        before: Takes the programs in x, y and z, as far as they were named. What it
            raises comes out of the launch.

    Raises:
        EnvironmentMissingError: Triton's interpreter has moved.
    """
    walker = internal(interpreter, "GridExecutor")
    original = internal(walker, "__call__")

    def seen(grid: tuple[int, ...]) -> tuple[int, ...]:
        before(grid)
        return grid

    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:  # Any: Triton's objects
        wanted = self.grid
        self.grid = (
            (lambda meta: seen(wanted(meta))) if callable(wanted) else seen(wanted)
        )
        return original(self, *args, **kwargs)

    walker.__call__ = launch
    try:
        yield
    finally:
        walker.__call__ = original
