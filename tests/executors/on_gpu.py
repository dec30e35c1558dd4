"""What tests of the device share: marks, a small case, live memory, judging."""

from collections.abc import Iterable

import pytest
import torch

from kvzero.case import Arrival, Call, Case, id_runs
from kvzero.executors.device import device_available
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import Pool
from kvzero.observation import Observation
from kvzero.properties import Broken, NotJudged, Result, judge
from kvzero.subjects.protocol import Subject, WarmsUp

NEEDS_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not device_available(), reason="torch finds no GPU"),
]
NEEDS_TWO_GPUS = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not device_available() or torch.cuda.device_count() < 2,
        reason="torch finds fewer than two GPUs",
    ),
]

NUM_BLOCKS = 64
STRIDE = 512
PAGES = ((0, 272), (272, 128))
"""Offset and size of the two pages of a block; the rest of it is nobody's."""
LAYOUT = Layout(
    NUM_BLOCKS,
    (Allocation(NUM_BLOCKS * STRIDE),),
    tuple(Run(page, STRIDE, offset) for offset, page in PAGES),
)
POISON = 0xA5


def calls_of(arrival: Arrival, *lists: list[int]) -> Case:
    """Return calls whose ids arrive in one way."""
    return Case(LAYOUT, tuple(Call(id_runs(ids), arrival) for ids in lists))


def results(subject: Subject, case: Case, seen: Observation) -> dict[str, Result]:
    """Return the result of each property."""
    judged = judge(case, seen, subject.contract)
    return {result.property: result for result in judged}


def broken(subject: Subject, case: Case, seen: Observation) -> set[tuple[str, str]]:
    """Return every violation as its property and kind."""
    found = results(subject, case, seen).values()
    return {
        (violation.property, violation.what)
        for result in found
        if isinstance(result, Broken)
        for violation in result.violations
    }


def not_judged(subject: Subject, case: Case, seen: Observation) -> dict[str, str]:
    """Return why each property that was not judged was not."""
    found = results(subject, case, seen).values()
    return {r.property: r.reason for r in found if isinstance(r, NotJudged)}


class Live:
    """Poisoned blocks on a GPU and a subject's zeroer for them."""

    def __init__(
        self, subject: Subject, device: str = "cuda:0", *, is_warm: bool = True
    ) -> None:
        self.memory = torch.full(
            (NUM_BLOCKS * STRIDE,), POISON, dtype=torch.uint8, device=device
        )
        torch.cuda.synchronize(device)
        self.pool = Pool(LAYOUT, (self.memory,), torch.device(device))
        self.zeroer = subject.build(self.pool)
        if is_warm and isinstance(self.zeroer, WarmsUp):
            self.zeroer.warmup()
        torch.cuda.synchronize(device)

    def poison(self) -> None:
        self.memory.fill_(POISON)
        torch.cuda.synchronize(self.memory.device)

    def holds(self, block_ids: Iterable[int]) -> bool:
        """Return whether just the pages of these blocks are zero."""
        expected = torch.full((NUM_BLOCKS, STRIDE), POISON, dtype=torch.uint8)
        for offset, page in PAGES:
            expected[sorted(set(block_ids)), offset : offset + page] = 0
        return torch.equal(self.memory.cpu().view(NUM_BLOCKS, STRIDE), expected)
