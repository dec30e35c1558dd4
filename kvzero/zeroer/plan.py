"""The launches of one call, as data: `KVBlockZeroer.zero` makes exactly these.

A call is a rectangle of programs, blocks times chunks. What neighbouring programs
share, a block or a chunk, is the y axis of the grid, so none divides to find its place.
The rectangle is cut into as few launches as fit every row of `kvzero.limits`, whatever
machine this is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

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


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of the zeroer's kernel.

    Attributes:
        blocks: Positions in the block list.
        chunks: Chunks of each of those blocks.
        first_row: Row of the zeroer's table that holds the first chunk.
        row_shift: Chunks of one row, as a power of two.
        num_warps: Warps of one program.
        chunks_inside: Whether neighbouring programs share a block, not a chunk.
    """

    blocks: range
    chunks: range
    first_row: int
    row_shift: int = 0
    num_warps: int = NUM_WARPS
    chunks_inside: bool = True

    @property
    def programs(self) -> int:
        """Return the programs of the launch: one for each block and chunk."""
        return len(self.blocks) * len(self.chunks)

    @property
    def grid(self) -> Grid:
        """Return the programs in x, y and z."""
        blocks, chunks = len(self.blocks), len(self.chunks)
        return (chunks, blocks, 1) if self.chunks_inside else (blocks, chunks, 1)


@lru_cache(maxsize=256)
def plan_launches(
    n_blocks: int, groups: tuple[ChunkGroup, ...], *, chunks_inside: bool
) -> tuple[Launch, ...]:
    """Return the launches that zero every chunk of a block list, none for no work.

    Args:
        n_blocks: Length of the block list.
        groups: Chunks of one block.
        chunks_inside: Whether neighbouring programs share a block, as they do in any
            case where many chunks share a row.
    """
    return tuple(
        launch
        for group in groups
        for launch in _of_group(
            n_blocks, group, chunks_inside=chunks_inside or group.shift > 0
        )
    )


def _of_group(
    n_blocks: int, group: ChunkGroup, *, chunks_inside: bool
) -> Iterator[Launch]:
    most_chunks, most_blocks = (MOST_X, MOST_Y) if chunks_inside else (MOST_Y, MOST_X)
    # No row is cut: a launch begins with the first chunk of one.
    for part in pieces(group.chunks, most_chunks >> group.shift << group.shift):
        chunks = range(group.first_chunk + part.start, group.first_chunk + part.stop)
        first_row = group.first_row + (part.start >> group.shift)
        for blocks in pieces(n_blocks, min(most_blocks, MOST_PROGRAMS // len(chunks))):
            yield Launch(
                blocks, chunks, first_row, group.shift, chunks_inside=chunks_inside
            )


def pieces(count: int, longest: int) -> list[range]:
    """Return range(count) in pieces of at most `longest`."""
    return [
        range(begin, min(begin + longest, count)) for begin in range(0, count, longest)
    ]
