"""How tests run one operation on drawn values, without a kernel or its compiler.

A stage has the programs of one small grid, and the memory of a launch over that of a
case. What an operation must do is then told by plain Python, program by program.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kvzero.executors.footprint.arena import arena
from kvzero.executors.footprint.domain import Array, Scalar, grid_domains
from kvzero.executors.footprint.elementwise import Builder, plain
from kvzero.executors.footprint.frame import Allowance, Frame, Run
from kvzero.executors.footprint.ir import Block, Function, Op, Region, Type
from kvzero.executors.footprint.launch_memory import CaseMemory, LaunchMemory
from kvzero.executors.footprint.real_memory import Region as Storage
from kvzero.executors.footprint.values import (
    Affine,
    Box,
    Dense,
    Value,
    undefined_of,
    written_out,
)
from kvzero.observation import Misstep
from kvzero.poison import poison_at
from tests.executors.footprint.bench import Bench

PLACE = "kernel.py:7"
GRIDS = ((1, 1, 1), (3, 1, 1), (1, 2, 1), (2, 1, 2))
Program = tuple[int, int]


def integer(bits: int, shape: tuple[int, ...] = ()) -> Type:
    """Return the type of integers."""
    return Type(f"i{bits}", bits, shape)


def pointer(to: Type, shape: tuple[int, ...] = ()) -> Type:
    """Return the type of pointers to an element."""
    return Type("ptr", 64, shape, to)


@dataclass
class Stage:
    """The programs of a grid, which run one operation after another.

    Attributes:
        grid: Programs in x, y and z.
        arguments: Storage of each argument; values that a step gets count as such.
    """

    grid: tuple[int, int, int] = (1, 1, 1)
    arguments: dict[int, Storage] = field(default_factory=dict)
    bench: Bench = field(default_factory=Bench)

    def __post_init__(self) -> None:
        case = CaseMemory(self.bench.shadow, arena(), self.bench.real, lambda: None)
        self.memory = LaunchMemory(case, self.arguments)
        self.run = Run(self.memory, self.grid, {}, Allowance())
        (self.domain,) = grid_domains(self.grid, 2**10)

    @property
    def programs(self) -> Iterator[Program]:
        """Yield row and column of each program, in order."""
        yield from np.ndindex(*self.domain.shape)

    @property
    def missteps(self) -> tuple[Misstep, ...]:
        """Return what went wrong so far."""
        return self.run.missteps.missteps()

    def step(
        self,
        build: Builder,
        kinds: list[Type],
        values: list[Value],
        result: Type | None = None,
        *,
        is_read: bool = True,
        attributes: dict[str, Any] | None = None,  # Any: as the parser reads them
    ) -> Value:
        """Run one operation and return its result, or None."""
        slots = list(range(len(values)))
        results = [] if result is None else [len(values)]
        kinds = [*kinds, *([] if result is None else [result])]
        op = Op("drawn", PLACE, slots, results, attributes=attributes or {})
        op.result_types = kinds[len(values) :]
        function = Function("kernel", PLACE, slots, types=kinds)
        function.definitions = [None] * len(kinds)
        reader = [Op("reader", PLACE, results)] if is_read else []
        function.body = Region([Block("entry", slots, [op, *reader])])
        frame = Frame([*values, *(None for _ in results)], self.domain, self.run)
        with np.errstate(all="ignore"):
            build(op, function)(frame)
        return frame.values[results[0]] if results else None

    def lanes(self, value: Value, shape: tuple[int, ...]) -> Array:
        """Return the lanes of each program, shape [rows, columns, *lanes]."""
        if value.__class__ in (Affine, Box, Dense):
            array = written_out(value)
        else:
            array = np.asarray(plain(value))
            array = array.reshape((*(array.shape or (1, 1)), *(1 for _ in shape)))
        return np.broadcast_to(array, (*self.domain.shape, *shape))

    def undefined(self, value: Value, shape: tuple[int, ...]) -> Array:
        """Return which lanes of each program are undefined, in the same shape."""
        mark = undefined_of(value)
        whole = (*self.domain.shape, *shape)
        return np.broadcast_to(np.asarray(False if mark is None else mark), whole)

    def poison(self, offset: int) -> int:
        """Return what lies in the case's memory, or its guard, before any store."""
        where = np.array([offset])
        return int(poison_at(self.bench.case.seed, 0, where)[0])


def said(
    kind: str, bad: dict[Program, int], text: Callable[[int], str], stage: Stage
) -> list[tuple[str, str, tuple[int, int, int], int]]:
    """Return kind, text, program and count of what programs did wrong, in one entry.

    Args:
        kind: Kind of misstep.
        bad: For each program that did it, in order, the number that tells it.
        text: From the first program's number to a part of the text.
        stage: Whose programs.
    """
    if not bad:
        return []
    row, col = next(iter(bad))
    first = text(next(iter(bad.values())))
    return [(kind, first, stage.domain.program(row, col), len(bad))]


def signed(value: int, bits: int) -> int:
    """Return the number that so many bits stand for."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


@st.composite
def over_programs(
    draw: st.DrawFn,
    numbers: st.SearchStrategy[Any],
    stage: Stage,
    dtype: Any,
    shape: tuple[int, ...] = (),
) -> Array:
    """Arrays that differ between rows, columns, both or neither; shrink to neither."""
    rows, cols = stage.domain.shape
    whole = draw(st.sampled_from(((1, 1), (rows, 1), (1, cols), (rows, cols))))
    count = int(np.prod((*whole, *shape)))
    drawn = draw(st.lists(numbers, min_size=count, max_size=count))
    return np.array(drawn, dtype).reshape(*whole, *shape)


@st.composite
def scalars(
    draw: st.DrawFn, numbers: st.SearchStrategy[Any], stage: Stage, dtype: Any
) -> Scalar:
    """Scalars of a stage: a number where all programs agree; shrink to that."""
    array = draw(over_programs(numbers, stage, dtype))
    return array[0, 0] if array.size == 1 else array


FORMS = ("none", "splat", "dense", "box")


@st.composite
def masks(
    draw: st.DrawFn,
    stage: Stage,
    shape: tuple[int, ...],
    forms: tuple[str, ...] = FORMS,
) -> Value:
    """Masks of every form, or None; shrink to None."""
    form = draw(st.sampled_from(forms if shape else ("none", "scalar")))
    if form == "none":
        return None
    if form == "dense":
        return Dense(draw(over_programs(st.booleans(), stage, bool, shape)))
    if form == "box":
        low, high = (
            tuple(
                draw(
                    st.sampled_from(some) | scalars(st.integers(0, n), stage, np.int64)
                )
                for n in shape
                for some in ends(n)
            )
            for ends in (lambda n: [(0, 1, n // 2)], lambda n: [(n, n - 1, 0)])
        )
        return Box(low, high, shape)
    base = draw(scalars(st.booleans(), stage, bool))
    return Affine(base, (0,) * len(shape), shape) if form == "splat" else base
