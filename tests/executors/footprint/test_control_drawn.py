"""Conditions, loops and branches: programs together against one program at a time.

A statement is drawn as lines of TTIR and as a function of one program's variables. The
evaluator runs the lines for all programs at once, some of whose numbers are undefined;
the function runs for each program alone, and counts what depends on such a number.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.domain import Scalar
from kvzero.executors.footprint.values import wrapped
from tests.executors.footprint.drawn_lanes import (
    PLACE,
    PROGRAMS,
    Drawn,
    assert_is,
    dtype_of,
    evaluated,
    numbers,
    values,
)

Number = tuple[int, bool]  # and whether it is undefined
Variables = dict[str, Number]
Events = Counter[tuple[str, str]]  # kind and place of a misstep
Run = Callable[[Variables, Events], None]
ARGUMENTS = ("%a0", "%a1", "%a2")
CONSTANTS = ["%one = arith.constant 1 : i32", "%three = arith.constant 3 : i32"]


class Part(NamedTuple):
    """A few statements.

    Attributes:
        lines: Their TTIR.
        run: What they do to one program.
        names: The variables behind them, the newest last.
    """

    lines: list[str]
    run: Run
    names: tuple[str, ...]


class _Author:
    """Draws statements, with names and places of their own."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._numbers: Iterator[int] = count()

    def name(self) -> str:
        """Return a new name."""
        return f"%v{next(self._numbers)}"

    def place(self) -> tuple[str, str]:
        """Return a new place, as it is printed and as missteps name it."""
        line = 100 + next(self._numbers)
        return f' loc("/home/me/drawn.py":{line}:0)', f"drawn.py:{line}"

    def pick(self, names: tuple[str, ...]) -> str:
        """Return a variable."""
        return self._draw(st.sampled_from(names[::-1]))

    def body(self, names: tuple[str, ...], depth: int) -> Part:
        """Return one to three statements."""
        lines: list[str] = []
        runs: list[Run] = []
        for _ in range(self._draw(st.integers(1, 3))):
            kinds = (self._sum, self._if, self._for, self._while)
            kind = self._draw(st.sampled_from(kinds if depth else kinds[:1]))
            part = kind(names, depth - 1)
            lines += part.lines
            runs.append(part.run)
            names = part.names

        def run(held: Variables, events: Events) -> None:
            for each in runs:
                each(held, events)

        return Part(lines, run, names)

    def _sum(self, names: tuple[str, ...], depth: int) -> Part:
        del depth
        new, x, y = self.name(), self.pick(names), self.pick(names)

        def run(held: Variables, events: Events) -> None:
            del events
            total = held[x][0] + held[y][0]
            held[new] = wrapped(total, 32), held[x][1] or held[y][1]

        return Part([f"{new} = arith.addi {x}, {y} : i32"], run, (*names, new))

    def condition(self, names: tuple[str, ...]) -> tuple[str, str, Callable[..., bool]]:
        """Return a line that compares, its result, and what one program makes of it.

        The function counts a misstep at a place where either number is undefined.
        """
        new, x, y = self.name(), self.pick(names), self.pick(names)

        def holds(held: Variables, events: Events, place: str) -> bool:
            if held[x][1] or held[y][1]:
                events["undefined-value", place] += 1
            return held[x][0] < held[y][0]

        return f"{new} = arith.cmpi slt, {x}, {y} : i32", new, holds

    def _if(self, names: tuple[str, ...], depth: int) -> Part:
        line, flag, holds = self.condition(names)
        ways = [self.body(names, depth) for _ in range(2)]
        passed = [(self.pick(way.names), self.pick(way.names)) for way in ways]
        result, (printed, place) = self.name(), self.place()
        lines = [line, f"{result}:2 = scf.if {flag} -> (i32, i32) {{"]
        for way, pair, end in zip(ways, passed, ("} else {", f"}}{printed}")):
            lines += [*way.lines, f"scf.yield {', '.join(pair)} : i32, i32", end]
        new = (f"{result}#0", f"{result}#1")

        def run(held: Variables, events: Events) -> None:
            chosen = 0 if holds(held, events, place) else 1
            inner = dict(held)
            ways[chosen].run(inner, events)
            held.update(zip(new, (inner[name] for name in passed[chosen])))

        return Part(lines, run, (*names, *new))

    def _small(self, names: tuple[str, ...]) -> tuple[str, str, Callable[..., Number]]:
        """Return a line that cuts a variable to 0 to 3."""
        new, x = self.name(), self.pick(names)
        return (
            f"{new} = arith.andi {x}, %three : i32",
            new,
            lambda held: (held[x][0] & 3, held[x][1]),
        )

    def _for(self, names: tuple[str, ...], depth: int) -> Part:
        bounds = [self._small(names) for _ in range(2)]
        index, carried, start = self.name(), self.name(), self.pick(names)
        body = self.body((*names, index, carried), depth)
        end, result, (printed, place) = self.pick(body.names), self.name(), self.place()
        lines = [
            *(line for line, _, _ in bounds),
            f"{result} = scf.for {index} = {bounds[0][1]} to {bounds[1][1]} step %one "
            f"iter_args({carried} = {start}) -> (i32)  : i32 {{",
            *body.lines,
            f"scf.yield {end} : i32",
            f"}}{printed}",
        ]

        def run(held: Variables, events: Events) -> None:
            (low, low_mark), (high, high_mark) = (cut(held) for _, _, cut in bounds)
            marks = low_mark + high_mark
            if marks:
                events["undefined-value", place] += marks
            held[result] = held[start]
            for turn in range(low, high):
                # An undefined bound is told once, and then taken as it is.
                inner = {**held, index: (turn, False), carried: held[result]}
                body.run(inner, events)
                held[result] = inner[end]

        return Part(lines, run, (*names, result))

    def _while(self, names: tuple[str, ...], depth: int) -> Part:
        bounds = [self._small(names) for _ in range(2)]
        starts = (bounds[0][1], bounds[1][1], self.pick(names))
        inside = tuple(self.name() for _ in range(3))
        flag, following = self.name(), self.name()
        body = self.body((*names, *inside), depth)
        end, result, (printed, place) = self.pick(body.names), self.name(), self.place()
        pairs = ", ".join(f"{a} = {b}" for a, b in zip(inside, starts))
        arguments = ", ".join(f"{name}: i32 loc(unknown)" for name in inside)
        lines = [
            *(line for line, _, _ in bounds),
            f"{result}:3 = scf.while ({pairs}) : (i32, i32, i32) -> (i32, i32, i32) {{",
            f"{flag} = arith.cmpi slt, {inside[0]}, {inside[1]} : i32",
            f"scf.condition({flag}) {', '.join(inside)} : i32, i32, i32{printed}",
            "} do {",
            f"^bb0({arguments}):",
            *body.lines,
            f"{following} = arith.addi {inside[0]}, %one : i32",
            f"scf.yield {following}, {inside[1]}, {end} : i32, i32, i32",
            "}",
        ]
        new = tuple(f"{result}#{i}" for i in range(3))

        def run(held: Variables, events: Events) -> None:
            low, high = (cut(held) for _, _, cut in bounds)
            turn, mark, value = low[0], low[1], held[starts[2]]
            while True:
                events["undefined-value", place] += mark or high[1]
                if turn >= high[0]:
                    break
                carried = ((turn, mark), high, value)
                inner = {**held, **dict(zip(inside, carried))}
                body.run(inner, events)
                value = inner[end]
                turn += 1
            held.update(zip(new, ((turn, mark), high, value)))

        return Part(lines, run, (*names, *new))


@st.composite
def kernels(draw: st.DrawFn) -> Part:
    """Functions of three numbers that return two; shrink to one sum."""
    author = _Author(draw)
    first = author.body(ARGUMENTS, 2)
    if draw(st.booleans()):
        returned = [author.pick(first.names) for _ in range(2)]
        end = f"tt.return {', '.join(returned)} : i32, i32"
        return Part([*CONSTANTS, *first.lines, end], first.run, tuple(returned))
    line, flag, holds = author.condition(first.names)
    printed, place = author.place()
    passed, taken = author.pick(first.names), author.name()
    ways = [author.body((*first.names, taken), 1), author.body(first.names, 1)]
    met = author.name()
    handed = [author.pick(way.names) for way in ways]
    last = author.body((*first.names, met), 1)
    returned = [author.pick(last.names) for _ in range(2)]
    lines = [
        *CONSTANTS,
        *first.lines,
        line,
        f"cf.cond_br {flag}, ^bb1({passed} : i32), ^bb2{printed}",
        f"^bb1({taken}: i32 loc(unknown)):",
        *ways[0].lines,
        f"cf.br ^bb3({handed[0]} : i32)",
        "^bb2:",
        *ways[1].lines,
        f"cf.br ^bb3({handed[1]} : i32)",
        f"^bb3({met}: i32 loc(unknown)):",
        *last.lines,
        f"tt.return {', '.join(returned)} : i32, i32",
    ]

    def run(held: Variables, events: Events) -> None:
        first.run(held, events)
        way = 0 if holds(held, events, place) else 1
        held[taken] = held[passed]
        ways[way].run(held, events)
        held[met] = held[handed[way]]
        last.run(held, events)

    return Part(lines, run, tuple(returned))


@settings(max_examples=50)
@given(kernels(), st.tuples(*[values(32)] * 3))
def test_programs_together_do_what_each_does_alone(
    kernel: Part, given_: tuple[Drawn, ...]
) -> None:
    outcome = evaluated(kernel.lines, given_)
    events: Events = Counter()
    lanes = np.zeros((2, *PROGRAMS), np.int32)
    marks = np.zeros((2, *PROGRAMS), bool)
    for at in np.ndindex(*PROGRAMS):
        numbers = ((int(each.lanes[at]), bool(each.marks[at])) for each in given_)
        held = {**dict(zip(ARGUMENTS, numbers)), "%one": (1, False)}
        kernel.run(held, events)
        for result, name in enumerate(kernel.names):
            lanes[result][at], marks[result][at] = held[name]
    for result, value in enumerate(outcome.values):
        assert_is(value, lanes[result], marks[result])
    found = {
        (misstep.kind, misstep.place): misstep.count for misstep in outcome.missteps
    }
    assert found == {name: number for name, number in events.items() if number}


@settings(max_examples=60)
@given(
    low=numbers(32),
    high=numbers(32),
    stride=numbers(32),
    bits=st.sampled_from((8, 32, 64)),
    is_unsigned=st.booleans(),
    offset=st.sampled_from((0, -16)),
)
def test_counted_loop_counts_for_each_program_as_a_range_does(
    low: Scalar,
    high: Scalar,
    stride: Scalar,
    bits: int,
    is_unsigned: bool,
    offset: int,
) -> None:
    if not is_unsigned:
        offset //= 2
    typed = dtype_of(bits).type
    stride = (stride % 5 - 1).astype(typed)  # one of them is no stride, one goes back
    bounds = [each.astype(typed) % typed(16) + typed(offset) for each in (low, high)]
    number = f"i{bits}"
    word = "unsigned " if is_unsigned else ""
    lines = [
        f"%zero = arith.constant 0 : {number}",
        f"%one = arith.constant 1 : {number}",
        f"%r:2 = scf.for {word}%i = %a0 to %a1 step %a2 iter_args(%c = %zero, "
        f"%n = %zero) -> ({number}, {number})  : {number} {{",
        f"%d = arith.addi %c, %i : {number}",
        f"%m = arith.addi %n, %one : {number}",
        f"scf.yield %d, %m : {number}, {number}",
        "} loc(#at)",
    ]
    none = np.zeros(PROGRAMS, bool)
    whole = [np.broadcast_to(each, PROGRAMS) for each in (*bounds, stride)]
    given_ = [
        Drawn(number, value, lanes, none)
        for value, lanes in zip((*bounds, stride), whole)
    ]
    total, turns = (np.zeros(PROGRAMS, dtype_of(bits)) for _ in range(2))
    for at in np.ndindex(*PROGRAMS):
        begin, end, by = (int(each[at]) for each in whole)
        ahead = by % 2**bits if is_unsigned else by
        seen = [begin + by * turn for turn in range(len(range(begin, end, ahead or 1)))]
        if ahead <= 0:  # undefined, and taken as a turn for each number
            seen = [begin + by * turn for turn in range(max(end - begin, 0))]
        total[at], turns[at] = wrapped(sum(seen), bits), len(seen)
    outcome = evaluated(lines, given_, "%r#0, %r#1")
    for value, exact in zip(outcome.values, (total, turns), strict=True):
        assert_is(value, exact)
    count = 0 if is_unsigned else int(np.count_nonzero(whole[2] <= 0))
    found = [(m.kind, m.place, m.count) for m in outcome.missteps]
    assert found == [("undefined-arithmetic", PLACE, count)] * bool(count)


@settings(max_examples=20)
@given(
    holds=st.booleans(),
    part=st.sampled_from(((), (1, 1), (3, 1), (1, 2), (3, 2))),
    ways=st.tuples(*[values(32)] * 2),
    is_branch=st.booleans(),
)
def test_condition_that_all_programs_agree_on_sends_them_one_way(
    holds: bool, part: tuple[int, ...], ways: tuple[Drawn, Drawn], is_branch: bool
) -> None:
    agreed = np.bool_(holds) if not part else np.full(part, holds)
    none = np.zeros(PROGRAMS, bool)
    flag = Drawn("i1", agreed, np.broadcast_to(agreed, PROGRAMS), none)
    lines = [
        "%r = scf.if %a0 -> (i32) {",
        "scf.yield %a1 : i32",
        "} else {",
        "scf.yield %a2 : i32",
        "} loc(#at)",
        "tt.return %r : i32",
    ]
    if is_branch:
        lines = [
            "cf.cond_br %a0, ^bb1, ^bb2",
            "^bb1:",
            "tt.return %a1 : i32",
            "^bb2:",
            "tt.return %a2 : i32",
        ]
    outcome = evaluated(lines, [flag, *ways])
    chosen = ways[0 if holds else 1]
    assert_is(outcome.values[0], chosen.lanes, chosen.marks)
    assert outcome.missteps == ()
