"""Block pools: small memory with a few blocks, for histories of many steps.

Any layout with more than one block will do, and every byte is read after every step, so
the pools are small; what depends on sizes and distances is left to `cases`.
"""

from dataclasses import replace

from hypothesis import strategies as st

from kvzero.case import Case
from kvzero.layout import Layout
from kvzero.strategies.counts import Span, draw_integer, draw_one
from kvzero.strategies.frames import Room, draw_frame, frames
from kvzero.strategies.packing import pack
from kvzero.strategies.placements import draw_placement
from kvzero.strategies.reaches import Reach
from kvzero.subjects.protocol import Contract

MAX_BYTES = 2**13
"""Memory of one pool: a step reads all of it, and a history has dozens."""
MAX_BLOCKS = 12
MAX_SEED = 255
FEW = Reach(Span(1, 6), Span(1, 600), Span(1, 1))


@st.composite
def block_pools(
    draw: st.DrawFn, *, contract: Contract | None = None, min_blocks: int = 2
) -> Case:
    """Draw cases without calls: layout and placement of a small pool of blocks.

    Shrinks towards `min_blocks` blocks of one page of one byte.

    Args:
        draw: Hypothesis's.
        contract: What the subject takes; by default everything.
        min_blocks: Fewest blocks.
    """
    contract = contract or Contract()
    room = Room(contract.alignment_bytes, contract.one_page_size, MAX_BYTES)
    num_blocks = draw_integer(draw, min_blocks, max(min_blocks, MAX_BLOCKS))
    found = draw(frames(room, FEW)) or (draw_frame(draw, room, FEW),)
    packing = pack(found, num_blocks, tail_bytes=contract.alignment_bytes)
    layout = Layout(num_blocks, packing.allocations, packing.runs)
    placement = draw_placement(
        draw,
        alignment_bytes=contract.alignment_bytes,
        allocations=layout.num_allocations,
    )
    placement = replace(placement, base_bytes=0, gap_bytes=0)
    platform = draw_one(draw, ("cuda:90", "hip:gfx942"))
    return Case(layout, (), platform, placement, draw_integer(draw, 0, MAX_SEED))
