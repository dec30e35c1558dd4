"""Address space for memory of any size: mapped, never filled.

One anonymous mapping for the whole process, at a fixed address, so that a case's
addresses are the same in every process. The kernel of the operating system commits
nothing until a page is written, and kvzero never writes one.
"""

import ctypes
import mmap
from functools import cache
from pathlib import Path

import torch

from kvzero.errors import EnvironmentMissingError
from kvzero.layout import Int64Array

ARENA_ADDRESS = 0x1000_0000_0000
"""16 TiB: below what Linux gives to libraries and stacks, above what programs use."""
ARENA_SIZES = tuple(2**bits for bits in (45, 43, 41, 39, 37, 35))
"""32 TiB where the machine lets us, else less."""

_MAP_NORESERVE = 0x4000
_MAP_FIXED_NOREPLACE = 0x100000
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")


@cache
def arena() -> range:
    """Return the addresses of this process's arena; the first call maps it.

    Raises:
        EnvironmentMissingError: The operating system refuses.
    """
    for size in ARENA_SIZES:
        if _map(size):
            return range(ARENA_ADDRESS, ARENA_ADDRESS + size)
    mode = _OVERCOMMIT.read_text().strip() if _OVERCOMMIT.exists() else "unknown"
    raise EnvironmentMissingError(
        f"overcommit_memory={mode}, but must be 0 or 1: the footprint executor maps "
        f"{ARENA_SIZES[-1] // 2**30} GiB of addresses or more without memory behind "
        f"them (`ulimit -v` must not stand in the way either)"
    )


def _map(size: int) -> bool:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    flags |= _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    mapped = library.mmap(ARENA_ADDRESS, size, protection, flags, -1, 0)
    if mapped == ARENA_ADDRESS:
        return True
    if mapped not in (None, ctypes.c_void_p(-1).value):
        # A kernel that does not know the flag maps elsewhere.
        library.munmap(ctypes.c_void_p(mapped), ctypes.c_size_t(size))
    return False


def arena_tensors(addresses: Int64Array, sizes: Int64Array) -> tuple[torch.Tensor, ...]:
    """Return one uint8 tensor for each stretch of the arena, with a storage of its own.

    Args:
        addresses: First address of each, inside the arena.
        sizes: Bytes of each.
    """
    tensors = []
    for address, size in zip(addresses.tolist(), sizes.tolist()):
        raw = (ctypes.c_uint8 * size).from_address(address)
        tensors.append(torch.frombuffer(raw, dtype=torch.uint8))
    return tuple(tensors)
