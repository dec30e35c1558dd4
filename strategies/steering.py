"""Steering: how close a launch comes to each limit, for Hypothesis to climb.

Closeness is told in doublings: how often one axis of the grid would have to double
until the row of the limits table is broken. It asks the rows themselves, so it needs to
know nothing about them.
"""

from collections.abc import Iterable
from functools import lru_cache

from hypothesis import target

from kvzero.case import Case
from kvzero.limits import LIMITS, LaunchLimit, LaunchShape
from kvzero.strategies.features import Facts

MAX_DOUBLINGS = 34
"""From one program to beyond every limit."""
QUARTERS = 4
"""Steps of one doubling that closeness tells apart."""


def likely_shapes(case: Case) -> tuple[LaunchShape, ...]:
    """Return launches that zeroers make of a case: on three axes, and all flat."""
    facts = Facts(case)
    return LaunchShape(facts.grid), LaunchShape((facts.flat, 1, 1))


def closeness(limit: LaunchLimit, shape: LaunchShape) -> float:
    """Return 0 where the launch breaks the row, else minus the doublings to do so."""
    return max(_along(limit, shape, axis) for axis in range(3))


def steer(shapes: Iterable[LaunchShape]) -> None:
    """Tell Hypothesis how close the launches of the running case come to each row."""
    shapes = tuple(shapes)
    for limit in LIMITS:
        if shapes:
            target(max(closeness(limit, shape) for shape in shapes), label=limit.name)


@lru_cache(maxsize=4096)
def _along(limit: LaunchLimit, shape: LaunchShape, axis: int) -> float:
    """Return the closeness if only one axis grows."""
    if _breaks(limit, shape, axis, 0):
        return 0.0
    whole = next(
        (n for n in range(1, MAX_DOUBLINGS) if _breaks(limit, shape, axis, n)),
        MAX_DOUBLINGS,
    )
    quarters = (whole - 1 + q / QUARTERS for q in range(1, QUARTERS))
    return -next((n for n in quarters if _breaks(limit, shape, axis, n)), whole)


def _breaks(
    limit: LaunchLimit, shape: LaunchShape, axis: int, doublings: float
) -> bool:
    grid = list(shape.grid)
    grid[axis] = int(grid[axis] * 2**doublings)
    x, y, z = grid
    return limit.breaks(LaunchShape((x, y, z), shape.num_warps, shape.num_ctas))
