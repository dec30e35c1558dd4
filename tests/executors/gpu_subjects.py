# mypy: ignore-errors
"""Subjects that only a GPU shows to be wrong, beside the fault subjects."""

from typing import Any

import torch
import triton
import triton.language as tl

from kvzero.memory import Pool
from kvzero.subjects.faults.asynchronous import ONLY_QUEUES, Asynchronous
from kvzero.subjects.protocol import MadeSubject


class PageableIds(Asynchronous):
    """Waits until its ids have been copied from pageable memory."""

    def uploaded(self, block_ids: Any) -> torch.Tensor:  # Any: as for `zero`
        """Return ids of the host on the device."""
        return torch.as_tensor(block_ids, dtype=torch.int64).to(self.table.device)


class TableInFlight(Asynchronous):
    """Returns from its constructor before its table is there."""

    def __init__(self, pool: Pool) -> None:
        """Queue the upload of the table on the stream of whoever builds it."""
        with torch.cuda.stream(torch.cuda.Stream(pool.device)):
            super().__init__(pool)
            self.rows = self.table.cpu().pin_memory()
            # Until the copy no page has a byte, so that no store goes astray.
            self.table = torch.zeros(self.rows.shape, dtype=torch.int64).to(pool.device)
        self.table.copy_(self.rows, non_blocking=True)


@triton.jit
def set_flag(flag_ptr):
    """Set a flag, in the first program of a launch alone."""
    is_first = tl.program_id(0) + tl.program_id(1) + tl.program_id(2) == 0
    tl.store(flag_ptr, 1, mask=is_first)


@triton.jit
def store_at(address: tl.int64):
    """Store a zero at an address."""
    tl.store(address.to(tl.pointer_type(tl.int32)), 0)


@triton.jit
def spin_on(flag_ptr):
    """Wait for what never comes."""
    while tl.load(flag_ptr, volatile=True) == 0:
        pass


class Wild:
    """Stores at an address that belongs to nobody, or that no int32 may have."""

    def __init__(self, pool: Pool) -> None:
        """Remember the memory."""
        self.memory = pool.tensors[0]

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Launch the wild store."""
        if len(block_ids):
            store_at[(1,)](self.address())

    def address(self) -> int:
        """Return where it stores."""
        return 2**20


class Misaligned(Wild):
    """Stores an int32 at an odd address of the cache."""

    def address(self) -> int:
        """Return an odd address."""
        return self.memory.data_ptr() | 1


class Endless(Wild):
    """Launches a kernel that never ends."""

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Launch it."""
        if len(block_ids):
            spin_on[(1,)](torch.zeros(1, dtype=torch.int32, device=self.memory.device))


class Hungry(Wild):
    """Asks for more memory than any GPU has."""

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Ask for it."""
        del block_ids
        torch.empty(2**40, dtype=torch.uint8, device=self.memory.device)


PAGEABLE_IDS = MadeSubject("pageable-ids", ONLY_QUEUES, PageableIds)
TABLE_IN_FLIGHT = MadeSubject("table-in-flight", ONLY_QUEUES, TableInFlight)
ON_CURRENT_DEVICE = MadeSubject("on-current-device", ONLY_QUEUES, Asynchronous)
"""It sets no device, and Triton launches on torch's current one."""
ILLEGAL = MadeSubject("illegal", ONLY_QUEUES, Wild)
MISALIGNED = MadeSubject("misaligned", ONLY_QUEUES, Misaligned)
ENDLESS = MadeSubject("endless", ONLY_QUEUES, Endless)
HUNGRY = MadeSubject("hungry", ONLY_QUEUES, Hungry)


@triton.jit
def sum_to_nowhere(ids_ptr, memory_ptr, WIDTH: tl.constexpr):
    """Load ids, and store nothing unless their sum is impossible."""
    ids = tl.load(ids_ptr + tl.arange(0, WIDTH))
    tl.store(memory_ptr, 0, mask=tl.sum(ids) == -(2**62))


class ReadsPastItsIds(Wild):
    """Loads more ids than there are."""

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Load a whole vector of ids, however few there are."""
        if len(block_ids):
            ids = self.ids(torch.as_tensor(block_ids).to(torch.int64))
            sum_to_nowhere[(1,)](ids, self.memory, 64)

    def ids(self, given: torch.Tensor) -> torch.Tensor:
        """Return the ids on the device."""
        return given.to(self.memory.device)


class ReadsWhatNobodyWrote(ReadsPastItsIds):
    """Loads ids from memory that nobody has written."""

    def ids(self, given: torch.Tensor) -> torch.Tensor:
        """Return memory for as many ids as are loaded."""
        del given
        # The end of so much memory has not been anybody's before.
        fresh = torch.empty(2**24, dtype=torch.int64, device=self.memory.device)
        return fresh[-64:]


READS_PAST_ITS_IDS = MadeSubject("reads-past-its-ids", ONLY_QUEUES, ReadsPastItsIds)
READS_WHAT_NOBODY_WROTE = MadeSubject(
    "reads-what-nobody-wrote", ONLY_QUEUES, ReadsWhatNobodyWrote
)
