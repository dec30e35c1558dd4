"""A subject that harms its process at random: which cases do, follows from the case.

The sum of its blocks, its segments and a page decides, so each harm replays, and a case
shrinks as far as the sum stays the same.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Any

from kvzero.memory import Pool
from kvzero.subjects.ours import KVZERO
from kvzero.subjects.protocol import MadeSubject

KEPT: list[bytearray] = []
LEAK_BYTES = 2**25


def segfault(_pool: Pool) -> None:
    ctypes.string_at(0)


def abort(_pool: Pool) -> None:
    os.abort()


def hang(_pool: Pool) -> None:
    while True:
        pass


def leak(_pool: Pool) -> None:
    KEPT.append(bytearray(b"x") * LEAK_BYTES)


def clobber(pool: Pool) -> None:
    """Write into the last byte of the memory, whoever owns it."""
    pool.tensors[0][-1:].fill_(0xEE)


def spoil(_pool: Pool) -> None:
    """Overwrite an object that the interpreter is about to use, header and all."""
    ctypes.memset(id(KEPT), 0x5A, 64)
    KEPT.append(bytearray(1))


def leave(_pool: Pool) -> None:
    os._exit(3)


HARMS: tuple[Callable[[Pool], None], ...] = (
    segfault,
    abort,
    hang,
    leak,
    clobber,
    spoil,
    leave,
)
FIRST, PERIOD = 8, 97
"""Sums of 8, 9 and so on do harm, and again after 97: most cases must pass for others
to be met."""


class Wild:
    """A right zeroer that does harm on some cases."""

    def __init__(self, pool: Pool, harms: tuple[Callable[[Pool], None], ...]) -> None:
        self._inner = KVZERO.build(pool)
        self._pool = pool
        layout = pool.layout
        page = int(layout.table.page_bytes[0]) if len(layout.table) else 0
        chosen = (layout.num_blocks + len(layout.table) + page) % PERIOD - FIRST
        self._harm = harms[chosen] if 0 <= chosen < len(harms) else None

    def zero(self, block_ids: Any) -> None:
        self._inner.zero(block_ids)
        if self._harm is not None:
            self._harm(self._pool)


def wild(name: str, *harms: Callable[[Pool], None]) -> MadeSubject:
    return MadeSubject(
        f"wild_campaign:{name}", KVZERO.contract, lambda pool: Wild(pool, harms)
    )


def stuck(pool: Pool) -> Wild:
    hang(pool)
    raise AssertionError("it came back")


WILD = wild("WILD", *HARMS)
FATAL = wild("FATAL", segfault, abort)
OFTEN = MadeSubject(
    "wild_campaign:OFTEN",
    KVZERO.contract,
    lambda pool: Wild(pool, (segfault, segfault, abort, abort) * 4),
)
"""Dies of one case in six, about: a short run meets both deaths."""
STUCK = MadeSubject("wild_campaign:STUCK", KVZERO.contract, stuck)
"""Never comes back, from its first case on."""
