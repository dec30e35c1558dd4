"""Placements: where allocations lie, near or terabytes apart, aligned or not.

Differences of addresses overflow in 32 bits only where memory lies far apart, and
vector stores break only where it is misaligned, so both belong to a case.
"""

from typing import Literal

from hypothesis import strategies as st

from kvzero.case import MAX_MISALIGNMENT_BYTES, Placement
from kvzero.memory import ALIGNMENT_BYTES
from kvzero.strategies.counts import draw_count, draw_integer, draw_one, weighted

MAX_APART_BYTES = 2**43
"""Far beyond every 32-bit difference, and all of it inside 47 bits with the pools."""
MAX_MISALIGNMENTS = 3
FAR_BYTES = 2**32
"""No 32-bit difference of addresses reaches so far."""
Gap = Literal["guards", "near", "far"]
GAPS: tuple[Gap, ...] = weighted({"guards": 3, "near": 1, "far": 3})
PLAIN: tuple[bool, ...] = weighted({True: 3, False: 2})
SOMETIMES: tuple[bool, ...] = weighted({False: 2, True: 1})


def draw_placement(
    draw: st.DrawFn, *, alignment_bytes: int = 1, allocations: int = 1
) -> Placement:
    """Draw a placement for a number of allocations; see `placements`."""
    if draw_one(draw, PLAIN if allocations < 2 else (True, False, False)):
        return Placement()
    shifts: tuple[int, ...] = (0,)
    if draw_one(draw, (False, True)):
        number = draw_integer(draw, 1, min(MAX_MISALIGNMENTS, max(allocations, 1)))
        shifts = tuple(_misalignment(draw, alignment_bytes) for _ in range(number))
    return Placement(
        ALIGNMENT_BYTES * draw_count(draw, 2**32) if draw_one(draw, SOMETIMES) else 0,
        _gap(draw, MAX_APART_BYTES // (2 * max(allocations, 1))),
        shifts,
        draw_one(draw, (False, True)),
    )


def _gap(draw: st.DrawFn, longest: int) -> int:
    """Draw the memory between two allocations."""
    kind: Gap = draw_one(draw, GAPS)
    if kind == "guards":
        return 0
    return min(draw_count(draw, longest) + FAR_BYTES * (kind == "far"), longest)


@st.composite
def placements(
    draw: st.DrawFn, *, alignment_bytes: int = 1, allocations: int = 1
) -> Placement:
    """Draw placements; they shrink towards aligned neighbours in rising order.

    Args:
        draw: Hypothesis's.
        alignment_bytes: Every misalignment is a multiple of it.
        allocations: How many allocations there are; their gaps share the address space.
    """
    return draw_placement(
        draw, alignment_bytes=alignment_bytes, allocations=allocations
    )


def _misalignment(draw: st.DrawFn, alignment_bytes: int) -> int:
    most = MAX_MISALIGNMENT_BYTES // alignment_bytes
    return draw_integer(draw, 0, most) * alignment_bytes
