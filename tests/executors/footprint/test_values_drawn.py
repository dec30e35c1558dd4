"""Parts of values and grids: what is taken apart is whole when put together again."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.domain import (
    Array,
    Domain,
    Pick,
    at_program,
    grid_domains,
    pick_where,
    some,
)
from kvzero.executors.footprint.values import (
    MAX_DENSE_ELEMENTS,
    Dense,
    TooWideError,
    check_size,
    merged,
    taken,
    undefined_of,
    written_out,
)
from tests.executors.footprint.drawn_lanes import (
    GRID,
    PROGRAMS,
    SHAPES,
    Drawn,
    assert_is,
    numbers,
    values,
    written,
)

WIDTHS = (1, 8, 32, 64)
sizes = st.integers(1, 7)


def ids_of(domain: Domain) -> list[tuple[int, int, int]]:
    """Return the ids of a domain's programs, row by row."""
    rows, cols = domain.shape
    return [domain.program(row, col) for row in range(rows) for col in range(cols)]


@given(grid=st.tuples(sizes, sizes, sizes), programs=st.integers(1, 60))
def test_parts_of_a_grid_hold_each_program_once(
    grid: tuple[int, int, int], programs: int
) -> None:
    x, y, z = grid
    domains = grid_domains(grid, programs)
    found = [each for domain in domains for each in ids_of(domain)]
    everything = [(i, j, k) for i in range(x) for j in range(y) for k in range(z)]
    assert sorted(found) == everything
    for domain in domains:
        assert domain.programs == len(ids_of(domain)) <= programs
        for axis in domain.ids:
            own = np.asarray(axis)
            assert own.dtype == np.int32
            assert own.ndim in (0, 2)
            np.broadcast_to(own, domain.shape)
    # Parts are as wide as they may be, then as high.
    width = min(x, programs)
    height = programs // width
    assert len(domains) == -(-x // width) * -(-y * z // height)
    if programs >= x * y * z:
        (domain,) = domains
        # Neighbours in z are neighbours in rows, and x runs along columns.
        assert ids_of(domain) == [
            (i, j, k) for j in range(y) for k in range(z) for i in range(x)
        ]


@settings(max_examples=40)
@given(grid=st.tuples(sizes, sizes, sizes), turns=st.lists(st.booleans(), max_size=8))
def test_halves_of_a_domain_hold_its_programs_in_order(
    grid: tuple[int, int, int], turns: list[bool]
) -> None:
    (domain,) = grid_domains(grid, 1000)
    for takes_second in turns:
        if domain.programs == 1:
            return
        halves = domain.halves()
        first, second = map(ids_of, halves)
        assert abs(len(first) - len(second)) <= max(domain.shape)
        assert min(len(first), len(second)) > 0
        assert [*first, *second] == ids_of(domain)
        for half in halves:
            assert half.origin is not None
            assert half.origin[0] is domain
        domain = halves[takes_second]


@settings(max_examples=50)
@given(
    condition=numbers(1).filter(lambda c: isinstance(c, np.ndarray) and c.any()),
    again=st.integers(0, 5),
)
def test_programs_where_a_condition_holds_keep_their_ids(
    condition: Array, again: int
) -> None:
    (domain,) = grid_domains(GRID, 100)
    part = domain.picked(pick_where(condition))
    held = np.broadcast_to(condition, PROGRAMS)
    rows, cols = (axis.tolist() for axis in np.nonzero(held))
    assert ids_of(part) == [(col, row, 0) for row, col in zip(rows, cols)]
    assert some(condition)
    # A part of a part, by single programs.
    at = again % part.programs
    row, col = np.unravel_index(at, part.shape)
    one = part.picked(Pick(np.array([row]), np.array([col])))
    assert one.shape == (1, 1)
    assert ids_of(one) == [ids_of(part)[at]]
    for axis, number in zip(part.ids, ids_of(part)[at], strict=True):
        assert at_program(axis, int(row), int(col)) == number


@st.composite
def choices(draw: st.DrawFn) -> list[Array]:
    """Two or three conditions of which each program meets one; shrink to two."""
    first = draw(numbers(1).filter(lambda c: isinstance(c, np.ndarray)))
    if draw(st.booleans()):
        return [first, ~first]
    second = draw(numbers(1))
    whole = np.broadcast_to(first, PROGRAMS)
    other = np.broadcast_to(second, PROGRAMS)
    return [whole, ~whole & other, ~whole & ~other]


@settings(max_examples=130)
@given(data=st.data(), conditions=choices(), bits=st.sampled_from(WIDTHS))
def test_values_of_any_form_are_merged_program_by_program(
    data: st.DataObject, conditions: list[Array], bits: int
) -> None:
    shape = data.draw(st.sampled_from(((), *SHAPES)))
    held = [each for each in conditions if each.any()]
    if any(each.all() for each in held):
        return
    parts = [data.draw(values(bits, shape)) for _ in held]
    if shape and all(
        part.value.__class__ is parts[0].value.__class__ for part in parts
    ):
        kind = parts[0].value.__class__
    else:
        kind = None
    picks = [pick_where(each) for each in held]
    if data.draw(st.booleans()):
        picks = [Pick(*np.nonzero(np.broadcast_to(each, PROGRAMS))) for each in held]
    pieces = [(pick, taken(part.value, pick)) for pick, part in zip(picks, parts)]
    whole = merged(PROGRAMS, pieces)
    lanes, marks = (_chosen(held, parts, name) for name in ("lanes", "marks"))
    assert_is(whole, lanes, marks)
    if kind is not None:
        assert whole.__class__ is kind


def _chosen(conditions: list[Array], parts: list[Drawn], name: str) -> Array:
    """Return for each program what the part of its condition says."""
    found: Any = getattr(parts[0], name).copy()
    for condition, part in zip(conditions, parts):
        programs = np.broadcast_to(condition, PROGRAMS)
        found[programs] = getattr(part, name)[programs]
    return np.asarray(found)


@settings(max_examples=60)
@given(data=st.data(), bits=st.sampled_from(WIDTHS))
def test_lanes_written_out_are_those_of_every_form(
    data: st.DataObject, bits: int
) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    drawn = data.draw(values(bits, shape))
    with np.errstate(all="ignore"):
        array = written_out(drawn.value)
    dense = Dense(array, undefined_of(drawn.value))
    lanes, marks = written(dense, drawn.lanes.dtype, shape)
    np.testing.assert_array_equal(lanes, drawn.lanes)
    np.testing.assert_array_equal(marks, drawn.marks)
    if bits > 1 and drawn.value.__class__ is not Dense:
        low, high = drawn.value.span()
        inside = low <= int(lanes.min()) and int(lanes.max()) <= high
        assert inside or not drawn.value.fits()


@settings(max_examples=40)
@given(
    rows=st.integers(1, 4),
    cols=st.integers(1, 4),
    lanes=st.integers(MAX_DENSE_ELEMENTS // 16, MAX_DENSE_ELEMENTS * 2),
)
def test_lanes_of_several_programs_are_refused_where_they_are_too_many(
    rows: int, cols: int, lanes: int
) -> None:
    shapes = (rows, 1, lanes), (1, cols, 1)
    if rows * cols > 1 and rows * cols * lanes > MAX_DENSE_ELEMENTS:
        with pytest.raises(TooWideError):
            check_size(*shapes)
    else:
        check_size(*shapes)


@st.composite
def cut_rectangles(draw: st.DrawFn) -> tuple[tuple[int, int], list[Array]]:
    """Few rows and columns, cut in two along either; shrink to a row of two."""
    along, across = draw(st.integers(2, 3)), draw(st.integers(1, 3))
    first = np.arange(along) < draw(st.integers(1, along - 1))
    if draw(st.booleans()):
        return (across, along), [first[None, :], ~first[None, :]]
    return (along, across), [first[:, None], ~first[:, None]]


@settings(max_examples=60)
@given(cut=cut_rectangles(), differ=st.tuples(*[st.booleans()] * 4))
def test_merged_scalars_differ_only_along_what_their_parts_differ_along(
    cut: tuple[tuple[int, int], list[Array]], differ: tuple[bool, ...]
) -> None:
    shape, conditions = cut
    sizes = [tuple(n if d else 1 for n, d in zip(shape, differ[i:])) for i in (0, 2)]
    parts = [
        np.arange(height * width).reshape(height, width) + 10 * index
        for index, (height, width) in enumerate(sizes)
    ]
    picks = [pick_where(condition) for condition in conditions]
    whole = merged(shape, [(pick, pick.take(p)) for pick, p in zip(picks, parts)])
    exact = np.where(conditions[0], *parts)
    np.testing.assert_array_equal(whole, exact, strict=True)
