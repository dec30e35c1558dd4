# mypy: ignore-errors
# Triton reads the annotations of kernels, so they carry no types.
# ruff: noqa: ARG001 - all kernels take the same arguments
"""Kernels in the depth of the language: loops over grids, tiles, atomics, scans.

Each takes what the kernels of `witness_kernels` take, and leaves bytes that no order of
programs changes. Run as a script with TRITON_INTERPRET=1, the module writes what the
interpreter says to a file.
"""

import sys

import numpy as np
import triton
import triton.language as tl

from tests.executors.footprint.witness_kernels import interpret, program, run_all

GRIDS = ((6, 1, 1), (3, 2, 2))


@triton.jit
def grid_stride(out, numbers, wide, n, LANES: tl.constexpr):
    """Zero pages of a table, each program every so many of them."""
    lanes = tl.arange(0, LANES)
    programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
    for item in range(program(), n, programs):
        size = tl.load(numbers + item) & 127
        base = out + item * 256
        for begin in range(0, size, LANES):
            tl.store(base + begin + lanes, 0, mask=begin + lanes < size)


@triton.jit
def persistent_while(out, numbers, wide, n, LANES: tl.constexpr):
    """Walk chunks of pages of different sizes until the program's share is done."""
    lanes = tl.arange(0, LANES)
    programs = tl.num_programs(0) * tl.num_programs(1) * tl.num_programs(2)
    item = program()
    done = 0
    while item < n:
        size = tl.load(numbers + item) & 255
        if done < size:
            tl.store(out + item * 256 + done + lanes, 0, mask=done + lanes < size)
            done += LANES
        else:
            done = 0
            item += programs


@triton.jit
def tile(out, numbers, wide, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.arange(0, ROWS)[:, None] + tl.program_id(0) * ROWS
    cols = tl.arange(0, COLS)[None, :]
    page = out + (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2)) * 8192
    height = 2 + (tl.load(numbers + tl.program_id(0)) & 7)
    mask = (rows % ROWS < height) & (cols < COLS - 3)
    tl.store(page + rows * (COLS + 5) + cols, 0, mask=mask)
    halves = (page + 4096).to(tl.pointer_type(tl.float16))
    tl.store(halves + rows * COLS + cols, (rows - cols).to(tl.float16), mask=cols > 2)


@triton.jit
def copies_a_page(out, numbers, wide, n, LANES: tl.constexpr):
    """Copy the page of each program to another place, in words."""
    p = program()
    lanes = tl.arange(0, LANES)
    words = out.to(tl.pointer_type(tl.int64))
    for begin in range(0, 48, LANES):
        mask = begin + lanes < 48
        read = tl.load(words + p * 48 + begin + lanes, mask=mask)
        tl.store(words + 4096 + (p ^ 1) * 64 + begin + lanes, read, mask=mask)


@triton.jit
def read_modify_write(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    bytes_ = out + p * 2 * LANES + lanes * 2
    old = tl.load(bytes_, mask=lanes < n, other=0)
    tl.store(bytes_, old & (lanes * 7), mask=lanes < n)
    tl.debug_barrier()
    tl.store(bytes_, tl.load(bytes_) | 64)


@triton.jit
def scatters(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    turned = (lanes * 37 + p) % LANES
    tl.store(out + p * 1024 + turned * 3, 0, mask=turned != 5)
    shorts = (out + p * 1024 + 512).to(tl.pointer_type(tl.int16))
    tl.store(shorts + (lanes ^ 9), tl.where(lanes > n, lanes, -lanes).to(tl.int16))


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def later(a, b):
    return tl.where(b > 60, b, a)


@triton.jit
def reductions(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    x = tl.load(numbers + (lanes * 5 + p) % 64) & 1023
    words = out.to(tl.pointer_type(tl.int32)) + p * 16
    tl.store(words, tl.sum((x > 500).to(tl.int32), 0))
    tl.store(words + 1, tl.max((x > 1000).to(tl.int32), 0))
    tl.store(words + 2, tl.xor_sum(x, 0))
    tl.store(words + 3, tl.argmax(x, 0))
    tl.store(words + 4, tl.argmin(x, 0))
    pairs = tl.reshape(x, [LANES // 4, 4])
    tl.store(words + 6, tl.sum(tl.max(pairs, 1)))
    tl.store(words + 7, tl.sum(pairs))


@triton.jit
def custom_reductions(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    x = tl.load(numbers + (lanes * 5 + p) % 64) & 1023
    words = out.to(tl.pointer_type(tl.int32)) + p * 4 * LANES
    tl.store(words, tl.reduce(x > 1000, 0, either).to(tl.int32))
    tl.store(words + 1, tl.reduce(x, 0, later))
    tl.store(words + 2 + lanes, tl.associative_scan(x, 0, later))
    tl.store(words + 2 + LANES + lanes, tl.associative_scan(x, 0, later, reverse=True))


@triton.jit
def scans(out, numbers, wide, n, LANES: tl.constexpr):
    """Store pages one behind the other, at the sums of their sizes."""
    p = program()
    lanes = tl.arange(0, LANES)
    sizes = tl.load(numbers + (lanes + p) % 64) & 7
    ends = tl.cumsum(sizes, 0)
    shorts = out.to(tl.pointer_type(tl.int16)) + p * 8 * LANES
    tl.store(shorts + ends - sizes, (lanes + 1).to(tl.int16), mask=sizes > 0)
    base = tl.reshape(tl.cumsum(tl.reshape(sizes, [LANES // 8, 8]), 1), [LANES])
    tl.store(out + 32768 + p * LANES + lanes, base.to(tl.int8))


@triton.jit
def joins(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    x = tl.load(numbers + (lanes + p) % 64)
    words = out.to(tl.pointer_type(tl.int32)) + p * 6 * LANES
    double = tl.arange(0, 2 * LANES)
    tl.store(words + double, tl.interleave(x, lanes * 3))
    first, second = tl.split(tl.join(x, lanes))
    tl.store(words + 2 * LANES + double, tl.join(second, first).reshape([2 * LANES]))
    tl.store(words + 4 * LANES + lanes, tl.gather(x, (lanes * 3) % LANES, 0))
    low, high = tl.split(tl.reshape(double, [LANES, 2]))
    tl.store(words + 5 * LANES + low // 2, high - low)


@triton.jit
def counters(out, numbers, wide, n, LANES: tl.constexpr):
    """Count in shared words by operations that no order changes."""
    p = program()
    lanes = tl.arange(0, LANES)
    words = out.to(tl.pointer_type(tl.int32))
    x = tl.load(numbers + p)
    tl.atomic_add(words, 1)
    tl.atomic_add(words + 1, x, mask=p != 2)
    tl.atomic_or(words + 2, 1 << (p & 31))
    tl.atomic_and(words + 3, ~(1 << (p & 31)))
    tl.atomic_max(words + 4, x)
    tl.atomic_min(words + 5, x)
    tl.atomic_xchg(words + 6, 77)
    tl.atomic_add(words + 16 + lanes % 8, lanes, mask=lanes < n)
    for _ in range(3):
        tl.atomic_xor(words + 7, x)


@triton.jit
def own_atomics(out, numbers, wide, n, LANES: tl.constexpr):
    """Use results of atomics on words that each program has for itself."""
    p = program()
    lanes = tl.arange(0, LANES)
    slots = out.to(tl.pointer_type(tl.int32)) + p * 4 * LANES
    tl.store(slots + lanes, lanes)
    tl.debug_barrier()
    old = tl.atomic_add(slots + lanes, p, mask=lanes < n)
    tl.store(slots + LANES + lanes, old, mask=lanes < n)
    before = tl.atomic_xchg(slots + 3 * LANES, 5)
    again = tl.atomic_cas(slots + 3 * LANES, 5, p)
    tl.store(slots + 3 * LANES + 1, before ^ again)
    tl.store(slots + 3 * LANES + 2, tl.atomic_cas(slots + 3 * LANES, -1, 9))


@triton.jit
def kinds(out, numbers, wide, n, LANES: tl.constexpr):
    """Store every dtype, with values that are not zero."""
    p = program()
    lanes = tl.arange(0, LANES)
    page = out + p * 4096
    x = tl.load(numbers + p) & 127
    tl.store((page + 0).to(tl.pointer_type(tl.int64)) + lanes, lanes * 0 - x)
    tl.store((page + 768).to(tl.pointer_type(tl.float64)) + lanes, x.to(tl.float64))
    floats = (x - 64).to(tl.float32) / 3
    tl.store((page + 1536).to(tl.pointer_type(tl.float32)) + lanes, -floats)
    tl.store((page + 2048).to(tl.pointer_type(tl.float16)) + lanes, floats)
    # Numbers that bf16 holds: the interpreter cuts the others off instead of rounding.
    tl.store((page + 2304).to(tl.pointer_type(tl.bfloat16)) + lanes, lanes * 0.5 - x)
    tl.store((page + 2560).to(tl.pointer_type(tl.float8e5)) + lanes, 1.5)
    tl.store((page + 2688).to(tl.pointer_type(tl.int1)) + lanes, lanes > x)
    tl.store((page + 2816).to(tl.pointer_type(tl.int32)) + lanes, tl.abs(x - 64))
    tl.store((page + 3328).to(tl.pointer_type(tl.int32)), (floats * 8).to(tl.int32))


KERNELS = (
    grid_stride,
    persistent_while,
    copies_a_page,
    read_modify_write,
    scatters,
    reductions,
    custom_reductions,
    scans,
    joins,
    counters,
    own_atomics,
    kinds,
)


def launches():
    """Yield a name and a function that launches a kernel on tensors."""
    for grid in GRIDS:
        for kernel in KERNELS:
            yield (
                f"{kernel.__name__}-{grid}",
                lambda args, kernel=kernel, grid=grid: kernel[grid](
                    *args, 40, LANES=64
                ),
            )
        yield (
            f"tile-{grid}",
            lambda args, grid=grid: tile[grid](*args, 40, ROWS=8, COLS=32),
        )


if __name__ == "__main__":
    np.savez(sys.argv[1], **run_all(interpret, launches()))
