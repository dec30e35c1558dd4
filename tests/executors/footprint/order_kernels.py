# mypy: ignore-errors
# Triton reads the annotations of kernels, so they carry no types.
# ruff: noqa: ARG001 - all kernels take the same arguments
"""Kernels whose bytes depend on the order of programs or lanes, and atomics besides."""

import triton
import triton.language as tl


@triton.jit
def takes_work(words, n, LANES: tl.constexpr):
    item = tl.atomic_add(words, 1)
    while item < n:
        tl.store(words + 8 + item, 0)
        item = tl.atomic_add(words, 1)


takes_work_one_by_one = takes_work


@triton.jit
def exchanges(words, n, LANES: tl.constexpr):
    tl.atomic_xchg(words, tl.program_id(0))


@triton.jit
def adds_floats(words, n, LANES: tl.constexpr):
    tl.atomic_add(words.to(tl.pointer_type(tl.float32)), 0.5)


@triton.jit
def mixes_kinds(words, n, LANES: tl.constexpr):
    tl.atomic_add(words, 1)
    tl.atomic_or(words, 1)


@triton.jit
def loads_a_counter(words, n, LANES: tl.constexpr):
    tl.atomic_add(words, 1)
    tl.store(words + 8 + tl.program_id(0), tl.load(words))


@triton.jit
def stores_and_counts(words, n, LANES: tl.constexpr):
    tl.store(words + tl.program_id(0), 0)
    tl.atomic_add(words + tl.program_id(0), 1)


@triton.jit
def counts_what_another_stores(words, n, LANES: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(words, 0)
    else:
        tl.atomic_add(words, 1)


@triton.jit
def peeks_at_a_counter(words, n, LANES: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(words + 8, tl.load(words))
    else:
        tl.atomic_add(words, 1)


@triton.jit
def counts(words, n, LANES: tl.constexpr):
    tl.atomic_add(words + n, 1)


@triton.jit
def cats(words, n, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    both = tl.cat(lanes, lanes + n, can_reorder=True)
    tl.store(words + tl.arange(0, 2 * LANES), both)


@triton.jit
def sums_floats(words, n, LANES: tl.constexpr):
    x = tl.load(words + tl.arange(0, LANES)).to(tl.float32)
    tl.store(words.to(tl.pointer_type(tl.float32)), tl.sum(x, 0))


@triton.jit
def stores_bf16(out, number):
    target = out.to(tl.pointer_type(tl.bfloat16))
    tl.store(target, number)
    tl.store(target + 1, tl.full([], 0.3, tl.bfloat16))
    tl.store(target + 2, 1.0 - tl.load(target))


@triton.jit
def stores_fp8(out, number):
    tl.store(out.to(tl.pointer_type(tl.float8e4nv)), number)
    tl.store(out.to(tl.pointer_type(tl.float8e5)) + 1, -1.75)


@triton.jit
def stores_halves(words, n, LANES: tl.constexpr):
    """Store two bytes for each of n programs, the second byte for two of them."""
    p = tl.program_id(0) + tl.program_id(1) * tl.num_programs(0)
    if p < n:
        if p % 2 == 0:
            return
        tl.store(words.to(tl.pointer_type(tl.int8)) + p + tl.arange(0, 2), 0)


@triton.jit
def stores_alike(words, value, LANES: tl.constexpr):
    tl.store(words + tl.arange(0, LANES), value)
