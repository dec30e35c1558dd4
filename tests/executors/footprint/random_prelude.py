# mypy: ignore-errors
# Triton reads the annotations of kernels, so they carry no types.
"""What the random kernels call."""

import os

import triton
import triton.language as tl

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def program():
    """Return a number for each program of a grid."""
    inner = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)
    return inner + tl.num_programs(0) * tl.num_programs(1) * tl.program_id(2)


@triton.jit
def multiplied(x, y):
    return x * y


@triton.jit
def added(x, y):
    return x + y


@triton.jit
def both(x, y):
    return x & y


@triton.jit
def either(x, y):
    return x | y


@triton.jit(noinline=True)
def distance(x, y):
    """Return what depends on both, by two ways out."""
    if x > y:
        return x - y
    return x * 3 + y


@triton.jit(noinline=True)
def climbed(x, y):
    """Return a sum whose length depends on the caller's program."""
    total = x
    for i in range(y & 7):
        total += i * x
    return total


@triton.jit
def pairs_swapped(x, HALF: tl.constexpr):
    """Return lanes with each even one behind its odd neighbour."""
    even, odd = tl.split(tl.reshape(x, (HALF, 2)))
    return tl.reshape(tl.join(odd, even), (2 * HALF,))


if IS_INTERPRETED:
    # The compiled side of a kernel called `signed_...` extends bits with their sign.
    @triton.jit
    def signed_bit(x):
        return -x
else:

    @triton.jit
    def signed_bit(x):
        return x
