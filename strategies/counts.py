"""Log-uniform counts that shrink one by one.

Most faults need small numbers and some need numbers beyond a launch limit, so a count
is drawn with a *span* first: every power of two is one span, and so is the close
neighbourhood of each power and of each limit. The number itself is a plain integer in
its span. A general span begins at 1 and every close one follows a general span that
holds it, so the shrinker can step back from any span to one in which the number it has
is still allowed, and then lower that number by one or by half.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import chain, repeat
from typing import NamedTuple, TypeVar

from hypothesis import strategies as st

from kvzero.limits import LIMITS, Grid, LaunchLimit, LaunchShape

LARGEST_EXPONENT = 46
"""Counts and sizes stay below two to this power, the largest size of a layout."""


T = TypeVar("T")


class Span(NamedTuple):
    """The integers from `low` to `high`, inclusive."""

    low: int
    high: int


@cache
def limit_edges() -> tuple[int, ...]:
    """Return the smallest number of programs that breaks each row of the limits.

    The rows are asked, not copied: each is probed with all programs on one axis, by
    doubling and then halving, so a new row gives a new edge.
    """
    found = {_edge(limit, axis) for limit in LIMITS for axis in range(3)}
    return tuple(sorted(found - {None, 1}, key=int))  # type: ignore[arg-type]  # None is gone


def grid_of(programs: int, axis: int) -> Grid:
    """Return the grid with all programs on one axis."""
    x, y, z = (programs if axis == a else 1 for a in range(3))
    return x, y, z


def _edge(limit: LaunchLimit, axis: int) -> int | None:
    """Return the first number of programs on `axis` that breaks the row, if any."""

    def breaks(programs: int) -> bool:
        return limit.breaks(LaunchShape(grid_of(programs, axis)))

    exponents = (e for e in range(LARGEST_EXPONENT) if breaks(2**e))
    exponent = next(exponents, None)
    if exponent is None:
        return None
    high, low = 1 << exponent, (1 << exponent) // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if breaks(middle) else (middle, high)
    return high


@lru_cache(maxsize=4096)
def integers(low: int, high: int) -> st.SearchStrategy[int]:
    """Return Hypothesis's integers; the strategy is built once for each pair."""
    return st.integers(low, high)


def draw_integer(draw: st.DrawFn, low: int, high: int) -> int:
    """Draw an integer from `low` to `high`; nothing is drawn where they are equal."""
    return draw(integers(low, high)) if high > low else low


def weighted(weights: Mapping[T, int]) -> tuple[T, ...]:
    """Return every key as often as its weight, for `draw_one`."""
    return tuple(chain.from_iterable(repeat(k, n) for k, n in weights.items()))


def draw_one(draw: st.DrawFn, choices: tuple[T, ...]) -> T:
    """Draw one of the choices; shrinks towards the first."""
    return choices[draw_integer(draw, 0, len(choices) - 1)]


def draw_below(draw: st.DrawFn, stop: int) -> int:
    """Draw an integer from 0 to ``stop - 1``; the last one is drawn often.

    The bound of the draw is the next power of two, cut to the range, which keeps the
    strategies few and gives the far end its weight.
    """
    return min(draw_integer(draw, 0, 2 ** (stop - 1).bit_length() - 1), stop - 1)


@cache
def spans(max_value: int) -> tuple[Span, ...]:
    """Return the spans of the counts up to `max_value`, smallest first."""
    edges = {2**e for e in range(1, max_value.bit_length() + 1)}
    edges.update(limit_edges())
    found = [Span(1, 1)]
    for edge in sorted(e for e in edges if e < max_value):
        # A close span always follows the general span that holds it.
        found.append(Span(1, min(edge + 1, max_value)))
        found.append(Span(max(edge - 1, 1), min(edge + 1, max_value)))
    return (*found, Span(1, max_value)) if max_value > 1 else tuple(found)


def draw_count(draw: st.DrawFn, max_value: int) -> int:
    """Draw a count from 1 to `max_value`; see `counts`."""
    if max_value <= 1:
        return 1
    choices = spans(2 ** (max_value - 1).bit_length())
    span = choices[draw_integer(draw, 0, len(choices) - 1)]
    return min(draw_integer(draw, *span), max_value)


@st.composite
def counts(
    draw: st.DrawFn, *, min_value: int = 1, max_value: int = 2 * limit_edges()[-1]
) -> int:
    """Draw counts, log-uniformly, with weight around powers of two and launch limits.

    Shrinks towards `min_value`, by any step down to one, so that a fault with a
    threshold shrinks exactly to it.

    Args:
        draw: Hypothesis's.
        min_value: Smallest count.
        max_value: Largest count; by default beyond every limit.
    """
    return min_value - 1 + draw_count(draw, max_value - min_value + 1)
