"""Triton's interpreter under a cap: each program of a launch costs about 1.4 ms there.

The interpreter has no launcher to record and no hook before a launch, so the one class
that walks its grid is wrapped while a case runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import triton
from triton.runtime import interpreter

from kvzero.errors import EnvironmentMissingError
from kvzero.executors.real_memory import NotJudgedError


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
