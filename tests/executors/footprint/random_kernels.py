"""Random Triton kernels of address arithmetic, as source text, defined everywhere.

A kernel is a list of blocks of lines; each program stores into its own part of `out`,
divisors are not zero, shifts are narrow, and each address lies in memory. One source of
random numbers decides everything: `random.Random` in a campaign, Hypothesis in a test,
where it shrinks towards fewer blocks. Run as a module, it is a campaign:
`python -m tests.executors.footprint.random_kernels --kernels 2000 --seed 1`.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

STORED_BYTES = 1024
"""Where plain stores go in a program's region; behind it, each atomic has its own."""
ATOMIC_BYTES = 256
MAX_ATOMICS = 4
REGION_BYTES = STORED_BYTES + MAX_ATOMICS * ATOMIC_BYTES
TABLE = 64
GRIDS = ((1, 1, 1), (5, 1, 1), (3, 2, 1), (2, 1, 3), (1, 3, 2))
MAX_PROGRAMS = max(x * y * z for x, y, z in GRIDS)
WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint32": 32, "uint64": 64}
SIGNED = ("int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64")
SIZES = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint32": 4, "uint64": 8}
SIZES |= {"float16": 2, "float32": 4, "float64": 8}

HEADER = """import triton
import triton.language as tl
from tests.executors.footprint.random_prelude import *


"""
_OPENING = """@triton.jit
def {name}(out, numbers, wide, n32, n64):
    p = program()
    base = out + p * {region}
    lanes = tl.arange(0, {lanes})
    rows = tl.arange(0, {rows})
    cols = tl.arange(0, {cols})
    grid = rows[:, None] * {pitch} + cols[None, :]
    y = tl.program_id(1)
    z = tl.program_id(2)
    a = n32 + p
    b = n64 - p
"""


@dataclass(frozen=True)
class RandomKernel:
    """A kernel and its launch.

    Attributes:
        name: Of its function.
        opening: The lines that all kernels begin with.
        blocks: Lines of code that stand or fall together.
        grid: Programs.
        n32: Scalar argument, int32.
        n64: Scalar argument, int64.
        seed: Of the tables.
        in_arena: Whether `out` is memory of the case, else a tensor.
        marks: What it holds: "wrap", "promise", "false-promise".
    """

    name: str
    opening: str
    blocks: tuple[str, ...]
    grid: tuple[int, int, int]
    n32: int
    n64: int
    seed: int
    in_arena: bool
    marks: frozenset[str]

    @property
    def source(self) -> str:
        """Return the kernel's text."""
        return self.opening + "".join(self.blocks) + "\n\n"

    def launch(self) -> dict[str, Any]:  # Any: JSON
        """Return what a process needs to launch it."""
        return {
            "name": self.name,
            "grid": self.grid,
            "n32": self.n32,
            "n64": self.n64,
            "seed": self.seed,
        }


Shape = tuple[int, ...]
Key = tuple[str, Shape]


@dataclass
class Draft:
    """A kernel while it is drawn: its variables by type and shape."""

    random: Random
    lanes: int
    rows: int
    variables: dict[Key, list[str]] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    names: int = 0
    atomics: int = 0
    has_signed_bits: bool = False

    @property
    def flat(self) -> Shape:
        """Return the shape of one dimension."""
        return (self.lanes,)

    @property
    def square(self) -> Shape:
        """Return the shape of two dimensions."""
        return (self.rows, self.lanes // self.rows)

    def pick(self, options: Any) -> Any:  # Any: a sequence and one of its items
        """Return one of some options."""
        return options[self.random.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        """Return True so often; Hypothesis shrinks it to False."""
        return self.random.randrange(100) >= 100 - percent

    def shape(self) -> Shape:
        """Return the shape of a variable."""
        return tuple(self.pick(((), self.flat, self.square)))

    def integer(self) -> str:
        """Return an integer type, int32 the likeliest."""
        return str(self.pick(("int32", "int32", "int64", "uint32", *WIDTHS)))

    def emit(self, line: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("    " * self.indent + line + "\n")

    def name(self) -> str:
        """Return a new name."""
        self.names += 1
        return f"v{self.names}"

    def remember(self, name: str, dtype: str, shape: Shape) -> str:
        """Let later expressions use a variable."""
        self.variables.setdefault((dtype, shape), []).append(name)
        return name


def opening(draft: Draft, name: str) -> str:
    """Return a kernel's first lines, and let the draft use their variables."""
    rows, cols = draft.square
    for axis in ("p", "y", "z"):
        draft.remember(axis, "int32", ())
    draft.remember("a", "int32", ())
    draft.remember("b", "int64", ())
    draft.remember("lanes", "int32", draft.flat)
    draft.remember("grid", "int32", draft.square)
    return _OPENING.format(
        name=name,
        region=REGION_BYTES,
        lanes=draft.lanes,
        rows=rows,
        cols=cols,
        pitch=cols + draft.random.randrange(4),
    )


if __name__ == "__main__":
    from tests.executors.footprint.random_campaign import main

    main()
