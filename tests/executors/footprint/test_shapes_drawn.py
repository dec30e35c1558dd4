"""Operations that move lanes: values and their undefined marks move alike.

A move is a line of TTIR and what NumPy makes of an array written out. The same function
moves the numbers and the marks.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.domain import Array
from kvzero.executors.footprint.values import Affine, Dense, undefined_of
from tests.executors.footprint.drawn_lanes import (
    GRID,
    PLACE,
    PROGRAMS,
    SHAPES,
    Drawn,
    assert_is,
    dtype_of,
    evaluated,
    kind_of,
    numbers,
    values,
    written,
)

WIDTHS = (1, 8, 32, 64)
SQUARES = ((4, 2), (2, 1), (1, 4), (2, 2, 2))
Lanes = tuple[Array, ...]


class Move(NamedTuple):
    """A move of lanes.

    Attributes:
        line: The operation, on ``%a0`` and so on.
        given: Its operands.
        results: How many it has.
        fn: Its results from the operands' lanes.
    """

    line: str
    given: list[Drawn]
    results: int
    fn: Callable[..., Lanes]


def _drawn(draw: st.DrawFn, shape: tuple[int, ...]) -> Drawn:
    bits = draw(st.sampled_from((1, *WIDTHS)))
    forms = ("box", "affine", "dense") if bits == 1 else ("affine", "dense")
    return draw(values(bits, shape, form=draw(st.sampled_from(("dense", *forms)))))


def _element(drawn: Drawn) -> str:
    return f"i{1 if drawn.lanes.dtype == bool else drawn.lanes.dtype.itemsize * 8}"


def _to(line: str, x: Drawn, shape: tuple[int, ...]) -> str:
    return f"{line} : {x.kind} -> {kind_of(_element(x), shape)}"


@st.composite
def splats(draw: st.DrawFn) -> Move:
    """A scalar in all lanes."""
    x, shape = _drawn(draw, ()), draw(st.sampled_from(SHAPES))

    def fn(lanes: Array) -> Lanes:
        spread = lanes.reshape(*PROGRAMS, *(1,) * len(shape))
        return (np.broadcast_to(spread, (*PROGRAMS, *shape)),)

    return Move(_to("%r0 = tt.splat %a0", x, shape), [x], 1, fn)


@st.composite
def unsplats(draw: st.DrawFn) -> Move:
    """The only lane."""
    shape = draw(st.sampled_from(((1,), (1, 1))))
    x = _drawn(draw, shape)
    return Move(
        f"%r0 = tt.unsplat %a0 : {x.kind}",
        [x],
        1,
        lambda lanes: (lanes.reshape(PROGRAMS),),
    )


@st.composite
def broadcasts(draw: st.DrawFn) -> Move:
    """Lanes repeated along dimensions of one."""
    shape = draw(st.sampled_from(SHAPES))
    before = tuple(1 if draw(st.booleans()) else size for size in shape)
    x = _drawn(draw, before)
    return Move(
        _to("%r0 = tt.broadcast %a0", x, shape),
        [x],
        1,
        lambda lanes: (np.broadcast_to(lanes, (*PROGRAMS, *shape)),),
    )


@st.composite
def expansions(draw: st.DrawFn) -> Move:
    """One more dimension, of one."""
    before = draw(st.sampled_from(SHAPES))
    axis = draw(st.integers(0, len(before)))
    x, shape = _drawn(draw, before), (*before[:axis], 1, *before[axis:])
    return Move(
        _to(f"%r0 = tt.expand_dims %a0 {{axis = {axis} : i32}}", x, shape),
        [x],
        1,
        lambda lanes: (lanes.reshape(*PROGRAMS, *shape),),
    )


@st.composite
def reshapes(draw: st.DrawFn) -> Move:
    """Other shapes of eight lanes, affine or not."""
    eight = ((8,), (1, 8), (8, 1), (2, 4), (4, 2), (2, 2, 2), (2, 1, 4))
    before, shape = (draw(st.sampled_from(eight)) for _ in range(2))
    x = _drawn(draw, before)
    if x.value.__class__ is Affine and x.value.has_plain_steps and draw(st.booleans()):
        # Lanes that stay affine, some of them, in their order.
        runs = [int(np.prod(before[dim + 1 :])) for dim in range(len(before))]
        unit, odd = draw(st.integers(-3, 3)), draw(st.integers(0, len(before)))
        steps = tuple(run * (unit + (d == odd)) for d, run in enumerate(runs))
        if x.lanes.dtype != bool:
            x.value.steps = steps
            x = Drawn(x.kind, x.value, *written(x.value, x.lanes.dtype, before))
    return Move(
        _to("%r0 = tt.reshape %a0", x, shape),
        [x],
        1,
        lambda lanes: (lanes.reshape(*PROGRAMS, *shape),),
    )


@st.composite
def transpositions(draw: st.DrawFn) -> Move:
    """Dimensions in another order."""
    before = draw(st.sampled_from(SQUARES))
    order = draw(st.permutations(range(len(before))))
    x, shape = _drawn(draw, before), tuple(before[dim] for dim in order)
    printed = ", ".join(map(str, order))
    return Move(
        _to(f"%r0 = tt.trans %a0 {{order = array<i32: {printed}>}}", x, shape),
        [x],
        1,
        lambda lanes: (lanes.transpose(0, 1, *(dim + 2 for dim in order)),),
    )


@st.composite
def joins(draw: st.DrawFn) -> Move:
    """Two tensors side by side."""
    shape, bits = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(WIDTHS))
    forms = (draw(st.sampled_from(("", "dense"))) for _ in range(2))
    x, y = (draw(values(bits, shape, form=form)) for form in forms)
    return Move(
        _to("%r0 = tt.join %a0, %a1", x, (*shape, 2)),
        [x, y],
        1,
        lambda a, b: (np.stack([a, b], axis=-1),),
    )


@st.composite
def splits(draw: st.DrawFn) -> Move:
    """The two halves of a last dimension."""
    shape = draw(st.sampled_from(((4,), (2, 2), (1,))))
    x = _drawn(draw, (*shape, 2))
    return Move(
        _to("%r0, %r1 = tt.split %a0", x, shape),
        [x],
        2,
        lambda lanes: (lanes[..., 0], lanes[..., 1]),
    )


@st.composite
def kept_bits(draw: st.DrawFn) -> Move:
    """Another type of the same bits."""
    name, bits, element = draw(
        st.sampled_from(
            [
                ("tt.bitcast", 32, "f32"),
                ("arith.bitcast", 16, "bf16"),
                ("tt.int_to_ptr", 64, "!tt.ptr<i8>"),
            ]
        )
    )
    x = draw(values(bits, draw(st.sampled_from(SHAPES))))
    to = kind_of(element, x.lanes.shape[2:])
    return Move(f"%r0 = {name} %a0 : {x.kind} -> {to}", [x], 1, lambda lanes: (lanes,))


@settings(max_examples=300)
@given(
    splats()
    | unsplats()
    | broadcasts()
    | expansions()
    | reshapes()
    | transpositions()
    | joins()
    | splits()
    | kept_bits()
)
def test_marks_move_as_the_lanes_do(move: Move) -> None:
    names = [f"%r{i}" for i in range(move.results)]
    outcome = evaluated([move.line], move.given, ", ".join(names))
    lanes = move.fn(*(each.lanes for each in move.given))
    marks = move.fn(*(each.marks for each in move.given))
    assert outcome.missteps == ()
    for value, own, own_marks in zip(outcome.values, lanes, marks, strict=True):
        assert_is(value, own, own_marks)


@settings(max_examples=30)
@given(
    data=st.data(),
    bits=st.sampled_from((8, 32, 64)),
    steps=st.tuples(st.integers(-9, 9), st.integers(-99, 99)),
)
def test_halves_of_affine_lanes_are_affine(
    data: st.DataObject, bits: int, steps: tuple[int, int]
) -> None:
    value = Affine(data.draw(numbers(bits)), steps, (4, 2))
    lanes, marks = written(value, dtype_of(bits), (4, 2))
    pairs = Drawn(kind_of(f"i{bits}", (4, 2)), value, lanes, marks)
    line = _to("%r0, %r1 = tt.split %a0", pairs, (4,))
    for half, found in enumerate(evaluated([line], [pairs], "%r0, %r1").values):
        assert found.__class__ is Affine
        assert_is(found, lanes[..., half])


@settings(max_examples=60)
@given(data=st.data())
def test_gathered_lanes_are_those_of_their_index(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(((8,), (4, 2), (2, 4), (1, 4))))
    axis = data.draw(st.integers(0, len(shape) - 1))
    rows = data.draw(st.sampled_from((1, 4)))
    x = data.draw(values(data.draw(st.sampled_from(WIDTHS)), shape))
    size, wanted = shape[axis], (*shape[:axis], rows, *shape[axis + 1 :])
    at = data.draw(values(32, wanted))
    beyond = data.draw(st.sampled_from((None, (0, 0), (0, 1), (1, 0))))
    if beyond is not None:  # inside, where an undefined index does no harm, or beside
        at = _among(at, -beyond[0], size + beyond[1], wanted)
    lines = [
        f"%r = tt.gather %a0[%a1] {{axis = {axis} : i32}} : ({x.kind}, {at.kind}) -> "
        f"{kind_of(_element(x), wanted)}"
    ]
    outcome = evaluated(lines, [x, at], "%r")
    outside = (at.lanes < 0) | (at.lanes >= size)
    index = np.where(outside, 0, at.lanes).astype(np.int64)
    marks = np.take_along_axis(x.marks, index, axis + 2) | at.marks
    lanes = np.take_along_axis(x.lanes, index, axis + 2)
    programs = outside.reshape(*PROGRAMS, -1).any(axis=-1)
    found = [(m.kind, m.place, m.count) for m in outcome.missteps]
    count = int(np.count_nonzero(programs))
    assert found == ([("undefined-value", PLACE, count)] if count else [])
    if not count:
        assert_is(outcome.values[0], lanes, marks)


def _among(at: Drawn, low: int, high: int, shape: tuple[int, ...]) -> Drawn:
    """Return numbers from one to before another, with the marks of some lanes."""
    array = at.value.array if isinstance(at.value, Dense) else at.lanes
    number = array.dtype.type
    value = Dense(array % number(high - low) + number(low), undefined_of(at.value))
    return Drawn(at.kind, value, *written(value, at.lanes.dtype, shape))


@settings(max_examples=20)
@given(start=st.integers(-99, 99), bits=st.sampled_from(WIDTHS))
def test_values_without_operands_are_what_they_say(start: int, bits: int) -> None:
    rows, cols = np.indices(PROGRAMS).astype(np.int32)
    lines = [
        f"%r = tt.make_range {{end = {start + 4} : i32, start = {start} : i32}} : "
        "tensor<4xi32>",
        *(f"%{axis} = tt.get_program_id {axis} : i32" for axis in "xyz"),
        *(f"%n{axis} = tt.get_num_programs {axis} : i32" for axis in "xyz"),
        f"%u = ub.poison : i{bits}",
        f"%w = ub.poison : tensor<2x2xi{bits}>",
    ]
    returned = "%r, %x, %y, %z, %nx, %ny, %nz, %u, %w"
    found = evaluated(lines, [], returned).values
    assert_is(
        found[0], np.broadcast_to(np.arange(4, dtype=np.int32) + start, (3, 2, 4))
    )
    zeros = np.zeros_like(rows)
    for value, lanes in zip(found[1:4], (cols, rows, zeros)):
        assert_is(value, lanes)
    for value, size in zip(found[4:7], GRID):
        assert_is(value, zeros + np.int32(size))
    dtype = np.dtype(bool if bits == 1 else f"int{bits}")
    for value, shape in zip(found[7:], ((), (2, 2))):
        whole = np.zeros((*PROGRAMS, *shape), dtype)
        assert_is(value, whole, np.ones(whole.shape, bool))


@settings(max_examples=50)
@given(data=st.data(), bits=st.sampled_from(WIDTHS))
def test_constants_are_read_as_they_are_printed(data: st.DataObject, bits: int) -> None:
    least = 0 if bits == 1 else -(2 ** (bits - 1))
    most = 1 if bits == 1 else -least - 1
    number = st.integers(least, most)
    one, four = data.draw(number), data.draw(st.lists(number, min_size=4, max_size=4))

    def printed(value: int) -> str:
        return str(bool(value)).lower() if bits == 1 else str(value)

    a, b, c, d = map(printed, four)
    lines = [
        f"%s = arith.constant {printed(one)}" + ("" if bits == 1 else f" : i{bits}"),
        f"%t = arith.constant dense<{printed(one)}> : tensor<4x2xi{bits}>",
        f"%u = arith.constant dense<[{a}, {b}, {c}, {d}]> : tensor<4xi{bits}>",
        f"%v = arith.constant dense<[[{a}, {b}], [{c}, {d}]]> : tensor<2x2xi{bits}>",
    ]
    found = evaluated(lines, [], "%s, %t, %u, %v").values
    dtype = np.dtype(bool if bits == 1 else f"int{bits}")
    square = np.array(four, dtype).reshape(2, 2)
    whole = (one, np.full((4, 2), one), square.reshape(4), square)
    for value, lanes in zip(found, whole):
        own = np.asarray(lanes, dtype)
        assert_is(value, np.broadcast_to(own, (*PROGRAMS, *own.shape)))


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from(("0", "1", "-1", "true", "false")), min_size=4, max_size=4)
)
def test_bits_are_read_from_numbers_as_from_words(words: list[str]) -> None:
    lines = [
        f"%s = arith.constant {words[0]} : i1",
        f"%t = arith.constant dense<{words[0]}> : tensor<4xi1>",
        f"%u = arith.constant dense<[{', '.join(words)}]> : tensor<4xi1>",
    ]
    four = np.array([word not in ("0", "false") for word in words])
    found = evaluated(lines, [], "%s, %t, %u").values
    for value, own in zip(found, (four[0], four[[0] * 4], four), strict=True):
        assert_is(value, np.broadcast_to(own, (*PROGRAMS, *own.shape)))
