"""The launches of one call, as data: `KVBlockZeroer.zero` makes exactly these.

A call is a box of programs: the chunks of a row of the table, rows and blocks are its
axes, so none divides to find its place. Where chunks are short, a program takes several
blocks. The box is cut into as few launches as fit every row of `kvzero.limits`,
whatever machine this is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from kvzero.limits import (
    CUDA_MAX_YZ,
    HIP_MAX_WORK_ITEMS,
    HIP_WIDEST_WARP,
    INT32_MAX,
    Grid,
)
from kvzero.zeroer.chunks import ChunkGroup

NUM_WARPS = 1
"""Warps of a program: 32 threads store a chunk with eight 16-byte stores each. On an
H200, aligned pages, 0.96 to 0.99 of memset with 1 warp and 0.94 to 0.96 with 4."""
MOST_X = HIP_MAX_WORK_ITEMS // (NUM_WARPS * HIP_WIDEST_WARP)
"""HIP counts the threads of x: 67,108,863 programs."""
MOST_Y = CUDA_MAX_YZ
"""Of CUDA, and what HIP reports: 65,535."""
MOST_PROGRAMS = INT32_MAX
"""Triton's launcher multiplies the axes as 32-bit ints, and skips what wraps."""
PROGRAM_BYTES = 3072
"""What a program should store: an H200 starts 1.65e9 programs a second, empty or not,
and stores 4.6e12 bytes, so with fewer bytes a program it would wait for programs."""
MOST_EACH = 8
"""Blocks of a program; more gained nothing, for pages of 132 and 1,152 B (H200)."""
FEWEST_PROGRAMS = 768
"""Not for more blocks a program does a call have fewer: a GPU runs them at once."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of the zeroer's kernel.

    Attributes:
        blocks: Positions in the block list.
        chunks: Chunks of each of those blocks.
        first_row: Row of the zeroer's table that holds the first chunk.
        row_chunks: Chunks of one row.
        blocks_each: Blocks of one program; the last ones may have fewer.
        num_warps: Warps of one program.
        rows_inside: Whether neighbouring rows are nearer to each other in the grid than
            neighbouring blocks.
    """

    blocks: range
    chunks: range
    first_row: int
    row_chunks: int = 1
    blocks_each: int = 1
    num_warps: int = NUM_WARPS
    rows_inside: bool = True

    @property
    def programs(self) -> int:
        """Return the programs of the launch."""
        return prod(self.grid)

    @property
    def grid(self) -> Grid:
        """Return the programs in x, y and z."""
        rows = len(self.chunks) // self.row_chunks
        blocks = -(-len(self.blocks) // self.blocks_each)
        inner, outer = (rows, blocks) if self.rows_inside else (blocks, rows)
        if self.row_chunks == 1:  # x is the longest axis that there is
            return inner, outer, 1
        return self.row_chunks, inner, outer


@lru_cache(maxsize=256)
def plan_launches(
    n_blocks: int,
    groups: tuple[ChunkGroup, ...],
    *,
    rows_inside: bool,
    blocks_each: int = 1,
) -> tuple[Launch, ...]:
    """Return the launches that zero every chunk of a block list, none for no work.

    Args:
        n_blocks: Length of the block list.
        groups: Chunks of one block.
        rows_inside: See `Launch`.
        blocks_each: See `Launch`.
    """
    return tuple(
        Launch(
            blocks,
            group.chunks_of(rows),
            group.first_row + rows.start,
            group.width,
            blocks_each,
            rows_inside=rows_inside,
        )
        for group in groups
        for rows, blocks in _pieces_of(
            group, n_blocks, rows_inside=rows_inside, blocks_each=blocks_each
        )
    )


def _pieces_of(
    group: ChunkGroup, n_blocks: int, *, rows_inside: bool, blocks_each: int
) -> Iterator[tuple[range, range]]:
    """Yield rows of a group and positions in the list that fit one launch."""
    most_inner = MOST_X if group.width == 1 else MOST_Y
    most_rows, most_blocks = (
        (most_inner, MOST_Y) if rows_inside else (MOST_Y, most_inner)
    )
    for rows in pieces(group.rows, min(most_rows, MOST_PROGRAMS // group.width)):
        most = min(most_blocks, MOST_PROGRAMS // (len(rows) * group.width))
        for blocks in pieces(n_blocks, most * blocks_each):
            yield rows, blocks


def pieces(count: int, longest: int) -> list[range]:
    """Return range(count) in pieces of at most `longest`."""
    return [
        range(begin, min(begin + longest, count)) for begin in range(0, count, longest)
    ]


def blocks_of_a_program(n_blocks: int, num_chunks: int, block_bytes: int) -> int:
    """Return of how many blocks a program should zero its chunk.

    Args:
        n_blocks: Length of the block list.
        num_chunks: Chunks of one block.
        block_bytes: Bytes of all of them.
    """
    enough = -(-PROGRAM_BYTES * num_chunks // max(1, block_bytes))
    most = min(MOST_EACH, n_blocks * num_chunks // FEWEST_PROGRAMS)
    return max(1, min(enough, most))
