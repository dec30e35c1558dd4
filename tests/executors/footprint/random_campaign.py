"""A campaign of random kernels: what they held, whether all sides agreed, the speed."""

import argparse
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch

from kvzero.executors.footprint.control import BUILDERS, STRUCTURED, TERMINATORS
from tests.executors.footprint.differential import Compiled, Witness
from tests.executors.footprint.random_blocks import draw_kernel
from tests.executors.footprint.random_crew import Crew, Lost
from tests.executors.footprint.random_kernels import HEADER, RandomKernel
from tests.executors.footprint.random_sides import Way

BATCH = 25
NEVER_DRAWN = {
    "arith.bitcast": "Triton's language emits tt.bitcast",
    "arith.ceildivsi": "Triton's language divides towards zero",
    "arith.floordivsi": "Triton's language divides towards zero",
    "arith.index_cast": "Triton's language has no index type",
    "arith.negf": "Triton's language subtracts from zero before Triton 3.9",
    "gpu.barrier": "the name of ttg.barrier in older versions",
    "ub.poison": "the front end's placeholder, gone after canonicalisation",
}
"""Operations of the evaluator that kernels of this language need not hold."""
_OLDER_NAMES = {"gpu.barrier": "ttg.barrier"}
WANTED_PERCENT = {"wrap": 10, "promise": 10, "loop or branch": 30}
ENOUGH = 1000
"""Kernels from which on a share that is missed is no accident."""
_FLOW = {"scf.if", "scf.for", "scf.while", "cf.cond_br"}


def drawn(seed: int, number: int) -> RandomKernel:
    """Return a kernel, which depends on its seed and number alone."""
    return draw_kernel(Random(f"{seed}/{number}"), f"kernel_{number}")


def in_batches(count: int) -> deque[range]:
    """Return the numbers of kernels in pieces."""
    starts = range(0, count, BATCH)
    return deque(range(first, min(first + BATCH, count)) for first in starts)


def batches(made: Witness, seed: int, count: int) -> Iterator[list[Compiled]]:
    """Yield kernels of a seed, ready to be compared."""
    for numbers in in_batches(count):
        yield made.batch([drawn(seed, number) for number in numbers])


@dataclass
class Campaign:
    """What was seen so far.

    Attributes:
        kernels: How many.
        ops: In how many kernels each operation stands.
        marks: How many kernels have each feature.
        compared: How many kernels were compared with each other side.
        refused: How many kernels Triton itself failed at, by a known fault.
        disagreements: Kernels on which the sides differ, and how.
    """

    kernels: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)
    compared: Counter[Way] = field(default_factory=Counter)
    refused: Counter[Way] = field(default_factory=Counter)
    disagreements: list[tuple[RandomKernel, str]] = field(default_factory=list)

    def add(self, compiled: Compiled) -> None:
        """Compare a kernel and count what it holds."""
        self.kernels += 1
        self.ops.update({_OLDER_NAMES.get(name, name) for name in compiled.ops})
        self.marks.update(compiled.kernel.marks)
        self.marks["loop or branch"] += bool(_FLOW & set(compiled.ops))
        answers = compiled.expected.items()
        self.compared.update(way for way, left in answers if left is not None)
        self.refused.update(compiled.refusals)
        difference = compiled.disagreement()
        if difference is not None:
            self.disagreements.append((compiled.kernel, difference))

    def merge(self, other: "Campaign") -> None:
        """Add what another process has seen."""
        self.kernels += other.kernels
        self.ops += other.ops
        self.marks += other.marks
        self.compared += other.compared
        self.refused += other.refused
        self.disagreements += other.disagreements

    def lose(self, kernel: RandomKernel, why: str) -> None:
        """Count a kernel that could not be compared at all."""
        self.kernels += 1
        self.disagreements.append((kernel, why))

    def percent(self, name: str) -> float:
        """Return in how many of a hundred kernels an operation or feature stands."""
        return 100 * (self.ops[name] or self.marks[name]) / max(self.kernels, 1)

    def rare(self) -> list[str]:
        """Return what is in fewer kernels than wanted."""
        supported = {*BUILDERS, *STRUCTURED, *TERMINATORS} - NEVER_DRAWN.keys()
        wanted = dict.fromkeys(supported, 1) | WANTED_PERCENT
        return sorted(name for name in wanted if self.percent(name) < wanted[name])

    @property
    def exit_code(self) -> int:
        """Return 1 if the sides differ, or a share is missed by more than chance."""
        missed = self.kernels >= ENOUGH and self.rare()
        return int(bool(self.disagreements or missed))

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        for name in sorted({*self.ops, *self.marks}):
            yield f"  {self.percent(name):5.1f} %  {name}"
        yield f"rarer than wanted: {', '.join(self.rare()) or 'nothing'}"
        for way, count in self.compared.items():
            yield f"{count} kernels compared with the {way}"
        for way, count in self.refused.items():
            yield f"{count} kernels not run on the {way}: a known fault of Triton"
        yield f"{self.kernels} kernels, {len(self.disagreements)} disagreements"


def compare(made: Witness, piece: tuple[int, range]) -> Campaign:
    """Return what a piece of a campaign has seen; its first disagreement is shrunk."""
    seed, numbers = piece
    campaign = Campaign()
    for compiled in made.batch([drawn(seed, number) for number in numbers]):
        campaign.add(compiled)
    if campaign.disagreements:
        kernel, difference = campaign.disagreements[0]
        campaign.disagreements[0] = made.smallest(kernel), difference
    return campaign


def run(seed: int, count: int, crew: Crew[tuple[int, range], Campaign]) -> Campaign:
    """Return what all kernels of a campaign have shown.

    A batch whose process is lost is run again kernel by kernel, to name the one that
    did it.
    """
    whole = Campaign()
    pieces = deque((seed, numbers) for numbers in in_batches(count))
    for (_, numbers), answer in crew.answers(pieces):
        if not isinstance(answer, Lost):
            whole.merge(answer)
        elif len(numbers) > 1:
            pieces.extend((seed, range(number, number + 1)) for number in numbers)
        else:
            whole.lose(drawn(seed, numbers[0]), answer.why)
    return whole


def say(text: str) -> None:
    """Write a line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def arguments(what: str) -> argparse.ArgumentParser:
    """Return a parser of what every campaign needs."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--kernels", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    return parser


def sides(*, with_gpu: bool | None) -> tuple[Way, ...]:
    """Return the sides to compare with; None: the GPU where there is one."""
    if torch.cuda.is_available() if with_gpu is None else with_gpu:
        return ("interpreter", "gpu")
    return ("interpreter",)


def save(found: list[tuple[RandomKernel, str]], folder: Path) -> None:
    """Write each kernel on which the sides differ to a file that Triton can import."""
    folder.mkdir(parents=True, exist_ok=True)
    for kernel, difference in found:
        path = folder / f"{kernel.name}.py"
        path.write_text(f"# {difference}\n# {kernel.launch()}\n{HEADER}{kernel.source}")
        say(f"{path}: {difference}")


def main() -> None:
    """Compare random kernels on the footprint, in Triton's interpreter and on a GPU.

    Exits 1 if any differ or fail, or if a run of 1,000 or more holds less than wanted.
    """
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--gpu", action=argparse.BooleanOptionalAction, default=None)
    saved = Path(tempfile.gettempdir()) / "kvzero-random-kernels"
    parser.add_argument("--save", type=Path, default=saved, help="where they are kept")
    parsed = parser.parse_args()
    begin = time.perf_counter()
    crew = Crew(compare, parsed.workers, sides(with_gpu=parsed.gpu))
    campaign = run(parsed.seed, parsed.kernels, crew)
    spent = time.perf_counter() - begin
    for line in campaign.lines():
        say(line)
    say(f"{spent:.1f} s, {campaign.kernels / spent:.1f} kernels a second")
    if campaign.disagreements:
        save(campaign.disagreements, parsed.save)
    sys.exit(campaign.exit_code)


if __name__ == "__main__":
    main()
