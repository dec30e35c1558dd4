"""Block lists: runs of ids that begin anywhere and go anywhere.

A list is a few runs: single ids, stretches up or down, one id over and over, ids spread
over the whole cache. The first and the last id of the cache come up often, and so do
lists around 16, where compile caches change their minds.
"""

from typing import Literal

from hypothesis import strategies as st

from kvzero.case import IdRun
from kvzero.strategies.counts import (
    Span,
    draw_below,
    draw_count,
    draw_integer,
    draw_one,
    weighted,
)

Begin = Literal["first", "last", "any"]
Motion = Literal["up", "down", "same", "spread"]
BEGINS: tuple[Begin, ...] = weighted({"first": 3, "last": 2, "any": 3})
MOTIONS: tuple[Motion, ...] = weighted({"up": 4, "down": 2, "same": 2, "spread": 2})
NUM_RUNS: tuple[int, ...] = weighted({1: 12, 0: 2, 2: 3, 3: 1})
FURTHER_IDS = 40
MAX_LIST = 2**20


def draw_id_run(draw: st.DrawFn, num_blocks: int, span: Span) -> tuple[IdRun, ...]:
    """Draw ids inside the cache, as many as `span` says; the last one may repeat."""
    count = draw_integer(draw, *span)
    begin: Begin = draw_one(draw, BEGINS)
    start = {"first": 0, "last": num_blocks - 1}.get(begin, -1)
    if start < 0:
        start = draw_below(draw, num_blocks)
    motion: Motion = draw_one(draw, MOTIONS) if count > 1 else "up"
    if motion == "same" or num_blocks == 1 or count == 1:
        return (IdRun(start, count, 0 if count > 1 else 1),)
    steps, repeated = min(count, num_blocks), max(count - num_blocks, 0)
    if motion == "down":
        run = IdRun(max(start, steps - 1), steps, -1)
    elif motion == "up":
        run = IdRun(min(start, num_blocks - steps), steps)
    else:
        run = IdRun(0, steps, (num_blocks - 1) // (steps - 1))
    last = run.start + (steps - 1) * run.step
    return (run, IdRun(last, repeated, 0)) if repeated else (run,)


@st.composite
def id_runs(
    draw: st.DrawFn, num_blocks: int, span: Span, *, most: int = 2 * MAX_LIST
) -> tuple[IdRun, ...]:
    """Draw the runs of a list, the first one with a length from `span`.

    Args:
        draw: Hypothesis's.
        num_blocks: Blocks of the cache.
        span: Length of the first run.
        most: Longest list.
    """
    if not num_blocks:
        return ()
    found: tuple[IdRun, ...] = ()
    for index in range(draw_one(draw, NUM_RUNS)):
        left = most - sum(run.count for run in found)
        if index:
            span = Span(1, draw_count(draw, min(left, FURTHER_IDS)))
        if left:
            found += draw_id_run(draw, num_blocks, span)
    return found


@st.composite
def block_lists(
    draw: st.DrawFn,
    *,
    num_blocks: int,
    min_ids: int = 0,
    max_ids: int = MAX_LIST,
) -> tuple[IdRun, ...]:
    """Draw block lists, run-length encoded: any order, duplicates, first and last id.

    Shrinks towards fewer runs, then shorter ones, then id 0; an empty cache has only
    the empty list.

    Args:
        draw: Hypothesis's.
        num_blocks: Blocks of the cache; every id is in ``range(num_blocks)``.
        min_ids: Shortest list, where the cache has a block.
        max_ids: Longest list.
    """
    low = max(min_ids, 1)
    if not num_blocks or max_ids < low:
        return ()
    first = low - 1 + draw_count(draw, max_ids - low + 1)
    ids = draw(id_runs(num_blocks, Span(first, first), most=max_ids))
    return ids if ids or not min_ids else (IdRun(0, first, 0),)
