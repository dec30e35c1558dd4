"""Arguments, clashes and meeting loads of a launch, against Python's sets and bytes."""

import struct
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.evaluate import (
    _all_inside,
    _argument,
    _clash_inside,
    _loads_may_race,
)
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.ir import FLOAT_BITS, Type
from kvzero.executors.footprint.launch_memory import LaunchMemory
from kvzero.executors.footprint.shadow import OtherBytes
from kvzero.executors.footprint.stretches import Stretches
from kvzero.triton_internals import LaunchEvent

EVENT = cast("LaunchEvent", SimpleNamespace(kernel=SimpleNamespace(place="k.py:5")))
WIDTHS = (1, 8, 16, 32, 64)
CODES = {"f16": "<e", "f32": "<f", "f64": "<d"}
near = st.integers(0, 12)


@settings(max_examples=60)
@given(
    number=st.integers(-(2**63), 2**64 - 1) | st.integers(-3, 3) | st.booleans(),
    bits=st.sampled_from(WIDTHS),
)
@example(number=2**63, bits=64)
def test_integer_argument_keeps_the_low_bits(number: int, bits: int) -> None:
    value = _argument(number, Type(f"i{bits}", bits), EVENT)
    assert value.dtype == (np.bool_ if bits == 1 else f"int{bits}")
    if bits == 1:
        assert bool(value) == (number != 0)
    else:
        assert int(value) % 2**bits == number % 2**bits
    pointer = Type("ptr", 64, (), Type("i8", 8))
    for argument in (number, SimpleNamespace(data_ptr=lambda: number)):
        address = _argument(argument, pointer, EVENT)
        assert address.dtype == np.int64
        assert int(address) % 2**64 == number % 2**64


@settings(max_examples=60)
@given(
    number=st.floats(width=16) | st.integers(-2048, 2048),
    element=st.sampled_from(sorted(FLOAT_BITS)),
)
def test_float_argument_is_its_bits(number: float, element: str) -> None:
    kind = Type(element, FLOAT_BITS[element])
    if element == "bf16":
        wanted = struct.pack("<f", number)[2:]
    elif element in CODES:
        wanted = struct.pack(CODES[element], number)
    else:
        with pytest.raises(NotJudgedError, match=f"of type {element} at k.py:5"):
            _argument(number, kind, EVENT)
        return
    value = _argument(number, kind, EVENT)
    assert value.dtype == kind.dtype
    if number == number:  # a NaN has many bit patterns
        assert value.tobytes() == wanted


@settings(max_examples=80)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=8))
def test_store_clashes_where_it_puts_another_value_on_a_byte(
    stored: list[tuple[int, int]],
) -> None:
    byte = np.array([b for b, _ in stored], np.intp)
    values = np.array([v for _, v in stored], np.uint8)
    last: dict[int, int] = {}
    clashes = []
    for at, value in stored:
        clashes.append(last.get(at, value) != value)
        last[at] = value
    assert _clash_inside(byte, values).tolist() == clashes


@settings(max_examples=150)
@given(
    cuts=st.lists(near, max_size=6, unique=True).map(sorted),
    other=st.lists(near, max_size=2, unique=True).map(sorted),
    loads=st.lists(st.tuples(near, near), max_size=3),
    arena=st.tuples(near, near),
)
def test_loads_may_race_where_they_meet_a_stored_byte(
    cuts: list[int],
    other: list[int],
    loads: list[tuple[int, int]],
    arena: tuple[int, int],
) -> None:
    pairs = list(zip(cuts[::2], cuts[1::2]))
    starts, ends = (np.array([p[i] for p in pairs], np.int64) for i in range(2))
    zero = Stretches(starts, ends)
    zeros = {byte for low, high in pairs for byte in range(low, high)}
    others = [byte for byte in other if byte not in zeros]
    kept = OtherBytes(np.array(others, np.int64), np.ones(len(others), np.uint8))
    extents = [(low, high) for low, high in loads if low < high]
    memory: Any = SimpleNamespace(load_extents=extents)
    loaded = {byte for low, high in extents for byte in range(low, high)}
    meets = bool(loaded & {*zeros, *others})
    assert _loads_may_race(cast("LaunchMemory", memory), zero, kept) == meets
    inside = range(*sorted(arena))
    assert _all_inside(zero, inside) == all(byte in inside for byte in zeros)
