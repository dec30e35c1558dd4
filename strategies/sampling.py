"""Sampling: the same draws every time, and the smallest draw of a kind.

Strategies are judged by what they draw and by what their draws shrink to; corpora and
tests ask both questions here, with nothing left to chance.
"""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def drawn(strategy: SearchStrategy[T], count: int) -> list[T]:
    """Return about `count` draws, the same ones for every call.

    Args:
        strategy: What draws; it may have fewer different values.
        count: How many.
    """
    found: list[T] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: T) -> None:
        found.append(value)

    collect()
    return found


def minimal(
    strategy: SearchStrategy[T],
    condition: Callable[[T], bool],
    *,
    count: int = 10_000,
    seed: int = 0,
) -> T:
    """Return the smallest draw that satisfies a condition, as Hypothesis shrinks it.

    Args:
        strategy: What draws.
        condition: Whether a draw is of the kind that is sought.
        count: Draws before giving up.
        seed: Everything random follows from it.

    Raises:
        hypothesis.errors.NoSuchExample: No draw satisfies it.
    """
    chosen = settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    return find(strategy, condition, settings=chosen, random=Random(seed))
