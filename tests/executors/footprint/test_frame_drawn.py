"""What a frame counts: allowances, steps, trips of loops and missteps."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.control import trip_counts
from kvzero.executors.footprint.domain import grid_domains
from kvzero.executors.footprint.frame import (
    MAX_STEPS,
    TURN_PROGRAMS,
    Allowance,
    Frame,
    MisstepLog,
    NotJudgedError,
    Run,
)
from kvzero.executors.footprint.launch_memory import LaunchMemory
from kvzero.executors.footprint.values import Partial, wrapped
from tests.executors.footprint.drawn_lanes import (
    GRID,
    PROGRAMS,
    Drawn,
    dtype_of,
    numbers,
    values,
)

KINDS = ("race", "undefined-value")
PLACES = ("k.py:1", "k.py:2")
near = st.integers(-1, 1)


def frame() -> Frame:
    """Return a frame of all programs of the grid, without memory."""
    memory = cast("LaunchMemory", None)  # nothing here loads or stores
    (domain,) = grid_domains(GRID, 100)
    return Frame([None], domain, Run(memory, GRID, {}, Allowance()))


@settings(max_examples=60)
@given(
    cap=st.integers(0, 600),
    costs=st.lists(
        st.tuples(st.sampled_from(("launch", "write", "turn")), st.integers(0, 250)),
        max_size=8,
    ),
)
def test_allowance_ends_where_what_is_counted_exceeds_it(
    cap: int, costs: list[tuple[str, int]]
) -> None:
    allowance, endless = Allowance(cap), Allowance()
    used = 0
    for name, cost in [*costs, ("launch", 0)]:
        used += max(cost, TURN_PROGRAMS) if name == "turn" else cost
        arguments = (cost,) if name == "launch" else (cost, "k.py:3")
        getattr(endless, name)(*arguments)
        if used <= cap:
            getattr(allowance, name)(*arguments)
            continue
        with pytest.raises(NotJudgedError, match=f"the cap of {cap} "):
            getattr(allowance, name)(*arguments)


@settings(max_examples=20)
@given(more=near, first=st.integers(1, MAX_STEPS - 2))
def test_steps_are_counted_up_to_their_limit(more: int, first: int) -> None:
    run = frame().run
    run.spend(first, PLACES[0])
    if more <= 0:
        run.spend(MAX_STEPS - first + more, PLACES[1])
        return
    with pytest.raises(NotJudgedError, match=f"more than {MAX_STEPS} steps .* k.py:2"):
        run.spend(MAX_STEPS - first + more, PLACES[1])


missteps = st.tuples(
    st.sampled_from(KINDS), st.sampled_from(PLACES), values(1), st.sampled_from("ab")
)


@settings(max_examples=60)
@given(st.lists(missteps, max_size=5), st.integers(0, 5))
def test_missteps_are_counted_by_kind_and_place_and_the_first_is_told(
    found: list[tuple[str, str, Drawn, str]], split: int
) -> None:
    logs = [frame(), frame()]
    counts: dict[tuple[str, str, str], list[Any]] = {}
    for index, (kind, place, where, key) in enumerate(found):
        own = logs[index >= split]
        mark = where.value.value if where.value.__class__ is Partial else where.value
        own.misstep(kind, place, lambda row, col: f"at {row}, {col}", mark, key)
        programs = [tuple(map(int, at)) for at in zip(*np.nonzero(where.lanes))]
        if programs:
            row, col = programs[0]
            told = [f"at {row}, {col}", (col, row, 0), 0]
            counts.setdefault((kind, place, key), told)[2] += len(programs)
    whole = MisstepLog()
    for each in logs:
        whole.extend(each.run.missteps)
    seen = [(m.kind, m.place, m.text, m.program, m.count) for m in whole.missteps()]
    wanted = [(k, p, *entry) for (k, p, _), entry in counts.items()]
    assert seen == wanted


@settings(max_examples=40)
@given(values(1))
def test_condition_is_told_where_it_is_undefined(drawn: Drawn) -> None:
    own = frame()
    own.values[0] = drawn.value
    seen = own.condition(0, PLACES[0])
    np.testing.assert_array_equal(np.broadcast_to(seen, PROGRAMS), drawn.lanes)
    assert not isinstance(seen, np.ndarray) or seen.size > 1
    count = int(np.count_nonzero(drawn.marks))
    found = [(m.kind, m.place, m.count) for m in own.run.missteps.missteps()]
    assert found == [("undefined-value", PLACES[0], count)] * bool(count)


@settings(max_examples=150)
@given(
    low=numbers(64),
    high=numbers(64),
    stride=numbers(64),
    bits=st.sampled_from((8, 16, 32, 64)),
    is_unsigned=st.booleans(),
)
def test_loop_runs_as_often_as_a_range_has_numbers(
    low: Any, high: Any, stride: Any, bits: int, is_unsigned: bool
) -> None:
    dtype = dtype_of(bits)
    with np.errstate(all="ignore"):
        if bits == 64:  # bounds lie less than 2**63 apart
            low, high = low // 4, high // 4
        bounds = [each.astype(dtype) for each in (low, high, stride)]
        trips = trip_counts(*bounds, is_unsigned=is_unsigned)
    seen = np.broadcast_to(trips, PROGRAMS)
    whole = [np.broadcast_to(each, PROGRAMS) for each in bounds]
    for at in np.ndindex(*PROGRAMS):
        begin, end, by = (int(each[at]) for each in whole)
        if is_unsigned:
            begin, end, by = (each % 2**bits for each in (begin, end, by))
        exact = max(-(-(end - begin) // max(by, 1)), 0)
        assert int(seen[at]) == wrapped(exact, 64)
