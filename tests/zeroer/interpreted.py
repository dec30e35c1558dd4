"""Zeroes random layouts under Triton's interpreter, in a process of its own.

The interpreter is chosen when a kernel is defined, so `test_kernels` runs this file
with ``TRITON_INTERPRET=1``. It needs no compiler and no GPU.
"""

import random
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.triton_internals.interpreter import mend_interpreter
from kvzero.zeroer import KVBlockZeroer, chunks, plan
from kvzero.zeroer.chunks import CHUNK_BYTES, LINE_BYTES, MORE_BYTES, ROW_FIELDS
from kvzero.zeroer.kernels import zero_chunks

GUARD_BYTES = 80
PAGES = [1, 3, 15, 16, 17, 31, 100, 1168, 3841, 4095, 4096, 4097, 4112, 5888, 5889]
PAGES += [6143, 6144, 6145, 8200]


class Cache:
    """Poisoned memory with a few segments whose pages lie side by side in a block."""

    def __init__(self, draw: random.Random) -> None:
        self.num_blocks = draw.randint(1, 4)
        self.pages = [draw.choice(PAGES) for _ in range(draw.randint(1, 4))]
        if draw.random() < 0.2:
            self.pages.append(draw.randint(5, 30) * 4096 + draw.randint(-1, 1))
        self.offsets = []
        at = draw.randint(0, 20)
        for page in self.pages:
            self.offsets.append(at)
            at += page + draw.choice([0, 0, 1, 5, 16])
        self.stride = at + draw.choice([0, 1, 16, 31])
        if draw.random() < 0.5:
            self.stride += -self.stride % 16
        size = 2 * GUARD_BYTES + self.stride * self.num_blocks
        self.memory = torch.from_numpy(
            np.random.default_rng(draw.randint(0, 2**32)).integers(
                1, 256, size, dtype=np.uint8
            )
        )
        self.first = GUARD_BYTES

    def zeroer(self) -> KVBlockZeroer:
        base = self.memory.data_ptr() + self.first
        return KVBlockZeroer.from_segments(
            [base + offset for offset in self.offsets],
            [self.stride] * len(self.pages),
            self.pages,
            self.num_blocks,
            "cpu",
        )

    def after(self, block_ids: list[int]) -> NDArray[np.uint8]:
        """Return what the memory must hold once the blocks are zeroed."""
        expected = self.memory.numpy().copy()
        for block_id in block_ids:
            for offset, page in zip(self.offsets, self.pages):
                at = self.first + offset + block_id * self.stride
                expected[at : at + page] = 0
        return expected


def check(draw: random.Random) -> None:
    """Zero one random cache in one random way."""
    cache = Cache(draw)
    block_ids = [draw.randrange(cache.num_blocks) for _ in range(draw.randint(0, 5))]
    before, expected = cache.memory.clone(), cache.after(block_ids)
    most, rows = draw.choice([(2**24, 2**20), (5, 2**20), (2**24, 2), (64, 3)])
    most_y = draw.choice([2, 3, 2**16 - 1])
    fewest = draw.choice([1, 768])
    with (
        mock.patch.object(plan, "MOST_X", most),
        mock.patch.object(plan, "MOST_Y", most_y),
        mock.patch.object(plan, "MOST_PROGRAMS", max(most, 40)),
        mock.patch.object(plan, "FEWEST_PROGRAMS", fewest),
        mock.patch.object(chunks, "MAX_ROWS", rows),
        mock.patch.object(chunks, "ROW_WIDTHS", (1, 4, 16)),
    ):
        plan.plan_launches.cache_clear()
        zeroer = cache.zeroer()
        zeroer.warmup()
        assert torch.equal(cache.memory, before), "warmup() writes nothing"
        zeroer.zero(
            draw.choice([block_ids, np.array(block_ids), torch.tensor(block_ids)])
        )
    wrong = np.flatnonzero(cache.memory.numpy() != expected)
    assert not len(wrong), (vars(cache), block_ids, most, rows, wrong[:5])


def check_ids_outside_the_cache() -> None:
    """Launch with ids that no host could have checked: the kernel writes nothing."""
    cache = Cache(random.Random(1))
    before = cache.memory.clone()
    zeroer = cache.zeroer()
    far = [-1, cache.num_blocks, 2**62, -(2**63), 2**63 - 1]
    zeroer._launch(torch.tensor(far), len(far), 0)  # the way of device ids
    assert torch.equal(cache.memory, before)


def check_an_id_outside_a_cache_of_huge_pages() -> None:
    """Launch where the empty page lies 64 GiB before its window: still no store.

    The distance counts 2**32 vectors less the chunk's 256, which 32 bits would wrap.
    """
    memory = torch.full((8192,), 0xA5, dtype=torch.uint8)
    lines = CHUNK_BYTES // LINE_BYTES
    row = torch.tensor([memory.data_ptr(), 2**46, 2**45, 2**36 - CHUNK_BYTES + lines])
    ids = torch.tensor([-1])
    constants = CHUNK_BYTES, MORE_BYTES, LINE_BYTES, ROW_FIELDS
    for several in (False, True):
        zero_chunks[1, 1, 1](row, ids, 1, 1, 1, 1, 1, several, *constants)
    assert (memory == 0xA5).all()


if __name__ == "__main__":
    mend_interpreter()
    for seed in range(50):
        check(random.Random(seed))
    check_ids_outside_the_cache()
    check_an_id_outside_a_cache_of_huge_pages()
