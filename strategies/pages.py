"""Page sizes: every residue, every power of two, every chunk boundary.

Kernels go wrong in the tail of a page, so sizes are drawn log-uniformly over all bytes
and, apart from that, close to powers of two and to multiples of the 4-KiB chunk.
"""

from typing import Literal, NamedTuple

from hypothesis import strategies as st

from kvzero.strategies.counts import draw_count, draw_integer, draw_one, weighted
from kvzero.strategies.reaches import CHUNK_BYTES, MOST_CHUNKS_EXPONENT, near_chunk

MAX_PAGE_BYTES = CHUNK_BYTES << MOST_CHUNKS_EXPONENT
MAX_STRIDE_BYTES = 2**40
FEW_BYTES = 64

PaddingKind = Literal["none", "few", "page", "power"]
PADDINGS: tuple[PaddingKind, ...] = weighted(
    {"none": 8, "few": 4, "page": 2, "power": 2}
)
"""Nothing, a few bytes, the page once again, up to a power of two."""


class Padding(NamedTuple):
    """What follows a page up to the next block."""

    kind: PaddingKind
    amount_bytes: int = 0

    def stride_bytes(self, page_bytes: int, max_bytes: int) -> int:
        """Return the block stride, at least the page and else at most `max_bytes`."""
        if self.kind == "page":
            stride = 2 * page_bytes
        elif self.kind == "power":
            stride = 2 ** (page_bytes - 1).bit_length()
        else:
            stride = page_bytes + self.amount_bytes
        return max(min(stride, max_bytes), page_bytes)


def aligned(value: int, alignment_bytes: int) -> int:
    """Return the smallest multiple of the alignment that is not below `value`."""
    return -(-value // alignment_bytes) * alignment_bytes


def draw_page(draw: st.DrawFn, max_bytes: int) -> int:
    """Draw a page size in bytes, from 1 to about `max_bytes`; see `pages`."""
    size = draw_count(draw, max_bytes)
    if size > CHUNK_BYTES // 2 and not draw_integer(draw, 0, 3) % 2:
        return size
    return near_chunk(size) if size > CHUNK_BYTES // 2 else size


@st.composite
def pages(
    draw: st.DrawFn,
    *,
    min_bytes: int = 1,
    max_bytes: int = MAX_PAGE_BYTES,
    alignment_bytes: int = 1,
) -> int:
    """Draw page sizes in bytes: odd ones, around powers of two and chunk boundaries.

    Shrinks towards `min_bytes`, byte by byte (by `alignment_bytes`).

    Args:
        draw: Hypothesis's.
        min_bytes: Smallest size, before alignment.
        max_bytes: Largest size, rounded down to the alignment.
        alignment_bytes: Every size is a multiple of it.
    """
    size = max(draw_page(draw, max_bytes), min_bytes)
    return min(
        aligned(size, alignment_bytes), max_bytes // alignment_bytes * alignment_bytes
    )


def draw_padding(draw: st.DrawFn) -> Padding:
    """Draw padding: none, or little."""
    kind: PaddingKind = draw_one(draw, PADDINGS)
    return Padding(kind, draw_integer(draw, 1, FEW_BYTES) if kind == "few" else 0)


@st.composite
def strides(
    draw: st.DrawFn,
    *,
    page_bytes: int,
    max_bytes: int = MAX_STRIDE_BYTES,
    alignment_bytes: int = 1,
) -> int:
    """Draw block strides in bytes: equal to the page, padded a little, or immense.

    Shrinks towards `page_bytes`, then towards less padding.

    Args:
        draw: Hypothesis's.
        page_bytes: The page that fits into the stride.
        max_bytes: Largest stride, before alignment.
        alignment_bytes: Every stride is a multiple of it.
    """
    stride = draw_padding(draw).stride_bytes(page_bytes, max_bytes)
    if draw_one(draw, (False, False, False, True)):
        stride = min(stride + draw_count(draw, max_bytes), max(max_bytes, page_bytes))
    return aligned(stride, alignment_bytes)
