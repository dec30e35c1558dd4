"""Straight-line code, ready to run."""

from dataclasses import dataclass

from kvzero.executors.footprint.elementwise import Step
from kvzero.executors.footprint.frame import Frame
from kvzero.executors.footprint.ir import Op
from kvzero.executors.footprint.values import Value

Results = tuple[Value, ...]


@dataclass
class BuiltBlock:
    """A block ready to run: its steps, and how it ends."""

    arguments: list[int]
    steps: list[Step]
    end: Op

    def run(self, frame: Frame) -> None:
        """Run the steps."""
        frame.run.spend(len(self.steps) + 1, self.end.place)
        for step in self.steps:
            step(frame)

    def yielded(self, frame: Frame) -> Results:
        """Run the steps and return what the block hands on."""
        self.run(frame)
        return tuple(frame.get(slot) for slot in self.end.operands)
