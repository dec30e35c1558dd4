"""The memory that contenders work on: made once a layout, checked for each of them.

All of it holds one byte, `FILLED`. A call is right if every page of the listed blocks
reads zero and, once those pages are filled again, all memory and the guard after each
allocation reads as before: no copy, and no mask as large as the memory.
"""

from collections.abc import Iterator

import torch

from kvzero.bench.pages import PageFamily, bytes_of_block, page_families
from kvzero.layout import Layout
from kvzero.memory import MIN_GUARD_BYTES, Pool, round_up

FILLED = 0xA5
PIECE_BYTES = 2**28
"""Most bytes of pages that are read at once: a copy of them is made."""
SCAN_WORDS = 2**28
"""Words that one reduction reads: 2 GiB."""


class BenchMemory:
    """Live memory of one layout.

    Attributes:
        pool: What subjects are built on.
        block_bytes: Bytes of the pages of one block, each once.
    """

    def __init__(self, layout: Layout, device: torch.device) -> None:
        """Ask for the memory and fill it."""
        self.block_bytes = bytes_of_block(layout)
        sizes = layout.allocation_sizes.tolist()
        guard = round_up(
            max(MIN_GUARD_BYTES, int(layout.table.stride_bytes.max())), MIN_GUARD_BYTES
        )
        self._raw = [
            torch.empty(round_up(size, 8) + guard, dtype=torch.uint8, device=device)
            for size in sizes
        ]
        tensors = tuple(raw[:size] for raw, size in zip(self._raw, sizes))
        self.pool = Pool(layout, tensors, device)
        self._families = page_families(layout)
        self.fill()

    @property
    def flat(self) -> torch.Tensor:
        """Return the largest contiguous piece."""
        return max(self.pool.tensors, key=torch.Tensor.numel)

    def fill(self) -> None:
        """Fill all memory."""
        for raw in self._raw:
            raw.fill_(FILLED)

    def fill_pages(self, block_ids: torch.Tensor) -> None:
        """Fill the pages of some blocks."""
        for family, pages in self._pages():
            pages.index_fill_(0, block_ids, filled_word(family.word_bytes))

    def faults(self, block_ids: torch.Tensor) -> str | None:
        """Return what a call left wrong, or None; memory is as before it then.

        Args:
            block_ids: What it had to zero: distinct ids, int64, on the device.
        """
        missed = self._missed_words(block_ids)
        self.fill_pages(block_ids)
        touched = not self._is_filled()
        if touched:
            self.fill()
        if missed:
            return f"listed pages are not zero: {missed:,} words of them hold old bytes"
        return "bytes of no listed page were changed" if touched else None

    def _pages(self) -> Iterator[tuple[PageFamily, torch.Tensor]]:
        num_blocks = self.pool.layout.num_blocks
        for family in self._families:
            yield family, family.view(self._raw[family.allocation], num_blocks)

    def _missed_words(self, block_ids: torch.Tensor) -> int:
        missed = torch.zeros((), dtype=torch.int64, device=block_ids.device)
        for family, pages in self._pages():
            at_once = max(1, PIECE_BYTES // (family.count * family.page_bytes))
            for ids in torch.split(block_ids, at_once):
                missed += torch.count_nonzero(pages.index_select(0, ids))
        return int(missed)

    def _is_filled(self) -> bool:
        word = filled_word(8)
        seen = [
            bound
            for raw in self._raw
            for piece in torch.split(raw.view(torch.int64), SCAN_WORDS)
            for bound in torch.aminmax(piece)
        ]
        return bool((torch.stack(seen) == word).all())


def filled_word(word_bytes: int) -> int:
    """Return a word of nothing but `FILLED`, as torch's integer of that width."""
    value = bytes([FILLED]) * word_bytes
    return int.from_bytes(value, "little", signed=word_bytes > 1)
