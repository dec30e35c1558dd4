"""Cases: a layout, a few calls, a platform and a placement.

Most cases are small, because small ones find most faults soonest; the rest go beyond
some limit, with one number or with the product of several.
"""

from hypothesis import strategies as st

from kvzero.case import Case
from kvzero.strategies.calls import call_sequences
from kvzero.strategies.counts import draw_integer, draw_one, weighted
from kvzero.strategies.frames import MAX_POOL_BYTES, Room
from kvzero.strategies.layouts import draw_layout
from kvzero.strategies.placements import draw_placement
from kvzero.strategies.reaches import draw_reach
from kvzero.strategies.views import draw_view_layout
from kvzero.subjects.protocol import Contract

PLATFORMS = ("cuda:90", "hip:gfx942")
MAX_SEED = 255
SOURCES = weighted({"frames": 4, "views": 1})


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    contract: Contract | None = None,
    platforms: tuple[str, ...] = PLATFORMS,
    max_bytes: int = MAX_POOL_BYTES,
    max_programs_hint: int | None = None,
) -> Case:
    """Draw cases that a contract allows, from one byte to beyond every launch limit.

    Shrinks towards one call with id 0 on one block of one page of one byte: fewer
    calls, fewer runs, then smaller numbers. A fault with a threshold in one number
    shrinks exactly to it.

    Args:
        draw: Hypothesis's.
        contract: What the subject takes; by default everything.
        platforms: Targets to draw from, the plainest first.
        max_bytes: Memory of a layout, guards included, for executors on real memory.
        max_programs_hint: About how many 4-KiB chunks a case may have to zero, for
            executors that are slow.
    """
    contract = contract or Contract()
    room = Room(
        contract.alignment_bytes,
        contract.one_page_size,
        max_bytes,
        contract.min_blocks,
    )
    reach = draw_reach(draw, max_programs_hint)
    if draw_one(draw, SOURCES) == "views":
        layout = draw_view_layout(draw, room)
    else:
        layout = draw_layout(draw, room, reach)
    return Case(
        layout,
        draw(call_sequences(layout.num_blocks, contract, reach.ids)),
        draw_one(draw, platforms),
        draw_placement(
            draw,
            alignment_bytes=contract.alignment_bytes,
            allocations=layout.num_allocations,
        ),
        draw_integer(draw, 0, MAX_SEED),
        padding_may_be_touched=bool(layout.tiles) and draw_one(draw, (False, True)),
    )
