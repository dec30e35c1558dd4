"""Subjects written in torch alone, for tests of executors on CPU memory."""

from collections.abc import Iterator
from typing import Any

import torch

from kvzero.memory import Pool
from kvzero.subjects.protocol import Contract, MadeSubject

TORCH_ONLY = Contract(uses_triton=False)


class Plain:
    """A correct zeroer that indexes each page; `spoil` makes it wrong on purpose."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def zero(self, block_ids: Any) -> None:
        num_blocks = self.pool.layout.num_blocks
        if getattr(block_ids, "dtype", None) in (torch.bool, torch.float32):
            raise TypeError("block ids must be ints")
        for block in block_ids:
            if not 0 <= int(block) < num_blocks:
                raise ValueError(f"block id {int(block)} out of range")
        for block in block_ids:
            self.zero_block(int(block))

    def pages(self, block: int) -> Iterator[tuple[torch.Tensor, int, int]]:
        """Yield each page of a block: its tensor, where it begins and where it ends."""
        table = self.pool.layout.table
        for index in range(len(table)):
            segment = table.segment(index)
            first = segment.offset_bytes + block * segment.stride_bytes
            tensor = self.pool.tensors[segment.allocation]
            yield tensor, first, first + segment.page_bytes

    def zero_block(self, block: int) -> None:
        for tensor, first, end in self.pages(block):
            tensor[first:end] = 0


class LongPages(Plain):
    """Zeroes one byte more than each page."""

    def zero_block(self, block: int) -> None:
        super().zero_block(block)
        for tensor, _, end in self.pages(block):
            beyond = tensor.as_strided((1,), (1,), tensor.storage_offset() + end)
            beyond.fill_(0)


class ShortPages(Plain):
    """Leaves the last byte of each page."""

    def zero_block(self, block: int) -> None:
        for tensor, first, end in self.pages(block):
            tensor[first : end - 1] = 0


class Multiplies(Plain):
    """Zeroes by `x * 0`, in bfloat16."""

    def zero_block(self, block: int) -> None:
        for tensor, first, end in self.pages(block):
            product = tensor[first:end].clone().view(torch.bfloat16) * 0
            tensor[first:end] = product.view(torch.uint8)


class RefusesAll(Plain):
    """Raises on every call."""

    def zero(self, block_ids: Any) -> None:
        del block_ids
        raise NotImplementedError("not today")


def refuse_to_build(pool: Pool) -> Plain:
    del pool
    raise ValueError("odd layout")


PLAIN = MadeSubject("cpu_subjects:PLAIN", TORCH_ONLY, Plain)
LONG_PAGES = MadeSubject("cpu_subjects:LONG_PAGES", TORCH_ONLY, LongPages)
SHORT_PAGES = MadeSubject("cpu_subjects:SHORT_PAGES", TORCH_ONLY, ShortPages)
MULTIPLIES = MadeSubject("cpu_subjects:MULTIPLIES", TORCH_ONLY, Multiplies)
REFUSES_ALL = MadeSubject("cpu_subjects:REFUSES_ALL", TORCH_ONLY, RefusesAll)
REFUSES_TO_BUILD = MadeSubject(
    "cpu_subjects:REFUSES_TO_BUILD", TORCH_ONLY, refuse_to_build
)
