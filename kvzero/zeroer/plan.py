"""The launches of one call, as data: `KVBlockZeroer.zero` makes exactly these.

A call is a rectangle of programs, blocks times chunks, on the x axis of the grid. It is
cut into as few launches as fit every row of `kvzero.limits`, whatever machine this is.
The narrowest row is HIP's 2**32 work items; a grid of one dimension within it fits all
the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from kvzero.limits import HIP_MAX_WORK_ITEMS, HIP_WIDEST_WARP, Grid
from kvzero.zeroer.chunks import ChunkGroup

NUM_WARPS = 1
"""Warps of a program: 32 threads store a chunk with eight 16-byte stores each. On an
H200, aligned pages, 0.96 to 0.99 of memset with 1 warp and 0.94 to 0.96 with 4."""
MAX_PROGRAMS = HIP_MAX_WORK_ITEMS // (NUM_WARPS * HIP_WIDEST_WARP)
"""Programs of one launch: 67,108,863."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of the zeroer's kernel.

    Attributes:
        blocks: Positions in the block list.
        chunks: Chunks of each of those blocks.
        first_row: Row of the zeroer's table that holds the first chunk.
        row_shift: Chunks of one row, as a power of two.
        num_warps: Warps of one program.
    """

    blocks: range
    chunks: range
    first_row: int
    row_shift: int = 0
    num_warps: int = NUM_WARPS

    @property
    def programs(self) -> int:
        """Return the programs of the launch: one for each block and chunk."""
        return len(self.blocks) * len(self.chunks)

    @property
    def grid(self) -> Grid:
        """Return the programs in x, y and z."""
        return self.programs, 1, 1


@lru_cache(maxsize=256)
def plan_launches(n_blocks: int, groups: tuple[ChunkGroup, ...]) -> tuple[Launch, ...]:
    """Return the launches that zero every chunk of a block list, none for no work.

    Args:
        n_blocks: Length of the block list.
        groups: Chunks of one block.
    """
    return tuple(launch for group in groups for launch in _of_group(n_blocks, group))


def _of_group(n_blocks: int, group: ChunkGroup) -> Iterator[Launch]:
    # No row is cut: a launch begins with the first chunk of one.
    whole_rows = MAX_PROGRAMS >> group.shift << group.shift
    for part in pieces(group.chunks, whole_rows):
        chunks = range(group.first_chunk + part.start, group.first_chunk + part.stop)
        first_row = group.first_row + (part.start >> group.shift)
        for blocks in pieces(n_blocks, MAX_PROGRAMS // len(chunks)):
            yield Launch(blocks, chunks, first_row, group.shift)


def pieces(count: int, longest: int) -> list[range]:
    """Return range(count) in pieces of at most `longest`."""
    return [
        range(begin, min(begin + longest, count)) for begin in range(0, count, longest)
    ]
