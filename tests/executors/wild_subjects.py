"""Subjects that harm their process, importable by name in worker processes.

Each does its harm from the second block on, so that a case shrinks to two blocks, and
zeroes correctly before and besides.
"""

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kvzero.memory import Pool
from kvzero.subjects.masked_3d import MASKED_3D
from kvzero.subjects.protocol import MadeSubject

KEPT: list[bytearray] = []
LEAK_BYTES = 2**25
PART_BYTES = 2**24


def do_no_harm() -> None:
    pass


def segfault() -> None:
    ctypes.string_at(0)


def abort() -> None:
    os.abort()


def leave() -> None:
    os._exit(0)


def leave_once() -> None:
    """Leave where the environment names a file that is not there yet."""
    mark = Path(os.environ["KVZERO_TEST_ONCE"])
    if not mark.exists():
        mark.touch()
        os._exit(0)


def loop() -> None:
    while True:
        pass


def loop_in_c() -> None:
    """Match for ever, holding the GIL: no signal handler of Python's ever runs."""
    re.match(r"(a|aa)+$", "a" * 200 + "b")


def exhaust() -> None:
    while True:
        KEPT.append(bytearray(b"x") * PART_BYTES)


def leak() -> None:
    KEPT.append(bytearray(b"x") * LEAK_BYTES)


def clobber() -> None:
    """Overwrite an object that the interpreter is about to use, header and all."""
    ctypes.memset(id(KEPT), 0x5A, 64)
    KEPT.append(bytearray(1))


def exhaust_torch() -> None:
    torch.empty(2**62, dtype=torch.uint8)


def raise_system_exit() -> None:
    raise SystemExit(3)


def raise_interrupt() -> None:
    raise KeyboardInterrupt


def close_everything() -> None:
    os.closerange(3, 1000)


class Wild:
    """A right zeroer that does harm once it is given a block beyond the first."""

    def __init__(self, pool: Pool, harm: Callable[[], None]) -> None:
        self._inner = MASKED_3D.build(pool)
        self._harm = harm

    def zero(self, block_ids: Any) -> None:
        self._inner.zero(block_ids)
        if any(int(block) > 0 for block in block_ids):
            self._harm()


def wild(harm: Callable[[], None]) -> MadeSubject:
    name = f"wild_subjects:{harm.__name__.upper()}"
    return MadeSubject(name, MASKED_3D.contract, lambda pool: Wild(pool, harm))


TAME = wild(do_no_harm)
SEGFAULT = wild(segfault)
ABORT = wild(abort)
LEAVE = wild(leave)
LEAVE_ONCE = wild(leave_once)
LOOP = wild(loop)
LOOP_IN_C = wild(loop_in_c)
EXHAUST = wild(exhaust)
EXHAUST_TORCH = wild(exhaust_torch)
LEAK = wild(leak)
CLOBBER = wild(clobber)
RAISE_SYSTEM_EXIT = wild(raise_system_exit)
RAISE_INTERRUPT = wild(raise_interrupt)
CLOSE_EVERYTHING = wild(close_everything)
