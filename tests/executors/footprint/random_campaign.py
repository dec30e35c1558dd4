"""A campaign of random kernels: what they held, whether both sides agreed, the time."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from kvzero.executors.footprint.control import BUILDERS, STRUCTURED, TERMINATORS
from tests.executors.footprint.differential import Compiled, Witness, witness
from tests.executors.footprint.random_blocks import draw_kernel

BATCH = 50
NEVER_DRAWN = {
    "arith.bitcast": "Triton's language emits tt.bitcast",
    "arith.ceildivsi": "Triton's language divides towards zero",
    "arith.floordivsi": "Triton's language divides towards zero",
    "arith.index_cast": "Triton's language has no index type",
    "arith.negf": "Triton's language subtracts from zero",
    "gpu.barrier": "the name of ttg.barrier in older versions",
    "ub.poison": "the front end's placeholder, gone after canonicalisation",
}
"""Operations of the evaluator that no kernel of this version's language can hold."""
WANTED_PERCENT = {"wrap": 10, "promise": 10, "loop or branch": 30}
_FLOW = {"scf.if", "scf.for", "scf.while", "cf.cond_br"}


def batches(made: Witness, seed: int, count: int) -> Iterator[list[Compiled]]:
    """Yield kernels of a seed, ready to be compared; a kernel depends on its number."""
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        yield made.batch(
            [draw_kernel(Random(f"{seed}/{i}"), f"kernel_{i}") for i in numbers]
        )


@dataclass
class Campaign:
    """What was seen so far.

    Attributes:
        kernels: How many.
        ops: In how many kernels each operation stands.
        marks: How many kernels have each feature.
        disagreements: Kernels on which the sides differ, and how.
    """

    kernels: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    disagreements: list[tuple[Compiled, str]] = field(default_factory=list)

    def add(self, compiled: Compiled) -> None:
        """Compare a kernel and count what it holds."""
        self.kernels += 1
        self.ops.update(set(compiled.ops))
        self.marks.update(compiled.kernel.marks)
        self.marks["loop or branch"] += bool(_FLOW & set(compiled.ops))
        difference = compiled.disagreement()
        if difference is not None:
            self.disagreements.append((compiled, difference))

    def percent(self, name: str) -> float:
        """Return in how many of a hundred kernels an operation or feature stands."""
        return 100 * (self.ops[name] or self.marks[name]) / max(self.kernels, 1)

    def rare(self) -> list[str]:
        """Return what is in fewer kernels than wanted."""
        supported = {*BUILDERS, *STRUCTURED, *TERMINATORS} - NEVER_DRAWN.keys()
        wanted = dict.fromkeys(supported, 1) | WANTED_PERCENT
        return sorted(name for name in wanted if self.percent(name) < wanted[name])

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield f"{self.kernels} kernels, {len(self.disagreements)} disagreements"
        for name in sorted({*self.ops, *self.marks}):
            yield f"  {self.percent(name):5.1f} %  {name}"
        yield f"rarer than wanted: {', '.join(self.rare()) or 'nothing'}"


def say(text: str) -> None:
    """Write a line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


@contextmanager
def campaign_arguments(what: str) -> Iterator[tuple[Witness, int, int]]:
    """Read `--kernels` and `--seed`, and say how long the block took."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--kernels", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    begin = time.perf_counter()
    with witness() as made:
        yield made, parsed.seed, parsed.kernels
    spent = time.perf_counter() - begin
    say(f"{spent:.1f} s, {1000 * spent / parsed.kernels:.0f} ms a kernel")


def main() -> None:
    """Run a campaign and print its report, with the smallest kernel that differs."""
    campaign = Campaign()
    with campaign_arguments(main.__doc__ or "") as (made, seed, count):
        for batch in batches(made, seed, count):
            for compiled in batch:
                campaign.add(compiled)
        for compiled, difference in campaign.disagreements[:3]:
            smallest = made.smallest(compiled.kernel)
            say(f"{difference}\n{smallest}\n{smallest.source}")
    for line in campaign.lines():
        say(line)


if __name__ == "__main__":
    main()
