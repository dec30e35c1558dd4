"""What a call did to real memory, against the oracle.

Each piece is compared with what it held before the call. That is kept as a copy where a
case is small or a call went wrong, and else computed again: poison, and zero where
calls before had to zero. Nothing as large as the case is ever made, and the host waits
for the device once a call.
"""

from dataclasses import dataclass

import torch

from kvzero.executors.arena import Memory, piece_mask
from kvzero.observation import MAX_SPANS, ByteSpan, WrongBytes
from kvzero.oracle import Intervals, no_bytes, union

KEPT_PIECES = 8
"""Wrong pieces of a large case that are kept as copies; beyond, judging ends."""
SEEN_BYTES = 16


@dataclass(frozen=True, slots=True)
class Difference:
    """What one call did: the bytes it changed and the two classes of wrong ones.

    Attributes:
        changed: Bytes that differ from before the call.
        missed: Bytes that must be zero and are not.
        touched: Bytes that had to stay as they were and did not.
    """

    changed: int
    missed: WrongBytes
    touched: WrongBytes


@dataclass(frozen=True, slots=True)
class _Masks:
    """Wrong bytes of one piece."""

    changed: torch.Tensor
    missed: torch.Tensor | None
    touched: torch.Tensor

    def counts(self) -> torch.Tensor:
        """Return how many there are, on their device."""
        masks = (self.changed, self.missed, self.touched)
        zero = torch.zeros((), dtype=torch.int64, device=self.changed.device)
        return torch.stack([zero if m is None else m.count_nonzero() for m in masks])


class Comparison:
    """The content that a case's memory should have, call after call."""

    def __init__(self, memory: Memory) -> None:
        """Begin with freshly poisoned memory."""
        self.memory = memory
        self.lost = False
        self._zeroed = no_bytes()
        self._unknown = no_bytes()
        self._copies: dict[int, torch.Tensor] = {}
        if len(memory.pieces) == 1:
            self._keep(0)

    def after_call(self, must: Intervals, may: Intervals) -> Difference:
        """Return what a call did, and take the memory as it is for the next one.

        Args:
            must: Positions that must be zero.
            may: Other positions that may be zero.
        """
        may = union(may, self._unknown)
        rows = self._counts(must, may)
        missed = self._wrong(rows, 1, must, may)
        touched = self._wrong(rows, 2, must, may)
        changed = sum(row[0] for row in rows)
        if changed:
            self._remember(rows, must, may)
        return Difference(changed, missed, touched)

    def _counts(self, must: Intervals, may: Intervals) -> list[list[int]]:
        """Return the counts of each piece."""
        pieces = range(len(self.memory.pieces))
        # One tensor for all: a small one a piece would lie between the masks, and the
        # heap could not use again, or give back, what they leave.
        counts = torch.empty(
            (len(pieces), 3), dtype=torch.int64, device=self.memory.content.device
        )
        for index in pieces:
            counts[index] = self._masks(index, must, may).counts()
        rows: list[list[int]] = counts.tolist()
        return rows

    def _masks(self, index: int, must: Intervals, may: Intervals) -> _Masks:
        begin, end = self.memory.pieces[index]
        after = self.memory.content[begin:end]
        listed = piece_mask(must, begin, end, after.device)
        allowed = piece_mask(may, begin, end, after.device)
        changed = after != self._before(index, after)
        missed = None if listed is None else listed & (after != 0)
        touched = changed
        for mask in (listed, allowed):
            if mask is not None:
                touched = touched & ~mask
        # Padding that may be zeroed may be zeroed only: any other value is foreign.
        if allowed is not None:
            touched = touched | (changed & allowed & (after != 0))
        return _Masks(changed, missed, touched)

    def _before(self, index: int, after: torch.Tensor) -> torch.Tensor:
        """Return what a piece held before the call."""
        if index in self._copies:
            return self._copies[index]
        begin, end = self.memory.pieces[index]
        before = torch.empty_like(after)
        self.memory.write_poison(before, begin)
        zeroed = piece_mask(self._zeroed, begin, end, before.device)
        if zeroed is not None:
            before.masked_fill_(zeroed, 0)
        unknown = piece_mask(self._unknown, begin, end, before.device)
        if unknown is not None:
            before.masked_fill_(unknown & (after == 0), 0)
        return before

    def _remember(self, rows: list[list[int]], must: Intervals, may: Intervals) -> None:
        if len(rows) == 1:
            self._keep(0)
            return
        self._zeroed = union(self._zeroed, must)
        # Padding that an earlier call was allowed to zero may be either from then on.
        self._unknown = may
        for index, (changed, missed, touched) in enumerate(rows):
            if missed or touched or (changed and index in self._copies):
                self._keep(index)
        self.lost = len(self._copies) > KEPT_PIECES

    def _keep(self, index: int) -> None:
        if len(self._copies) <= KEPT_PIECES:
            begin, end = self.memory.pieces[index]
            self._copies[index] = self.memory.content[begin:end].clone()

    def _wrong(
        self, rows: list[list[int]], column: int, must: Intervals, may: Intervals
    ) -> WrongBytes:
        """Return the wrong bytes of one class, the first stretches with their place."""
        count = sum(row[column] for row in rows)
        found: list[tuple[int, int]] = []
        for index, row in enumerate(rows):
            if len(found) > MAX_SPANS:
                break
            if row[column]:
                masks = self._masks(index, must, may)
                mask = masks.missed if column == 1 else masks.touched
                if mask is not None:
                    _extend(found, _stretches(mask), self.memory.pieces[index][0])
        spans = tuple(self._span(*stretch) for stretch in found[:MAX_SPANS])
        return WrongBytes(count, spans)

    def _span(self, begin: int, end: int) -> ByteSpan:
        seen = self.memory.content[begin : min(end, begin + SEEN_BYTES)]
        allocation, offset = self.memory.owner(begin)
        return ByteSpan(allocation, offset, end - begin, bytes(seen.tolist()))


def _stretches(mask: torch.Tensor) -> list[tuple[int, int]]:
    """Return the first stretches of set bytes, one more than are kept."""
    edges = torch.zeros(mask.numel() + 2, dtype=torch.int8, device=mask.device)
    edges[1:-1] = mask
    change = edges.diff()
    begins = (change == 1).nonzero().flatten()[: MAX_SPANS + 1]
    ends = (change == -1).nonzero().flatten()[: MAX_SPANS + 1]
    return list(zip(begins.tolist(), ends.tolist()))


def _extend(
    found: list[tuple[int, int]], more: list[tuple[int, int]], shift: int
) -> None:
    """Add the stretches of a piece; one that straddles a border stays one."""
    for begin, end in more:
        if found and found[-1][1] == begin + shift:
            found[-1] = (found[-1][0], end + shift)
        else:
            found.append((begin + shift, end + shift))
