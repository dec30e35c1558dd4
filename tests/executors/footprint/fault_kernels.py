# mypy: ignore-errors
# Triton reads the annotations of kernels, so they carry no types.
"""Small kernels, each with one thing that the evaluator must see."""

import triton
import triton.language as tl


@triton.jit
def fill(out, size, value: tl.constexpr, LANES: tl.constexpr):
    lanes = tl.program_id(0) * LANES + tl.arange(0, LANES)
    tl.store(out + lanes, value, mask=lanes < size)


@triton.jit
def promised_multiple(out, sizes):
    size = tl.multiple_of(tl.load(sizes + tl.program_id(0)), 4)
    tl.store(out + tl.program_id(0), 0, mask=size > 0)


@triton.jit
def promised_pointer(out, offset, LANES: tl.constexpr):
    base = tl.multiple_of(out + offset, 16)
    tl.store(base + tl.arange(0, LANES), 0)


@triton.jit
def promised_lanes(out, numbers, LANES: tl.constexpr):
    at = tl.load(numbers + tl.arange(0, LANES))
    at = tl.max_contiguous(tl.multiple_of(at, 4), 4)
    tl.store(out + at, 0)


@triton.jit
def assumed(out, n):
    tl.assume(n > 3)
    tl.store(out + n, 0)


@triton.jit
def stores_undefined(out, numbers, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    values = tl.load(numbers + lanes, mask=lanes < 5)
    tl.store(out + lanes, values.to(tl.int8))


@triton.jit
def hides_undefined(out, numbers, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    values = tl.load(numbers + lanes, mask=lanes < 5)
    tl.store(out + lanes, tl.where(lanes < 5, values, 0).to(tl.int8))
    tl.store(out + lanes, (values * 0).to(tl.int8), mask=lanes < 5)


@triton.jit
def branches_on_undefined(out, numbers, n):
    value = tl.load(numbers, mask=n < 0)
    if value > 0:
        tl.store(out, 0)


@triton.jit
def addresses_undefined(out, numbers, n):
    value = tl.load(numbers, mask=n < 0)
    tl.store(out + value, 0)


@triton.jit
def divides_by(out, numbers):
    value = 100 // tl.load(numbers + tl.program_id(0))
    tl.store(out + value, 0)


@triton.jit
def shifts_by(out, numbers):
    value = 1 << tl.load(numbers + tl.program_id(0))
    tl.store(out + (value & 63), 0)


@triton.jit
def same_byte(out, value_step):
    tl.store(out, (tl.program_id(0) * value_step + 1).to(tl.int8))


@triton.jit
def zero_and_one(out, n):
    if tl.program_id(0) == 0:
        tl.store(out, 0)
    else:
        tl.store(out + n, 1)


@triton.jit
def reads_a_neighbour(out, n):
    program = tl.program_id(0)
    value = tl.load(out + (program + n) % 4)
    tl.store(out + program, value)


@triton.jit
def rewrites(out, LANES: tl.constexpr):
    lanes = tl.program_id(0) * LANES + tl.arange(0, LANES)
    value = tl.load(out + lanes)
    tl.store(out + lanes, value)


@triton.jit
def copies(out, target, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    tl.store(target + lanes, tl.load(out + lanes))


@triton.jit
def loads_from_table(table, out):
    source = tl.load(table).to(tl.pointer_type(tl.int8))
    tl.store(out, tl.load(source))


@triton.jit
def loads_past(numbers, out, index):
    tl.store(out, tl.load(numbers + index).to(tl.int8))


@triton.jit
def stores_at(table):
    address = tl.load(table + tl.program_id(0))
    tl.store(address.to(tl.pointer_type(tl.int32)), 0)


@triton.jit
def uses_a_histogram(out, n):
    if n > 0:
        counts = tl.histogram(tl.arange(0, 8), 4)
        tl.store(out + tl.arange(0, 4), counts.to(tl.int8))
    tl.store(out + 8, 0)


@triton.jit
def never_ends(out, n):
    x = n
    while x == n:
        x = x * 1
        tl.store(out, 0)


@triton.jit
def zeroes_lanes(out, LANES: tl.constexpr):
    tl.store(out + tl.program_id(0) * LANES + tl.arange(0, LANES), 0)


@triton.jit
def offset_wraps(out, first, LANES: tl.constexpr):
    tl.store(out + (first + tl.arange(0, LANES)), 0)


@triton.jit
def wide_wrap(out, LANES: tl.constexpr):
    lanes = tl.program_id(0) * 1431655765 + tl.arange(0, LANES) * 65537
    tl.store(out + (lanes & 4095), 0)
