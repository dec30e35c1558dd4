"""Real memory with guards, its poison, and the exact comparison."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvzero.report.standalone.plain_case import (
    Array,
    Call,
    CaseLayout,
    PlainCase,
    Pool,
    columns_of,
)

PIECE_BYTES = 2**26
"""Bytes compared at once."""
SHOWN_STRETCHES = 4
LONGEST_LOOK = 2**16
"""Wrong bytes of a piece that are looked at one by one."""

Pages = tuple[Array, Array]
"""First and last address of each page, exclusive, in the arena."""


class Memory:
    """An arena with guards, filled with bytes that are never zero."""

    def __init__(self, case: PlainCase, device: torch.device) -> None:
        """Get the memory and make the zeroer's view of it."""
        self.case = case
        self.arena = _bytes(case.arena_bytes, device)
        self.table = columns_of(case.segments)
        self.padding = columns_of(case.padding)
        sizes = np.array(case.allocation_bytes, np.int64)
        self.offsets = np.array(case.allocation_offsets, np.int64)
        tensors = tuple(
            self.arena[offset : offset + size]
            for offset, size in zip(self.offsets.tolist(), sizes.tolist())
        )
        layout = CaseLayout(case.num_blocks, sizes, self.table)
        self.pool = Pool(layout, tensors, device, tuple(case.views))
        nothing = np.zeros(0, np.int64)
        self.zeroed = self.may_be_zero = (nothing, nothing)

    def fill(self) -> None:
        """Fill allocations and guards."""
        for allocation, at, end in self._pieces():
            self.arena[at:end] = self._poison(allocation, at, end)

    def listed(self, call: Call) -> Pages:
        """Return begin and end of each page that a call must zero, in the arena."""
        blocks = [i for i in call.ids if 0 <= i < self.case.num_blocks]
        ids = np.unique(np.array([] if call.must_be_refused else blocks, np.int64))
        begin = self.offsets[self.table.allocation] + self.table.offset_bytes
        starts = begin[:, None] + self.table.stride_bytes[:, None] * ids
        ends = starts + self.table.page_bytes[:, None]
        if self.case.padding:
            owned = self._owned(ids)
            self.may_be_zero = _joined(self.may_be_zero, owned)
        self.zeroed = _joined(self.zeroed, (starts.ravel(), ends.ravel()))
        return starts.ravel(), ends.ravel()

    def wrong(self, call: Call) -> tuple[int, list[str]]:
        """Return how many bytes are wrong after a call, and where the first are."""
        must, count, texts = self.listed(call), 0, list[str]()
        for allocation, at, end in self._pieces():
            wrong = self._wrong(allocation, at, end)
            found = int(wrong.sum())
            count += found
            if found and not texts:
                texts = list(self._stretches(allocation, at, wrong, must))
        return count, texts

    def _wrong(self, allocation: int, at: int, end: int) -> torch.Tensor:
        """Return which bytes of a piece are not what they should be."""
        seen = self.arena[at:end]
        expected = self._poison(allocation, at, end)
        expected[self._mask(self.zeroed, at, end)] = 0
        may_be_zero = self._mask(self.may_be_zero, at, end)
        return (seen != expected) & ~(may_be_zero & (seen == 0))

    def _stretches(
        self, allocation: int, at: int, wrong: torch.Tensor, must: Pages
    ) -> Iterator[str]:
        """Yield the first byte of each stretch of wrong bytes, at most a few."""
        position = wrong.nonzero().flatten()[:LONGEST_LOOK]
        must_be_zero = self._mask(must, at, at + len(wrong))
        is_listed = must_be_zero[position].to(torch.int8)
        is_first = torch.ones_like(position, dtype=torch.bool)
        is_first[1:] = (position.diff() != 1) | (is_listed.diff() != 0)
        for i in position[is_first][:SHOWN_STRETCHES].tolist():
            rule = "must be 0x00" if must_be_zero[i] else "must stay untouched"
            place = self._place(allocation, at + i - int(self.offsets[allocation]))
            yield f"{place} = 0x{int(self.arena[at + i]):02x}, but {rule}"

    def _owned(self, ids: Array) -> Pages:
        allocation, origin, stride, blocks = self.padding
        starts = origin[:, None] + stride[:, None] * ids
        ends = starts + stride[:, None]
        sizes = self.pool.layout.allocation_sizes[allocation][:, None]
        bases = self.offsets[allocation][:, None]
        owned = ids < blocks[:, None]
        ends = np.where(owned, np.minimum(ends, sizes), starts)
        return (bases + starts).ravel(), (bases + ends).ravel()

    def _pieces(self) -> Iterator[tuple[int, int, int]]:
        guard = self.case.guard_bytes
        for index, tensor in enumerate(self.pool.tensors):
            begin = int(self.offsets[index])
            stop = begin + tensor.numel() + guard
            for at in range(begin - guard, stop, PIECE_BYTES):
                yield index, at, min(at + PIECE_BYTES, stop)

    def _poison(self, allocation: int, at: int, end: int) -> torch.Tensor:
        """Return bytes from 1 to 255, unlike each other, with NaNs among them."""
        where = torch.arange(at, end, device=self.pool.device) + 7919 * allocation
        return ((where * 2654435761 >> 16) % 255 + 1).to(torch.uint8)

    def _mask(
        self,
        pages: Pages,
        at: int,
        end: int,
    ) -> torch.Tensor:
        """Return which bytes of a piece lie in some of the pages."""
        starts, ends = pages
        inside = (starts < end) & (ends > at) & (starts < ends)
        change = torch.zeros(end - at + 1, dtype=torch.int32, device=self.pool.device)
        for edges, sign in ((starts, 1), (ends, -1)):
            where = torch.from_numpy(np.clip(edges[inside], at, end) - at)
            where = where.to(self.pool.device)
            change.index_add_(0, where, torch.full_like(where, sign, dtype=torch.int32))
        return change.cumsum(0)[:-1] > 0

    def _place(self, allocation: int, byte: int) -> str:
        text = f"allocation {allocation}, byte {byte:,}"
        if not 0 <= byte < self.case.allocation_bytes[allocation]:
            return f"{text} (its guard)"
        block, inside = np.divmod(
            byte - self.table.offset_bytes, self.table.stride_bytes
        )
        holds = (self.table.allocation == allocation) & (inside < self.table.page_bytes)
        holds &= (block >= 0) & (block < self.case.num_blocks)
        if not holds.any():
            return f"{text} (in no page)"
        segment = int(np.argmax(holds))
        owner = f"block {block[segment]}, segment {segment}"
        return f"{text} ({owner}, byte {inside[segment]} of its page)"


def _joined(first: Any, second: Any) -> Any:
    return tuple(np.concatenate(pair) for pair in zip(first, second))


def _bytes(size: int, device: torch.device) -> torch.Tensor:
    if device.type == "cuda":
        return torch.empty(size, dtype=torch.uint8, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8)


def free_bytes(device: torch.device) -> int:
    """Return the memory that can be had on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    info = Path("/proc/meminfo")
    if not info.exists():
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    words = info.read_text().split()
    return 1024 * int(words[words.index("MemAvailable:") + 1])
