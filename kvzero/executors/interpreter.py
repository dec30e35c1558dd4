"""Triton's interpreter under a cap: each program of a launch costs about 1.4 ms there.

The interpreter has no launcher to record and no hook before a launch, so the one class
that walks its grid is wrapped while a case runs. What an old one cannot do under a new
NumPy is mended.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from math import prod
from typing import Any

import numpy as np
import triton
from triton.runtime import interpreter

from kvzero.errors import EnvironmentMissingError
from kvzero.executors.real_memory import NotJudgedError


@cache
def mend_interpreter() -> None:
    """Let legal kernels run in this process, whatever Triton and NumPy there are."""
    _mend_masks()
    if triton.__version__.startswith("3.6."):
        _mend_loop_bounds()


def _mend_masks() -> None:
    """Let a comparison of scalars be part of a mask.

    The interpreter spreads its result as numbers of the compared type, and since Triton
    3.9 a load or store refuses a mask that is not of bool.
    """
    original = interpreter.InterpreterBuilder.create_splat

    def spread(self: Any, ret_ty: Any, arg: Any) -> Any:  # Any: Triton has no types
        handle = original(self, ret_ty, arg)
        if ret_ty.scalar.is_int1():
            handle.data = handle.data.astype(np.bool_)
        return handle

    interpreter.InterpreterBuilder.create_splat = spread


def _mend_loop_bounds() -> None:
    """Let a scalar bound a loop.

    Triton 3.6's interpreter makes an int of an array with one element, as newer ones do
    not: NumPy refuses that from 2.4 on, and ``range(n)`` raises.
    """
    original = interpreter._patch_lang_tensor  # noqa: SLF001 - 3.6 has it, for certain

    def patched(tensor: Any, scope: Any) -> None:  # Any: Triton has no types
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched  # noqa: SLF001 - as above


@contextmanager
def capped_interpreter(max_programs: int) -> Iterator[None]:
    """End a case whose launches have more programs together than a cap.

    Args:
        max_programs: The cap.

    Raises:
        EnvironmentMissingError: Triton's interpreter has moved.
        NotJudgedError: The cap is exceeded, raised from the launch.
    """
    walker: Any = getattr(interpreter, "GridExecutor", None)  # Any: a class of Triton's
    if not callable(walker):
        raise EnvironmentMissingError(
            f"triton={triton.__version__}, but kvzero needs its GridExecutor, which is "
            f"not where Triton 3.6 to 3.9 have it: use --executor footprint"
        )
    original = walker.__call__
    spent = 0

    def admit(grid: tuple[int, ...]) -> tuple[int, ...]:
        nonlocal spent
        spent += prod(grid)
        if spent > max_programs:
            raise NotJudgedError(
                f"more than {max_programs:,} programs, which is this executor's cap"
            )
        return grid

    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:  # Any: Triton's objects
        wanted = self.grid
        self.grid = (
            (lambda meta: admit(wanted(meta))) if callable(wanted) else admit(wanted)
        )
        return original(self, *args, **kwargs)

    walker.__call__ = launch
    try:
        yield
    finally:
        walker.__call__ = original
