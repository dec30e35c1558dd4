"""Frames: a few draws choose how a window is filled, padded and repeated.

Nothing is drawn and then thrown away: pages of one window belong to one block, and each
size is cut to the memory that is left, so whatever is drawn is legal.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from hypothesis import strategies as st

from kvzero.strategies.counts import Span, draw_integer, draw_one, weighted
from kvzero.strategies.packing import Frame, Piece, Repeat
from kvzero.strategies.pages import FEW_BYTES, aligned, draw_padding, draw_page
from kvzero.strategies.reaches import Reach, near_chunk

MAX_POOL_BYTES = 2**43
"""Memory of one layout unless told otherwise: 8 TiB. With guards and gaps it stays far
inside the 47 bits of a process, and blocks still lie beyond every 32-bit offset."""
MAX_SEPARATE = 48
"""Allocations of one frame: each is a tensor, and tensors are slow to make."""
MAX_KERNEL_BLOCKS = 33
SMALL_PAGE_BYTES = 2**14
SMALL = Reach(Span(1, 6), Span(1, SMALL_PAGE_BYTES), Span(1, 1))
"""Reach of every frame but the first."""

Steps = Literal["touching", "apart", "dense"]
Relation = Literal["touching", "apart", "same address", "shifted"]

REPEATS: tuple[tuple[Repeat, bool], ...] = weighted(
    {
        ("regions", False): 6,
        ("inside", False): 5,
        ("inside", True): 3,
        ("allocations", False): 5,
        ("planes", False): 2,
        ("kernel_blocks", False): 2,
        ("pairs", False): 2,
        ("reversed", False): 2,
    }
)
"""How the segments repeat, and whether they are tiny beside one huge page."""
FURTHER: tuple[int, ...] = weighted({0: 8, 1: 4, 2: 2})
FRAMES: tuple[int, ...] = weighted({1: 56, 2: 18, 3: 6, 0: 3})
STEPS: tuple[Steps, ...] = weighted({"touching": 4, "apart": 3, "dense": 1})
SURROUNDINGS: tuple[tuple[bool, bool], ...] = weighted(
    {(False, False): 8, (True, False): 3, (False, True): 3, (True, True): 1}
)
"""Whether memory of nobody lies before the frame, and between its repetitions."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a layout must fit into.

    Attributes:
        alignment_bytes: Every address, stride and page size is a multiple of it.
        one_page_size: All pages have one size.
        max_bytes: Memory of the whole layout, guards included.
        min_blocks: Fewest blocks of the cache.
    """

    alignment_bytes: int = 1
    one_page_size: bool = False
    max_bytes: int = MAX_POOL_BYTES
    min_blocks: int = 0

    def align(self, value: int) -> int:
        """Return the smallest allowed size that is not below `value`."""
        return aligned(value, self.alignment_bytes)


class Beside(NamedTuple):
    """How a further piece lies beside the one before it, and in the table."""

    relation: Relation
    steps: Steps = "touching"
    interleaved: bool = False


BESIDES: tuple[Beside, ...] = weighted(
    {
        Beside("touching"): 4,
        Beside("touching", "apart"): 1,
        Beside("touching", interleaved=True): 2,
        Beside("apart"): 3,
        Beside("apart", "apart", interleaved=True): 1,
        Beside("same address"): 3,
        Beside("same address", interleaved=True): 1,
        Beside("shifted"): 2,
        Beside("shifted", "dense"): 1,
    }
)


class Kind(NamedTuple):
    """Pages of one kind, before their number is settled.

    Attributes:
        page_bytes: Their size.
        steps: How they follow each other.
        apart_bytes: Memory between two of them, where there is any.
        relation: How they lie beside the kind before.
        interleaved: As many as of the kind before, alternating with them.
        number: How many, unless interleaved.
    """

    page_bytes: int
    steps: Steps
    apart_bytes: int
    relation: Relation = "touching"
    interleaved: bool = False
    number: int = 1


# Counts are drawn right before what they count, at the end of a strategy of its own:
# then the shrinker can lower the count and drop the draws that it no longer needs.


@st.composite
def frames(draw: st.DrawFn, room: Room, reach: Reach) -> tuple[Frame, ...]:
    """Draw the frames of one block, within `room`; the first one as `reach` says.

    Shrinks towards one frame with one page; a layout without any stays so.
    """
    number = draw_one(draw, FRAMES)
    if not number:
        return ()
    part = replace(room, max_bytes=max(room.max_bytes // (4 * number), 1))
    first = draw_frame(draw, part, reach)
    page = first.pieces[0].page_bytes if room.one_page_size else None
    others = [draw_frame(draw, part, SMALL, page_bytes=page) for _ in range(number - 1)]
    # The others count as segments of the first: it can take them over when they go.
    return first.without(sum(frame.segments for frame in others)), *others


def draw_frame(
    draw: st.DrawFn, room: Room, reach: Reach, *, page_bytes: int | None = None
) -> Frame:
    """Draw a frame.

    Args:
        draw: Hypothesis's.
        room: What it must fit into.
        reach: Bounds of its segments and its page.
        page_bytes: The page size, where it is settled.
    """
    repeat, tiny = draw_one(draw, REPEATS)
    segments = draw_integer(draw, *reach.segments)
    kernel_blocks = 1
    if repeat == "kernel_blocks":
        kernel_blocks = draw_integer(draw, 2, MAX_KERNEL_BLOCKS)
    page = page_bytes or _page(draw, room, reach, max(segments, kernel_blocks))
    padding = draw_padding(draw)
    lead_bytes, gap_bytes = (
        _few(draw, room) if there else 0 for there in draw_one(draw, SURROUNDINGS)
    )
    inside = segments if repeat == "inside" else 1
    kinds = draw(kinds_of_pages(room, page, tiny=tiny, many=inside > 1))
    pieces = _side_by_side(room, kinds, inside)
    per_window = kernel_blocks * sum(piece.count for piece in pieces)
    count = 1 if repeat == "inside" else max(segments // per_window, 1)
    if repeat in ("allocations", "pairs") and count > MAX_SEPARATE:
        repeat = "regions"
    end = max(piece.end_bytes for piece in pieces)
    longest = room.max_bytes // (count * kernel_blocks)
    window = room.align(padding.stride_bytes(end, longest))
    return Frame(
        pieces,
        window,
        repeat,
        count,
        kernel_blocks,
        lead_bytes,
        gap_bytes,
        new_allocation=gap_bytes > 0,
    )


def _page(draw: st.DrawFn, room: Room, reach: Reach, segments: int) -> int:
    """Draw the page that the reach bounds, cut to the memory that is left."""
    page = draw_integer(draw, *reach.page_bytes)
    if reach.near_chunk:
        page = near_chunk(page)
    largest = room.max_bytes // (4 * segments * room.alignment_bytes)
    return room.align(min(page, max(largest, 1) * room.alignment_bytes))


def _few(draw: st.DrawFn, room: Room) -> int:
    return room.align(draw_integer(draw, 1, FEW_BYTES))


@st.composite
def kinds_of_pages(
    draw: st.DrawFn, room: Room, page: int, *, tiny: bool, many: bool
) -> tuple[Kind, ...]:
    """Draw the kinds of pages of a window; shrinks towards one.

    Args:
        draw: Hypothesis's.
        room: What a window must fit into.
        page: The size of the first kind, or of the second where the first is tiny.
        tiny: Begin with a kind of a few bytes.
        many: There may be several of the first kind.
    """
    sizes = [page]
    if tiny and not room.one_page_size:
        sizes = [room.align(draw_integer(draw, 1, FEW_BYTES)), page]
    steps: Steps = draw_one(draw, STEPS) if many else "touching"
    kinds = [Kind(sizes[0], steps, _few(draw, room) if steps == "apart" else 0)]
    kinds += [_beside(draw, room, size) for size in sizes[1:]]
    for _ in range(draw_one(draw, FURTHER)):
        small = page if room.one_page_size else room.align(_small_page(draw, room))
        kinds.append(_beside(draw, room, small))
    return tuple(kinds)


def _small_page(draw: st.DrawFn, room: Room) -> int:
    return draw_page(draw, min(SMALL_PAGE_BYTES, max(room.max_bytes // 64, 1)))


def _beside(draw: st.DrawFn, room: Room, page: int) -> Kind:
    """Draw a further kind of pages."""
    relation, steps, interleaved = draw_one(draw, BESIDES)
    apart = _few(draw, room) if "apart" in (relation, steps) else 0
    number = 1
    if not interleaved and page <= SMALL_PAGE_BYTES:
        number = draw_integer(draw, 1, 3)
    return Kind(page, steps, apart, relation, interleaved, number)


def _side_by_side(
    room: Room, kinds: tuple[Kind, ...], segments: int
) -> tuple[Piece, ...]:
    """Return the pages of a window, about `segments` of them where they may be many."""
    alike = next((i for i, k in enumerate(kinds) if i and not k.interleaved), None)
    alike = len(kinds) if alike is None else alike
    fixed = sum(kind.number for kind in kinds[alike:])
    count = max((segments - fixed) // alike, 1)
    pieces: list[Piece] = []
    for kind in kinds:
        if pieces:
            count = count if kind.interleaved else kind.number
            offset = _offset(room, pieces[-1], kind)
        else:
            offset = 0
        step = _step(room, kind)
        pieces.append(Piece(kind.page_bytes, offset, count, step, kind.interleaved))
    return tuple(pieces)


def _offset(room: Room, last: Piece, kind: Kind) -> int:
    match kind.relation:
        case "touching":
            return last.end_bytes
        case "apart":
            return last.end_bytes + kind.apart_bytes
        case "same address":
            return last.offset_bytes
        case _:
            return last.offset_bytes + room.align(max(last.page_bytes // 2, 1))


def _step(room: Room, kind: Kind) -> int:
    """Return the distance of pages of one kind; dense ones overlap."""
    if kind.steps == "dense":
        return room.align(max(kind.page_bytes // 2, 1))
    return kind.page_bytes + (kind.apart_bytes if kind.steps == "apart" else 0)
