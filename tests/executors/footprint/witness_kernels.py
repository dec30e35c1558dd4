# mypy: ignore-errors
# Triton reads the annotations of kernels, so they carry no types.
# ruff: noqa: ARG001 - all kernels take the same arguments
"""Kernels whose results the footprint executor and Triton's interpreter must share.

Each takes `out` (bytes), `numbers` (int32), `wide` (int64) and n; each program stores
into its own part of `out`, so that their order does not matter. Run as a script with
TRITON_INTERPRET=1, the module writes what the interpreter says to a file.
"""

import sys

import numpy as np
import torch
import triton
import triton.language as tl

from kvzero.triton_internals.interpreter import mend_interpreter

OUT_BYTES = 1 << 16
NUMBERS = 64
GRIDS = ((1, 1, 1), (7, 1, 1), (3, 2, 2))


@triton.jit
def program():
    """Return a number for each program of a grid."""
    inner = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)
    return inner + tl.num_programs(0) * tl.num_programs(1) * tl.program_id(2)


@triton.jit
def wraps(out, numbers, wide, n):
    p = program()
    x = tl.load(numbers + p) * 1103515245 + 12345
    y = (x.to(tl.int64) * 65539).to(tl.int32)
    z = tl.load(wide + p) * 6364136223846793005
    small = (x ^ y).to(tl.int8)
    short = (x - y).to(tl.int16)
    slot = out.to(tl.pointer_type(tl.int64)) + p * 8
    tl.store(slot, z + x)
    tl.store(slot + 1, small.to(tl.int64))
    tl.store(slot + 2, short.to(tl.int64) + small)
    tl.store(slot + 3, (small * short).to(tl.int64))
    tl.store(slot + 4, x.to(tl.uint32).to(tl.int64))
    tl.store(slot + 5, (z >> 7) ^ (z << 3))
    tl.store(slot + 6, (x.to(tl.uint32) >> 3).to(tl.int64))
    tl.store(slot + 7, tl.load(wide + p).to(tl.uint64) // 10)


@triton.jit
def divides(out, numbers, wide, n):
    p = program()
    x = tl.load(numbers + p)
    y = tl.load(numbers + p + 1) | 1
    slot = out.to(tl.pointer_type(tl.int32)) + p * 8
    tl.store(slot, x // y)
    tl.store(slot + 1, x % y)
    tl.store(slot + 2, x // 7)
    tl.store(slot + 3, x % -7)
    tl.store(slot + 4, (x.to(tl.uint32) // 7).to(tl.int32))
    tl.store(slot + 5, (x.to(tl.uint32) % 7).to(tl.int32))
    tl.store(slot + 6, tl.cdiv(x, 5))
    tl.store(slot + 7, tl.maximum(x, y) - tl.minimum(x, 3))


@triton.jit
def one_bit(out, numbers, wide, n):
    p = program()
    x = tl.load(numbers + p)
    is_odd = (x & 1) == 1
    is_big = x > 100
    slot = out.to(tl.pointer_type(tl.int32)) + p * 8
    tl.store(slot, is_odd.to(tl.int32))
    tl.store(slot + 1, (is_odd & is_big).to(tl.int32) - is_big.to(tl.int32))
    tl.store(slot + 2, tl.where(is_odd ^ is_big, x, -x))
    tl.store(slot + 3, (is_odd | is_big) * 7)
    tl.store(slot + 4, (x < n).to(tl.int8).to(tl.int32) + (x <= n) + (x == n))
    tl.store(slot + 5, (x.to(tl.uint32) < n.to(tl.uint32)).to(tl.int32))
    tl.store(slot + 6, ~x)


@triton.jit
def masks(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    x = tl.load(numbers + p) & 63
    base = out + p * LANES * 4
    is_low = lanes < x
    tl.store(base + lanes, 0, mask=is_low & (lanes >= 3))
    words = base.to(tl.pointer_type(tl.int32)) + LANES // 4
    tl.store(words + lanes // 2, 0, mask=(lanes % 2 == 0) & (lanes > x - 5))
    tl.store(base + 3 * LANES - 1 - lanes, 0, mask=lanes * 3 < 2 * x)
    tl.store(base + 3 * LANES + lanes, 0, mask=(lanes == x) | (lanes == 9))


@triton.jit
def loads(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    x = tl.load(numbers + lanes + p, mask=lanes + p < 64, other=-5)
    y = tl.load(wide + (lanes * 7 + p) % 64)
    small = x & 4095  # the interpreter does not wrap sums
    total = tl.sum(small, 0) + tl.max(x, 0) ^ tl.min(x, 0)
    words = out.to(tl.pointer_type(tl.int32)) + p * LANES
    tl.store(words + lanes, (x + y).to(tl.int32) ^ total)


@triton.jit
def early_return(out, numbers, wide, n):
    p = program()
    x = tl.load(numbers + p)
    slot = out.to(tl.pointer_type(tl.int32)) + p * 4
    if x % 3 == 0:
        return
    tl.store(slot, x)
    if p > 4:
        if x % 2 == 0:
            return
        tl.store(slot + 1, x + 1)
    tl.store(slot + 2, x + 2)


@triton.jit
def branches(out, numbers, wide, n):
    p = program()
    x = tl.load(numbers + p)
    y = x
    if x > 0:
        y = x * 2
        if x > 50:
            y = y + n
    elif x < -50:
        y = -x
    slot = out.to(tl.pointer_type(tl.int32)) + p * 4
    tl.store(slot, y)
    tl.store(slot + 1, x if y > x else p)


@triton.jit
def counted(out, numbers, wide, n):
    p = program()
    x = tl.load(numbers + p) & 15
    total = 0
    for i in range(p, x, 2):
        if i % 3 == 1:
            total += i * x
        for j in range(i):
            total += j
    slot = out.to(tl.pointer_type(tl.int32)) + p * 32
    for i in range(x):
        tl.store(slot + i, total + i)


@triton.jit
def searches(out, numbers, wide, n):
    p = program()
    low = 0
    high = n
    wanted = p * 5
    while low < high:
        middle = (low + high) // 2
        if middle * 3 < wanted:
            low = middle + 1
        else:
            high = middle
    tl.store(out.to(tl.pointer_type(tl.int32)) + p * 4, low)


@triton.jit(noinline=True)
def called(x, y):
    """Return something that depends on both."""
    if x > y:
        return x - y
    return x * y + 1


@triton.jit
def calls(out, numbers, wide, n):
    p = program()
    x = tl.load(numbers + p)
    tl.store(out.to(tl.pointer_type(tl.int32)) + p * 4, called(x, n) + called(n, p))


@triton.jit
def two_dims(out, numbers, wide, n, ROWS: tl.constexpr, COLS: tl.constexpr):
    p = program()
    rows = tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, COLS)[None, :]
    x = tl.load(numbers + p) & 7
    at = rows * (COLS + 3) + cols
    base = out + p * 1024
    tl.store(base + at, 0, mask=(rows < x) & (cols >= 2))
    turned = tl.trans(at)
    values = tl.reshape(at * x, [ROWS * COLS])
    words = (base + 512).to(tl.pointer_type(tl.int16))
    tl.store(words + tl.arange(0, ROWS * COLS), values.to(tl.int16))
    tl.store(base + 300 + turned, 0, mask=turned < x * 5)
    sums = tl.sum(at, axis=1)
    tl.store(base + 480 + tl.arange(0, ROWS), sums.to(tl.int8))


@triton.jit
def offsets_wrap(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    near = (p * 3 + 1) * 1431655765 + lanes
    tl.store(out + 4096 * p + (near & 1023), 0)
    short = (lanes + 32760).to(tl.int16)
    tl.store(out + 4096 * p + 2000 + (short.to(tl.int32) & 511), 0)
    is_wrapped = short < 0
    tl.store(out + 4096 * p + 3000 + lanes, 0, mask=is_wrapped)


@triton.jit
def reads_its_own(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    words = out.to(tl.pointer_type(tl.int32)) + p * 2 * LANES
    tl.store(words + lanes, lanes * 3 + p)
    tl.debug_barrier()
    again = tl.load(words + lanes)
    tl.store(words + LANES + lanes, again + 1, mask=lanes < 20)


@triton.jit
def floats(out, numbers, wide, n, LANES: tl.constexpr):
    p = program()
    lanes = tl.arange(0, LANES)
    words = out.to(tl.pointer_type(tl.float32)) + p * 2 * LANES
    x = tl.load(numbers + p).to(tl.float32) * 0.5
    tl.store(words + lanes, tl.where(lanes < 5, x, -1.5))
    halves = (out + p * 8 * LANES + 4 * LANES).to(tl.pointer_type(tl.float16))
    tl.store(halves + lanes, tl.full([LANES], -0.0, tl.float16))


WITHOUT_LANES = (
    wraps, divides, one_bit, early_return, branches, counted, searches, calls
)  # fmt: skip
WITH_LANES = (masks, loads, offsets_wrap, reads_its_own, floats)


def inputs():
    """Return the tensors of a launch, the same every time."""
    random = np.random.default_rng(7)
    numbers = random.integers(-(2**31), 2**31, NUMBERS + 1, dtype=np.int64)
    numbers[: NUMBERS // 2] = random.integers(-200, 200, NUMBERS // 2)
    out = random.integers(1, 256, OUT_BYTES).astype(np.uint8)
    wide = random.integers(-(2**62), 2**62, NUMBERS + 1)
    return (
        torch.from_numpy(out),
        torch.from_numpy(numbers.astype(np.int32)),
        torch.from_numpy(wide),
    )


def launches():
    """Yield a name and a function that launches a kernel on tensors."""
    for grid in GRIDS:
        for kernel in WITHOUT_LANES:
            yield (
                f"{kernel.__name__}-{grid}",
                lambda args, kernel=kernel, grid=grid: kernel[grid](*args, 40),
            )
        for kernel in WITH_LANES:
            for lanes in (32, 64):
                yield (
                    f"{kernel.__name__}-{grid}-{lanes}",
                    lambda args, kernel=kernel, grid=grid, lanes=lanes: kernel[grid](
                        *args, 40, LANES=lanes
                    ),
                )
        yield (
            f"two_dims-{grid}",
            lambda args, grid=grid: two_dims[grid](*args, 40, ROWS=8, COLS=16),
        )


def run_all(launch_one, named_launches):
    """Return the bytes of `out` after each of some launches, by name."""
    results = {}
    for name, launch in named_launches:
        tensors = inputs()
        if launch_one(name, launch, tensors) is not False:
            results[name] = tensors[0].numpy().copy()
    return results


def interpret(_name, launch, tensors):
    """Launch under the interpreter."""
    mend_interpreter()
    launch(tensors)


if __name__ == "__main__":
    found = run_all(interpret, launches())
    np.savez(sys.argv[1], **found)
