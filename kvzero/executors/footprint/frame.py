"""The state of an evaluation: frames of slots, missteps, and a budget of steps.

A frame holds the values of some programs. Where a branch leaves only part of them, a
child frame is made, and a value is picked out of the parent's when it is first read.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kvzero.executors.footprint.domain import Domain, Pick, Scalar, some
from kvzero.executors.footprint.values import Partial, Value, taken
from kvzero.limits import Grid
from kvzero.observation import Misstep

if TYPE_CHECKING:
    from kvzero.executors.footprint.launch_memory import LaunchMemory

MAX_STEPS = 4_000_000
"""Operations evaluated for one part of a launch: a kernel that loops for ever stops."""


TURN_PROGRAMS = 100
"""Programs that one more turn of a loop counts as, where fewer are in it: a turn costs
about as much time as that many programs of their own, however few make it."""


class NotJudgedError(Exception):
    """Something that the evaluator does not do; the text names it and its line."""


class Allowance:
    """How much of one case is evaluated: programs, and turns of their loops.

    What is counted is the same on every machine, and so is what is not judged.
    """

    def __init__(self, programs: int | None = None) -> None:
        """Allow for so many programs; None: for any number."""
        self._programs = programs
        self._left = programs

    def launch(self, programs: int) -> None:
        """Count the programs of a launch.

        Raises:
            NotJudgedError: They are more than what is left, as all after them are.
        """
        if not self._takes(programs):
            raise NotJudgedError(
                f"a call's programs exceed the cap of {self._programs:,} a case"
            )

    def write(self, stretches: int, place: str) -> None:
        """Count what torch writes: a stretch of bytes costs as much as a program.

        Raises:
            NotJudgedError: It is more than what is left.
        """
        if not self._takes(stretches):
            raise NotJudgedError(
                f"a write at {place} of more stretches than the cap of "
                f"{self._programs:,} programs a case allows"
            )

    def turn(self, programs: int, place: str) -> None:
        """Count a turn of a loop that so many programs make.

        Raises:
            NotJudgedError: It is more than what is left.
        """
        if not self._takes(max(programs, TURN_PROGRAMS)):
            raise NotJudgedError(
                f"a loop at {place} makes more turns than the cap of "
                f"{self._programs:,} programs a case allows"
            )

    def _takes(self, programs: int) -> bool:
        if self._left is None:
            return True
        self._left -= programs
        return self._left >= 0


class MisstepLog:
    """Missteps of one launch, one entry a kind and place."""

    def __init__(self) -> None:
        """Begin empty."""
        self._found: dict[tuple[str, str, str], tuple[str, Grid, int]] = {}

    def add(
        self, kind: str, place: str, text: str, program: Grid, count: int, key: str = ""
    ) -> None:
        """Count a misstep; the first of its kind and place keeps its text."""
        name = (kind, place, key)
        first = self._found.get(name)
        if first is None:
            self._found[name] = (text, program, count)
        else:
            self._found[name] = (first[0], first[1], first[2] + count)

    def extend(self, other: "MisstepLog") -> None:
        """Add all missteps of another log."""
        for (kind, place, key), (text, program, count) in other.entries():
            self.add(kind, place, text, program, count, key)

    def entries(self) -> list[tuple[tuple[str, str, str], tuple[str, Grid, int]]]:
        """Return kind, place and key with text, first program and count."""
        return list(self._found.items())

    def missteps(self) -> tuple[Misstep, ...]:
        """Return what was found, in the order of first occurrence."""
        return tuple(
            Misstep(kind, text, place, program, count)
            for (kind, place, _), (text, program, count) in self._found.items()
        )


class Run:
    """The evaluation of one part of a launch.

    Attributes:
        memory: Where loads and stores go.
        grid: Programs of the launch in x, y and z.
        missteps: What went wrong so far.
        functions: Built functions of the module, by name.
        allowance: What may still be evaluated of the case.
    """

    def __init__(
        self,
        memory: "LaunchMemory",
        grid: Grid,
        functions: dict[str, Any],
        allowance: Allowance,
    ) -> None:
        """Begin with an empty log and a full budget."""
        self.memory = memory
        self.grid = grid
        self.missteps = MisstepLog()
        self.functions = functions
        self.allowance = allowance
        self._steps = 0

    def spend(self, steps: int, place: str) -> None:
        """Count operations.

        Raises:
            NotJudgedError: The budget is spent.
        """
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise NotJudgedError(f"more than {MAX_STEPS} steps in a loop at {place}")


class Frame:
    """The values of some programs.

    Attributes:
        values: One a slot; None: not there yet, or in the frame that this is a part of.
        domain: The programs.
        run: The evaluation.
        get: Returns the value of a slot; steps ask for two or three each, so that where
            all values are here, it is the list's own method.
    """

    __slots__ = ("_template", "domain", "get", "run", "values")
    get: Callable[[int], Value]

    def __init__(self, template: list[Value], domain: Domain, run: Run) -> None:
        """Begin with the constants of the template."""
        self._begin(template, domain, run)
        self.get = self.values.__getitem__

    def _begin(self, template: list[Value], domain: Domain, run: Run) -> None:
        self.values = list(template)
        self._template = template
        self.domain = domain
        self.run = run

    def picked(self, pick: Pick) -> "Frame":
        """Return a frame for some of the programs."""
        return _Part(self, self._template, pick)

    def condition(self, slot: int, place: str) -> Scalar:
        """Return a condition that decides where programs go.

        A condition that depends on an undefined value is a misstep.
        """
        value = self.get(slot)
        if value.__class__ is Partial:
            self.misstep(
                "undefined-value",
                place,
                "a branch depends on a lane that a load left undefined",
                value.undefined,
            )
            value = value.value
        if isinstance(value, np.ndarray) and value.size == 1:
            return value.reshape(-1)[0]
        return value

    def misstep(
        self,
        kind: str,
        place: str,
        text: str | Callable[[int, int], str],
        where: Scalar,
        key: str = "",
    ) -> None:
        """Record a misstep of the programs where `where` is true; none: do nothing.

        Args:
            kind: Kind of misstep.
            place: File and line.
            text: What happened, or a function of row and column that says it.
            where: Which programs, bool.
            key: Tells apart missteps of one kind and place.
        """
        if not some(where):
            return
        everywhere = np.broadcast_to(where, self.domain.shape)
        row, col = np.unravel_index(int(np.argmax(everywhere)), self.domain.shape)
        said = text if isinstance(text, str) else text(int(row), int(col))
        program = self.domain.program(int(row), int(col))
        count = int(np.count_nonzero(everywhere))
        self.run.missteps.add(kind, place, said, program, count, key)


class _Part(Frame):
    """The values of some of the programs of another frame."""

    __slots__ = ("_pick", "_whole")

    def __init__(self, whole: Frame, template: list[Value], pick: Pick) -> None:
        """Pick programs; values are picked when they are read."""
        self._begin(template, whole.domain.picked(pick), whole.run)
        self._whole = whole
        self._pick = pick

    def get(self, slot: int) -> Value:
        """Return the value of a slot."""
        value = self.values[slot]
        if value is None:
            value = self.values[slot] = taken(self._whole.get(slot), self._pick)
        return value
