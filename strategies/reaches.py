"""How far a case reaches: bounds on its segments, its page and its block list.

What a launch costs and which limit it meets depends on three factors, the segments, the
chunks of a page and the ids of a call. A *reach* bounds all three at once. Most reaches
keep their product small, because cheap cases find most faults soonest; the rest put one
factor beyond a limit, or the product of two or three.
"""

from functools import cache
from itertools import product
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from kvzero.strategies.counts import Span, draw_one, limit_edges, weighted

CHUNK_EXPONENT = 12
"""Chunks of 4 KiB: what one program does best, and what the cost rule counts in."""
CHUNK_BYTES = 1 << CHUNK_EXPONENT

MOST_SEGMENTS_EXPONENT = 17
MOST_CHUNKS_EXPONENT = 17
MOST_IDS_EXPONENT = 20
"""Beyond every limit of one dimension, yet a case is built in milliseconds."""
SMALL_EXPONENT = 11
"""A small case has at most two to this power 4-KiB chunks to zero."""

LARGEST_TABLE = 250
"""Hypothesis draws evenly from up to 256 integers, and prefers small ones beyond."""

Kind = Literal["small", "segments", "chunks", "ids", "products"]
Manner = Literal["anywhere", "upper half", "close", "near chunk"]
KINDS: tuple[tuple[Kind, Manner], ...] = weighted(
    {
        ("small", "anywhere"): 112,
        ("small", "close"): 24,
        ("small", "near chunk"): 24,
        ("segments", "anywhere"): 1,
        ("segments", "upper half"): 9,
        ("segments", "close"): 4,
        ("chunks", "anywhere"): 1,
        ("chunks", "upper half"): 7,
        ("chunks", "close"): 3,
        ("ids", "anywhere"): 2,
        ("ids", "upper half"): 4,
        ("ids", "close"): 2,
        ("products", "anywhere"): 5,
        ("products", "upper half"): 27,
        ("products", "close"): 20,
    }
)
"""What goes far, and where below their bounds the factors are drawn.

Each manner allows all numbers of those after it (a page near a chunk is moved there
afterwards), so the shrinker can step back from any of them to "anywhere" with the
numbers that it has.
"""


class Bounds(NamedTuple):
    """Exponents of the largest number of segments, bytes of a page, and ids."""

    segments: int
    page: int
    ids: int

    @property
    def programs(self) -> int:
        """Return the exponent of the largest number of 4-KiB chunks."""
        return self.segments + max(self.page - CHUNK_EXPONENT, 0) + self.ids


class Reach(NamedTuple):
    """Spans of the factors of one case.

    Attributes:
        segments: Segments of the first family.
        page_bytes: Size of its page.
        ids: Length of the first block list.
        near_chunk: Move the page close to a multiple of the chunk.
    """

    segments: Span
    page_bytes: Span
    ids: Span
    near_chunk: bool = False


def _small() -> list[Bounds]:
    every = (
        Bounds(i, j, k)
        for i, j, k in product(
            range(9), range(SMALL_EXPONENT + CHUNK_EXPONENT), range(7)
        )
    )
    # Sorted by size, so that a lower draw is a smaller case.
    return [b for b in every if b.programs <= SMALL_EXPONENT]


def _beyond(exponents: set[int], most: int) -> list[int]:
    """Return exponents around those of the limits that one factor can reach."""
    around = {e + shift for e in exponents for shift in (0, 1)}
    return sorted(e for e in around if e <= most)


def _products(exponents: set[int]) -> list[Bounds]:
    """Return bounds whose product lies around a limit, no single factor doing it."""
    totals = {e + shift for e in exponents if e > MOST_IDS_EXPONENT for shift in (0, 1)}
    factors = product(
        range(0, MOST_SEGMENTS_EXPONENT, 3),
        range(0, MOST_CHUNKS_EXPONENT, 2),
        range(1, MOST_IDS_EXPONENT + 1),
    )
    return [
        Bounds(i, CHUNK_EXPONENT + c, k) for i, c, k in factors if i + c + k in totals
    ]


@cache
def reach_bounds(kind: Kind, max_programs: int | None = None) -> tuple[Bounds, ...]:
    """Return the bounds of one kind, smallest first; at least those of one byte.

    Args:
        kind: What goes far.
        max_programs: Leave out what may have more 4-KiB chunks to zero.
    """
    exponents = {(edge - 1).bit_length() for edge in limit_edges()}
    if kind == "small":
        found = _small()
    elif kind == "products":
        found = _products(exponents)
    elif kind == "segments":
        beyond = _beyond(exponents, MOST_SEGMENTS_EXPONENT)
        # Few numbers below a bound are beyond the limit: the last bound counts more.
        beyond += beyond[-1:] * 2
        found = [Bounds(i, j, k) for i in beyond for j, k in ((0, 0), (6, 2), (10, 0))]
    elif kind == "chunks":
        beyond = [CHUNK_EXPONENT + c for c in _beyond(exponents, MOST_CHUNKS_EXPONENT)]
        found = [Bounds(i, j, k) for j in beyond for i, k in ((0, 0), (2, 1), (1, 3))]
    else:
        beyond = [*_beyond(exponents, MOST_IDS_EXPONENT), MOST_IDS_EXPONENT]
        found = [Bounds(i, j, k) for k in beyond for i, j in ((0, 0), (2, 6), (0, 14))]
    found.sort(key=lambda b: (b.programs, sum(b), b))
    if max_programs is not None:
        most = max(max_programs, 1).bit_length() - 1
        found = [b for b in found if b.programs <= most]
    return tuple(found[:: -(-len(found) // LARGEST_TABLE) or 1])


@cache
def reach_kinds(max_programs: int | None) -> tuple[tuple[Kind, Manner], ...]:
    """Return the kinds that have bounds at all, weights kept."""
    return tuple(pair for pair in KINDS if reach_bounds(pair[0], max_programs))


def draw_reach(draw: st.DrawFn, max_programs: int | None = None) -> Reach:
    """Draw a reach; shrinks towards a small one, then the smallest."""
    kind, manner = draw_one(draw, reach_kinds(max_programs))
    bounds = draw_one(draw, reach_bounds(kind, max_programs))
    segments, page, ids = (_span(exponent, manner) for exponent in bounds)
    return Reach(segments, page, ids, near_chunk=manner == "near chunk")


@cache
def _span(exponent: int, manner: Manner) -> Span:
    """Return a span up to just beyond a power of two, or in its upper part."""
    power = 1 << exponent
    low = {"upper half": power // 2, "close": power - 1}.get(manner, 1)
    return Span(max(low, 1), power + (exponent > 0))


def near_chunk(page_bytes: int) -> int:
    """Return a size close to `page_bytes` that is at most one byte off a boundary."""
    boundary = max(round(page_bytes / CHUNK_BYTES), 1) * CHUNK_BYTES
    return boundary + page_bytes % 3 - 1
