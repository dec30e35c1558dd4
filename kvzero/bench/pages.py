"""The pages of one block, each byte once, as regular families that torch can index.

Segments of one allocation and block stride move together from block to block, so the
union of their pages in block 0 is that of every block. It comes from the oracle's
intervals, not from the zeroer, and tells how many bytes a call clears. Families of
equal pages at equal distances are one strided tensor, through which memory is checked
and filled again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np
import torch

from kvzero.layout import Int64Array, Layout
from kvzero.oracle import merge

WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
"""Element types by width: wide words make the check as fast as memory."""


@dataclass(frozen=True, slots=True)
class PageFamily:
    """`count` equal stretches of pages, `step_bytes` apart in each block.

    Attributes:
        allocation: Where they lie.
        offset_bytes: The first of them in block 0.
        step_bytes: From one to the next.
        count: How many.
        stride_bytes: From block to block.
        page_bytes: Bytes of each.
    """

    allocation: int
    offset_bytes: int
    step_bytes: int
    count: int
    stride_bytes: int
    page_bytes: int

    @property
    def word_bytes(self) -> int:
        """Return the widest word that all pages are made of."""
        offset, step = self.offset_bytes, self.step_bytes
        return gcd(8, offset, step, self.stride_bytes, self.page_bytes)

    def view(self, memory: torch.Tensor, num_blocks: int) -> torch.Tensor:
        """Return the pages as words, shape [num_blocks, count, words of a page].

        Args:
            memory: The allocation, uint8, from the begin of its storage.
            num_blocks: Blocks of the cache.
        """
        word = self.word_bytes
        typed = torch.empty(0, dtype=WORDS[word], device=memory.device)
        return typed.set_(
            memory.untyped_storage(),
            self.offset_bytes // word,
            (num_blocks, self.count, self.page_bytes // word),
            (self.stride_bytes // word, self.step_bytes // word, 1),
        )


def page_families(layout: Layout) -> tuple[PageFamily, ...]:
    """Return families that cover each byte of a block's pages once.

    Args:
        layout: Segments of two block strides in one allocation must not overlap, as in
            every layout that is measured here.
    """
    table = layout.table
    keys = np.stack([table.allocation, table.stride_bytes], axis=1)
    found: list[PageFamily] = []
    for allocation, stride in np.unique(keys, axis=0).tolist():
        here = (table.allocation == allocation) & (table.stride_bytes == stride)
        begin = torch.from_numpy(table.offset_bytes[here])
        pages = merge(begin, begin + torch.from_numpy(table.page_bytes[here]))
        starts, ends = pages.starts.numpy(), pages.ends.numpy()
        found += _families(allocation, stride, starts, ends - starts)
    return tuple(found)


def _families(
    allocation: int, stride: int, starts: Int64Array, sizes: Int64Array
) -> Iterator[PageFamily]:
    """Yield the families of some stretches in block 0."""
    for size in np.unique(sizes).tolist():
        for offset, step, count in progressions(starts[sizes == size]):
            yield PageFamily(allocation, offset, step, count, stride, size)


def progressions(ascending: Int64Array) -> Iterator[tuple[int, int, int]]:
    """Yield numbers as (first, step, count): greedy, in order, each number once."""
    values = ascending.tolist()
    breaks = np.flatnonzero(np.diff(ascending, 2)) + 2  # a new step ends here
    begin = 0
    for end in [*breaks.tolist(), len(values)]:
        if end <= begin:
            continue
        step = values[begin + 1] - values[begin] if end - begin > 1 else 8
        yield values[begin], step, end - begin
        begin = end


def bytes_of_block(layout: Layout) -> int:
    """Return the bytes of one block's pages, each once."""
    return sum(family.count * family.page_bytes for family in page_families(layout))


def smallest_page(layout: Layout) -> int:
    """Return the smallest page of a layout, in bytes."""
    return int(layout.table.page_bytes.min())
