# mypy: ignore-errors
# Triton reads the annotations of kernels, so they carry no types.
"""Small zeroers, each with one property that the executor must see."""

import torch
import triton
import triton.language as tl


@triton.jit
def zero_page(base, ids, page, stride, LANES: tl.constexpr):
    block = tl.load(ids + tl.program_id(0)).to(tl.int64)
    lanes = tl.arange(0, LANES)
    tl.store(base + block * stride + lanes, 0, mask=lanes < page)


class PageZeroer:
    """One launch over the blocks of the first segment; counts its calls."""

    def __init__(self, pool) -> None:
        segment = pool.layout.table.segment(0)
        self.base = pool.tensors[segment.allocation][segment.offset_bytes :]
        self.page, self.stride = segment.page_bytes, segment.stride_bytes

    def zero(self, block_ids) -> None:
        ids = torch.as_tensor(block_ids, dtype=torch.int64)
        if len(ids):
            lanes = triton.next_power_of_2(self.page)
            zero_page[(len(ids),)](self.base, ids, self.page, self.stride, lanes)


class TwiceZeroer(PageZeroer):
    """Zeroes each page twice."""

    def zero(self, block_ids) -> None:
        super().zero(block_ids)
        super().zero(block_ids)


@triton.jit
def zero_pages(base, ids, count, page, stride, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    item = tl.program_id(0)
    while item < count:
        block = tl.load(ids + item).to(tl.int64)
        tl.store(base + block * stride + lanes, 0, mask=lanes < page)
        item += tl.num_programs(0)


class LoopingZeroer(PageZeroer):
    """One launch of two programs, which share the blocks between them."""

    def zero(self, block_ids) -> None:
        ids = torch.as_tensor(block_ids, dtype=torch.int64)
        lanes = triton.next_power_of_2(self.page)
        zero_pages[(2,)](self.base, ids, len(ids), self.page, self.stride, lanes)


class EndlessZeroer(PageZeroer):
    """Its programs never get to the next block."""

    def zero(self, block_ids) -> None:
        ids = torch.as_tensor(block_ids, dtype=torch.int64)
        never_next[(1,)](self.base, ids, self.page)


@triton.jit
def never_next(base, ids, page):
    item = tl.program_id(0)
    while item < page:
        tl.store(base + tl.load(ids) + item, 0)


class EagerZeroer(PageZeroer):
    """Its warm-up zeroes block 1."""

    def warmup(self) -> None:
        self.zero([1])


@triton.jit
def zero_and_mark(base, ids, page, stride, LANES: tl.constexpr):
    block = tl.load(ids + tl.program_id(0)).to(tl.int64)
    lanes = tl.arange(0, LANES)
    page_ptr = base + block * stride
    tl.store(page_ptr + lanes, 0, mask=lanes < page)
    tl.store(page_ptr + page + 2, 1)


class MarkingZeroer(PageZeroer):
    """Stores a one behind each page."""

    def zero(self, block_ids) -> None:
        ids = torch.as_tensor(block_ids, dtype=torch.int64)
        lanes = triton.next_power_of_2(self.page)
        zero_and_mark[(len(ids),)](self.base, ids, self.page, self.stride, lanes)


class ShyZeroer(PageZeroer):
    """Raises on every call."""

    def zero(self, block_ids) -> None:
        raise ValueError(f"no {len(block_ids)} blocks today")


class TorchZeroer(PageZeroer):
    """Works with torch alone."""

    def zero(self, block_ids) -> None:
        for block in block_ids:
            self.base[block * self.stride :][: self.page].fill_(0)


class ScalingZeroer(PageZeroer):
    """Reads, with torch, the memory that it zeroes."""

    def zero(self, block_ids) -> None:
        for block in block_ids:
            self.base[block * self.stride :][: self.page].mul_(0)


class MixedZeroer(PageZeroer):
    """Marks each page with torch before its kernel zeroes it, and once behind it."""

    def zero(self, block_ids) -> None:
        for block in block_ids:
            self.base[block * self.stride :][: self.page].fill_(7)
        super().zero(block_ids)
        self.base[block_ids[0] * self.stride + self.page + 2] = 1


class UnbuildableZeroer(PageZeroer):
    """Cannot be built."""

    def __init__(self, pool) -> None:
        raise RuntimeError(f"{pool.layout.num_blocks} blocks are too many")


@triton.jit
def zero_from_table(table, ids, LANES: tl.constexpr):
    row = tl.load(table).to(tl.pointer_type(tl.int64))
    address = tl.load(row) + tl.load(ids + tl.program_id(0)) * tl.load(row + 1)
    lanes = tl.arange(0, LANES)
    page = tl.load(row + 2)
    tl.store(address.to(tl.pointer_type(tl.int8)) + lanes, 0, mask=lanes < page)


class HiddenTableZeroer(PageZeroer):
    """Its kernel follows a pointer to a table that only `extra_memory` names."""

    hidden = None

    def __init__(self, pool) -> None:
        super().__init__(pool)
        row = torch.tensor([self.base.data_ptr(), self.stride, self.page])
        HiddenTableZeroer.hidden = row  # alive, but nothing that an instance holds
        self.table = torch.tensor([row.data_ptr()])

    def zero(self, block_ids) -> None:
        ids = torch.as_tensor(block_ids, dtype=torch.int64)
        lanes = triton.next_power_of_2(self.page)
        zero_from_table[(len(ids),)](self.table, ids, lanes)


class NamedTableZeroer(HiddenTableZeroer):
    """The same, named as the protocol asks."""

    @property
    def extra_memory(self):
        return [self.hidden]
