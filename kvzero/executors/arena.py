"""Real memory for one case at a time: an arena with poison around and in it.

An arena is one buffer that is kept between cases. `Memory` is its part that one case
uses: allocations and guards as `kvzero.memory.place` lays them out, each byte poisoned
as the guard or the inside of exactly one allocation. It is worked on in pieces, so that
no temporary is ever as large as a big case. All positions count from its begin.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from kvzero.case import Case
from kvzero.layout import Int64Array
from kvzero.memory import ALIGNMENT_BYTES, Addresses, Pool, place
from kvzero.oracle import Intervals, within
from kvzero.poison import fill_poison, poison_bytes, poison_key

FEW_STRETCHES = 4
"""Stretches of a piece that are filled one by one; more are filled byte by byte."""
SCATTERED_BYTES = 2**22
"""Bytes filled at once where stretches are many: their working memory is large."""


class Arena:
    """A buffer on one device, reused by one case after another."""

    def __init__(
        self, device: torch.device, *, most_gap_bytes: int, piece_bytes: int
    ) -> None:
        """Make an arena without memory.

        Args:
            device: Where it lies.
            most_gap_bytes: Most bytes of all gaps between allocations.
            piece_bytes: Bytes worked on at once.
        """
        self.device = device
        self.most_gap_bytes = most_gap_bytes
        self.piece_bytes = piece_bytes
        self._buffer = torch.empty(0, dtype=torch.uint8, device=device)

    @property
    def capacity_bytes(self) -> int:
        """Return the bytes that it holds already."""
        return self._buffer.numel()

    def needed_bytes(self, case: Case) -> int:
        """Return the bytes that a case takes here."""
        return self._addresses(case).total_bytes + ALIGNMENT_BYTES

    def lay_out(self, case: Case) -> "Memory":
        """Return poisoned memory for a case; that of the case before is gone."""
        addresses = self._addresses(case)
        needed = addresses.total_bytes + ALIGNMENT_BYTES
        if needed > self.capacity_bytes:
            # Free first: both at once may not fit.
            self._buffer = torch.empty(0, dtype=torch.uint8, device=self.device)
            self._buffer = torch.empty(needed, dtype=torch.uint8, device=self.device)
        shift = -self._buffer.data_ptr() % ALIGNMENT_BYTES
        content = self._buffer[shift : shift + addresses.total_bytes]
        memory = Memory(case, addresses, content, self.piece_bytes)
        memory.poison()
        return memory

    def release(self) -> None:
        """Give the memory back."""
        self._buffer = torch.empty(0, dtype=torch.uint8, device=self.device)

    def _addresses(self, case: Case) -> Addresses:
        return place(case, most_gap_bytes=self.most_gap_bytes)


@dataclass(frozen=True)
class Stretch:
    """Bytes from `begin` to `end` that are poisoned as one allocation's."""

    begin: int
    end: int
    allocation: int
    base: int


@dataclass(frozen=True)
class Memory:
    """The memory of one case.

    Attributes:
        case: The case.
        addresses: Where each allocation lies in it.
        content: All of it, uint8.
        piece_bytes: Bytes worked on at once.
    """

    case: Case
    addresses: Addresses
    content: torch.Tensor
    piece_bytes: int

    @cached_property
    def pieces(self) -> list[tuple[int, int]]:
        """Return where each piece begins and ends."""
        total, step = self.addresses.total_bytes, self.piece_bytes
        return [(at, min(at + step, total)) for at in range(0, total, step)]

    def pool(self) -> Pool:
        """Return the allocations as tensors, for a subject."""
        layout = self.case.layout
        ends = self.addresses.base_bytes + layout.allocation_sizes
        spans = zip(self.addresses.base_bytes.tolist(), ends.tolist())
        tensors = tuple(self.content[begin:end] for begin, end in spans)
        return Pool(layout, tensors, self.content.device)

    def poison(self) -> None:
        """Poison all of it."""
        for begin, end in self.pieces:
            self.write_poison(self.content[begin:end], begin)

    def write_poison(self, out: torch.Tensor, begin: int) -> None:
        """Write what lies at `begin` before the first call into any uint8 tensor."""
        end = begin + out.numel()
        first, last = self._stretches_of(begin, end)
        if last - first > FEW_STRETCHES:
            self._write_scattered(out, begin)
            return
        for part in self._clipped(first, last, begin, end):
            fill_poison(
                out[part.begin - begin : part.end - begin],
                self.case.seed,
                part.allocation,
                part.begin - part.base,
            )

    def owner(self, position: int) -> tuple[int | None, int]:
        """Return the allocation that a position belongs to, and the offset from it."""
        if not len(self._order):
            return None, position
        first, _ = self._stretches_of(position, position + 1)
        allocation = int(self._order[first])
        return allocation, position - int(self.addresses.base_bytes[allocation])

    @cached_property
    def _order(self) -> Int64Array:
        return np.argsort(self.addresses.base_bytes, kind="stable")

    @cached_property
    def _begins(self) -> Int64Array:
        """Return where each stretch begins: a guard before the allocation's slot."""
        begins = self.addresses.base_bytes[self._order] - self.addresses.guard_bytes
        begins[:1] = 0
        return begins

    def _stretches_of(self, begin: int, end: int) -> tuple[int, int]:
        first = int(np.searchsorted(self._begins, begin, side="right")) - 1
        return max(first, 0), int(np.searchsorted(self._begins, end, side="left"))

    def _clipped(
        self, first: int, last: int, begin: int, end: int
    ) -> Iterator[Stretch]:
        for index in range(first, last):
            allocation = int(self._order[index])
            follows = index + 1 < len(self._begins)
            stop = int(self._begins[index + 1]) if follows else end
            yield Stretch(
                max(int(self._begins[index]), begin),
                min(stop, end),
                allocation,
                int(self.addresses.base_bytes[allocation]),
            )

    def _write_scattered(self, out: torch.Tensor, begin: int) -> None:
        for at in range(0, out.numel(), SCATTERED_BYTES):
            part = out[at : at + SCATTERED_BYTES]
            start, end = begin + at, begin + at + part.numel()
            stretches = list(self._clipped(*self._stretches_of(start, end), start, end))
            lengths = torch.tensor([s.end - s.begin for s in stretches])
            bases = torch.tensor([s.base for s in stretches])
            keys = torch.tensor(
                [poison_key(self.case.seed, s.allocation) for s in stretches]
            )
            part.copy_(_scattered_poison(lengths, bases, keys, start, out.device))


def _scattered_poison(
    lengths: torch.Tensor,
    bases: torch.Tensor,
    keys: torch.Tensor,
    start: int,
    device: torch.device,
) -> torch.Tensor:
    """Return the poison of stretches in a row, one base and one key a stretch."""
    size = int(lengths.sum())
    lengths, bases, keys = (x.to(device) for x in (lengths, bases, keys))
    bases, keys = (
        torch.repeat_interleave(x, lengths, output_size=size) for x in (bases, keys)
    )
    offsets = torch.arange(start, start + size, device=device) - bases
    if device.type == "cpu":
        # NumPy chooses the planted dwords first, which is faster on a CPU.
        return torch.from_numpy(poison_bytes(offsets.numpy(), keys.numpy()))
    values: torch.Tensor = poison_bytes(offsets, keys)
    return values


def piece_mask(
    intervals: Intervals, begin: int, end: int, device: torch.device
) -> torch.Tensor | None:
    """Return which bytes of a piece are in a set, None for none of them.

    Args:
        intervals: The set, on the CPU: no step then waits for a device.
        begin: Where the piece begins.
        end: Where it ends.
        device: Where the mask is wanted.
    """
    inside = within(intervals, begin, end)
    if not len(inside):
        return None
    edges = torch.stack([inside.starts, inside.ends]).sub_(begin).to(device)
    change = torch.zeros(end - begin + 1, dtype=torch.int8, device=device)
    change.index_fill_(0, edges[0], 1).index_fill_(0, edges[1], -1)
    return change.cumsum(0, dtype=torch.int8)[:-1].view(torch.bool)
