# mypy: ignore-errors
"""A subject that faults its GPU at random: which cases do, follows from the case.

`kvzero fuzz --subject device_campaign:FAULTY --executor device` with ``tests/campaign``
on ``PYTHONPATH``. An illegal address and a misaligned one leave the context dead, a
kernel without end never returns, and a byte is clobbered; all other cases are zeroed.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from kvzero.memory import Pool
from kvzero.subjects.ours import KVZERO
from kvzero.subjects.protocol import MadeSubject

FIRST, PERIOD = 8, 97
"""Sums of 8, 9, 10 and 11 do harm, and again after 97."""
NOBODYS = 2**20
"""An address that belongs to nobody."""


@triton.jit
def store_at(address: tl.int64):
    """Store a zero at an address."""
    tl.store(address.to(tl.pointer_type(tl.int32)), 0)


@triton.jit
def spin_on(flag_ptr):
    """Wait for what never comes."""
    while tl.load(flag_ptr, volatile=True) == 0:
        pass


def illegal(_memory: torch.Tensor) -> None:
    """Store where nobody's memory is."""
    store_at[(1,)](NOBODYS)


def misaligned(memory: torch.Tensor) -> None:
    """Store an int32 at an odd address of the cache."""
    store_at[(1,)](memory.data_ptr() | 1)


def endless(memory: torch.Tensor) -> None:
    """Launch a kernel that never ends."""
    spin_on[(1,)](torch.zeros(1, dtype=torch.int32, device=memory.device))


def clobber(memory: torch.Tensor) -> None:
    """Overwrite the last byte of the first allocation."""
    memory[-1:].fill_(0xEE)


HARMS = (illegal, misaligned, endless, clobber)


class Faulty:
    """A right zeroer that faults the device on some cases."""

    def __init__(self, pool: Pool) -> None:
        """Choose the harm of the case, if it has one."""
        self._inner = KVZERO.build(pool)
        self._memory = pool.tensors[0]
        layout = pool.layout
        page = int(layout.table.page_bytes[0]) if len(layout.table) else 0
        chosen = (layout.num_blocks + len(layout.table) + page) % PERIOD - FIRST
        self._harm = HARMS[chosen] if 0 <= chosen < len(HARMS) else None

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Zero as asked, and do the harm."""
        self._inner.zero(block_ids)
        if self._harm is not None:
            self._harm(self._memory)


FAULTY = MadeSubject("device_campaign:FAULTY", KVZERO.contract, Faulty)
