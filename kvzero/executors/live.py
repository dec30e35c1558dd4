"""A function on live memory: storages of KV tensors, poisoned while it runs.

Unlike an arena, the memory is somebody's: a copy is kept and put back. Each storage is
one allocation of the case and is compared on its own, so that nothing as large as all
of them is ever made.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kvzero.case import Case
from kvzero.errors import LayoutError
from kvzero.executors.arena import Memory, piece_mask
from kvzero.executors.comparing import Comparison, Difference
from kvzero.memory import Addresses
from kvzero.observation import MAX_SPANS, WrongBytes
from kvzero.oracle import Intervals, may_be_zero, must_be_zero, within
from kvzero.poison import PIECE_BYTES, fill_poison

BlockIds = Any  # whatever the function takes: a list, an array, a tensor


class LiveTrial:
    """Live storages that a function is run on.

    Attributes:
        case: Their layout and one call.
        device: Where they lie.
        storages: One for each allocation.
    """

    def __init__(self, case: Case, storages: Sequence[torch.Tensor]) -> None:
        """Take storages, uint8, in the order of the layout's allocations."""
        self.case = case
        self.device = storages[0].device if storages else torch.device("cpu")
        bases = np.array([storage.data_ptr() for storage in storages], np.int64)
        must, may = must_be_zero(case, 0, bases), may_be_zero(case, 0, bases)
        self.storages = [
            LiveStorage(
                case,
                Addresses(np.zeros(1, np.int64), 0, storage.numel()),
                storage,
                PIECE_BYTES,
                allocation,
                _inside(must, storage),
                _inside(may, storage),
            )
            for allocation, storage in enumerate(storages)
        ]

    def run(
        self, zero_fn: Callable[[BlockIds], object], ids: BlockIds, *, restore: bool
    ) -> Difference:
        """Return what a function does to the poisoned storages.

        Args:
            zero_fn: Called once.
            ids: What it is called with.
            restore: Keep a copy and put it back, with the listed pages zeroed if the
                function did well.
        """
        self._wait()
        copies = [_copy(s.content) for s in self.storages] if restore else []
        try:
            for storage in self.storages:
                storage.poison()
            self._wait()
            comparisons = [Comparison(storage) for storage in self.storages]
            zero_fn(ids)
            self._wait()
            seen = _together(
                comparison.after_call(storage.must, storage.may)
                for comparison, storage in zip(comparisons, self.storages)
            )
        except BaseException:  # raised again, once the memory is as it was
            # On a dead device there is nothing to put back, and its error says more.
            with suppress(RuntimeError):
                self._put_back(copies, zeroed=False)
            raise
        self._put_back(copies, zeroed=not (seen.missed.count or seen.touched.count))
        return seen

    def byte_counts(self) -> tuple[int, int]:
        """Return how many bytes must be zero, and how many must stay untouched."""
        zero = sum(storage.must.total_bytes for storage in self.storages)
        allowed = sum(storage.may.total_bytes for storage in self.storages)
        total = sum(storage.content.numel() for storage in self.storages)
        return zero, total - zero - allowed

    def _wait(self) -> None:
        """Wait until the device has done all work, on whichever stream."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _put_back(self, copies: Sequence[torch.Tensor], *, zeroed: bool) -> None:
        for storage, before in zip(self.storages, copies):
            storage.content.copy_(before)
            if zeroed:
                storage.zero_listed()


@dataclass(frozen=True)
class LiveStorage(Memory):
    """A live storage, poisoned as the one allocation that it is.

    Attributes:
        allocation: Its index in the layout.
        must: Its bytes that must be zero after the call.
        may: Its other bytes that may be zero.
    """

    allocation: int
    must: Intervals
    may: Intervals

    def write_poison(self, out: torch.Tensor, begin: int) -> None:
        """Write what lies at `begin` before the call into any uint8 tensor."""
        fill_poison(out, self.case.seed, self.allocation, begin)

    def owner(self, position: int) -> tuple[int | None, int]:
        """Return the allocation that a position belongs to, and the offset from it."""
        return self.allocation, position

    def zero_listed(self) -> None:
        """Zero what must be zero."""
        for begin, end in self.pieces:
            mask = piece_mask(self.must, begin, end, self.content.device)
            if mask is not None:
                self.content[begin:end].masked_fill_(mask, 0)


def live_storages(named: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the bytes of each storage, in the order of the layout's allocations."""
    devices: dict[torch.device, str] = {}
    for name, tensor in named.items():
        devices.setdefault(tensor.device, name)
    if len(devices) > 1:
        (here, one), (there, other), *_ = devices.items()
        raise LayoutError(
            f"{one} lies on {here} and {other} on {there}, but all must lie on one "
            f"device: check each device's tensors in a call of their own"
        )
    found: dict[int, torch.Tensor] = {}
    for tensor in named.values():
        storage = tensor.untyped_storage()
        raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        found.setdefault(
            storage.data_ptr(), raw.set_(storage, 0, (storage.nbytes(),), (1,))
        )
    return list(found.values())


def _copy(storage: torch.Tensor) -> torch.Tensor:
    try:
        return storage.clone()
    except torch.OutOfMemoryError:
        return storage.cpu()


def _inside(intervals: Intervals, storage: torch.Tensor) -> Intervals:
    """Return the part of a set of addresses in a storage, from the storage's begin."""
    begin = storage.data_ptr()
    return within(intervals, begin, begin + storage.numel()).moved(-begin)


def _together(parts: Iterable[Difference]) -> Difference:
    """Return the differences of all storages as one."""
    found = list(parts)
    missed, touched = (
        WrongBytes(
            sum(wrong.count for wrong in each),
            tuple(span for wrong in each for span in wrong.spans)[:MAX_SPANS],
        )
        for each in ([d.missed for d in found], [d.touched for d in found])
    )
    return Difference(sum(d.changed for d in found), missed, touched)
