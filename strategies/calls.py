"""Calls: a block list, how it arrives, and now and then an id that must be refused.

What a subject's contract excludes is not drawn: arrivals and element types it does not
take, and bad ids where it trusts its caller.
"""

from functools import cache
from itertools import product
from typing import Literal

import numpy as np
from hypothesis import strategies as st

from kvzero.case import ID_DTYPES, REFUSED_DTYPES, Arrival, Call, IdRun
from kvzero.strategies.block_lists import id_runs
from kvzero.strategies.counts import Span, draw_count, draw_integer, draw_one, weighted
from kvzero.subjects.protocol import Contract

Wrong = Literal["", "negative", "next", "beyond", "far", "wide", "dtype"]
WRONGS: tuple[Wrong, ...] = weighted(
    {"": 80, "negative": 3, "next": 3, "beyond": 3, "far": 3, "wide": 3, "dtype": 8}
)
"""No bad id, or: below 0, the number of blocks, above it, a valid id plus a power of
two that 32 bits drop, one that 64 bits cannot hold, or ids that are no integers."""
BUFFERS = weighted(
    {(False, False): 5, (True, False): 1, (False, True): 1, (True, True): 1}
)
"""Whether ids begin inside their buffer, and lie apart in it."""
NUM_CALLS: tuple[int, ...] = weighted({1: 2, 2: 3, 3: 4, 4: 6, 5: 6})
"""Memory and what a zeroer keeps carry over from call to call, and a call costs less
than a new case."""
SHORT = Span(1, 17)
SHORT_LISTS = (Span(1, 2), SHORT, Span(15, 17))
"""Around 1 and 16 an integer argument changes its compiled variant."""
MOST_REPEATED = 65
"""A later list may be as long as the first, if that has fewer ids: what is kept by the
number of ids is then used again."""
MAX_STEP_EL = 3
MAX_OFFSET_EL = 8
LIST_SHARE = 3
"""One arrival in about this many is a list, what engines hand over most."""


def draw_call(
    draw: st.DrawFn, num_blocks: int, contract: Contract, span: Span = SHORT
) -> Call:
    """Draw a call.

    Args:
        draw: Hypothesis's.
        num_blocks: Blocks of the cache.
        contract: What the subject takes.
        span: Length of the first run of ids; by default short.
    """
    wrong: Wrong = draw_one(draw, WRONGS) if contract.checks_ids else ""
    if wrong == "dtype":
        return _refused_dtype(draw, num_blocks, contract)
    ids = draw(id_runs(num_blocks, span))
    if wrong:
        bad = IdRun(_bad_id(draw, wrong, num_blocks))
        ids = (*ids, bad) if draw_one(draw, (True, False)) else (bad, *ids)
    ids, arrival, dtype = _arrival(draw, contract, ids)
    if arrival == "list":
        return Call(ids)
    offset, apart = draw_one(draw, BUFFERS)
    return Call(
        ids,
        arrival,
        dtype,
        draw_integer(draw, 1, MAX_OFFSET_EL) if offset else 0,
        draw_integer(draw, 2, MAX_STEP_EL) if apart else 1,
    )


def _bad_id(draw: st.DrawFn, wrong: Wrong, num_blocks: int) -> int:
    """Draw an id that no cache of `num_blocks` blocks has."""
    if wrong == "negative":
        return -draw_count(draw, 2**63)
    if wrong == "next":
        return num_blocks
    if wrong == "beyond":
        return num_blocks + draw_count(draw, 2**20)
    valid = draw_integer(draw, 0, min(max(num_blocks - 1, 0), 3))
    if wrong == "far":
        # Arithmetic of so many bits takes it for the valid one.
        modulus = draw_one(draw, (2**32, 2**16, 2**8))
        return valid + modulus * max(-(-num_blocks // modulus), 1)
    return valid + draw_one(draw, (2**64, 2**63, -(2**64)))


def _refused_dtype(draw: st.DrawFn, num_blocks: int, contract: Contract) -> Call:
    """Draw a call whose ids would be in the cache, were they integers."""
    arrival: Arrival = draw_one(draw, contract.arrivals)
    kinds = ("bool", "float64") if arrival == "list" else REFUSED_DTYPES
    dtype = draw_one(draw, kinds)
    count = min(draw_integer(draw, 1, 2), max(num_blocks, 1))
    return Call((IdRun(0, count),), arrival, dtype)


@cache
def _ranges() -> tuple[tuple[str, int, int], ...]:
    """Return every dtype of ids with its bounds, the plainest first."""
    names = sorted(ID_DTYPES, key=lambda name: name not in ("int64", "int32"))
    infos = ((name, np.iinfo(name)) for name in names)
    return tuple((name, int(info.min), int(info.max)) for name, info in infos)


def _fitting(ids: tuple[IdRun, ...]) -> tuple[str, ...]:
    """Return the dtypes that hold all ids."""
    ends = [run.start for run in ids]
    ends += [run.start + (run.count - 1) * run.step for run in ids]
    least, most = min(ends, default=0), max(ends, default=0)
    return tuple(name for name, low, high in _ranges() if low <= least <= most <= high)


def _arrival(
    draw: st.DrawFn, contract: Contract, ids: tuple[IdRun, ...]
) -> tuple[tuple[IdRun, ...], Arrival, str]:
    """Draw how ids arrive; a dtype that cannot hold them gives way to one that can."""
    arrival, dtype = draw_one(draw, _options(contract))
    fitting = _fitting(ids)
    if arrival == "list" or dtype in fitting:
        return ids, arrival, dtype
    other = next((name for name in fitting if name in contract.id_dtypes), None)
    if other is not None:
        return ids, arrival, other
    if "list" in contract.arrivals:
        return ids, "list", "int64"
    return (), arrival, dtype


@cache
def _options(contract: Contract) -> tuple[tuple[Arrival, str], ...]:
    """Return the arrivals and dtypes that the contract allows, lists first."""
    buffers = [arrival for arrival in contract.arrivals if arrival != "list"]
    names = [name for name, _, _ in _ranges() if name in contract.id_dtypes]
    others = list(product(buffers, names))
    lists: list[tuple[Arrival, str]] = []
    if "list" in contract.arrivals:
        lists = [("list", "int64")] * max(len(others) // (LIST_SHARE - 1), 1)
    return (*lists, *others)


@st.composite
def call_sequences(
    draw: st.DrawFn, num_blocks: int, contract: Contract, span: Span
) -> tuple[Call, ...]:
    """Draw the calls of a case, the first one with a list as long as `span` says.

    Shrinks towards one call.
    """
    found: list[Call] = []
    for index in range(draw_one(draw, NUM_CALLS)):
        if index:
            count = found[0].num_ids
            same = Span(count, count) if count in range(1, MOST_REPEATED) else SHORT
            span = draw_one(draw, (*SHORT_LISTS, same))
        found.append(draw_call(draw, num_blocks, contract, span))
    return tuple(found)


@st.composite
def calls(
    draw: st.DrawFn, *, num_blocks: int, contract: Contract | None = None
) -> Call:
    """Draw calls of a zeroer: lists, arrays and tensors, good ids and bad ones.

    Shrinks towards a Python list that holds id 0.

    Args:
        draw: Hypothesis's.
        num_blocks: Blocks of the cache.
        contract: What the subject takes; by default everything.
    """
    return draw_call(draw, num_blocks, contract or Contract())
