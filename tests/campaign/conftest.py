"""A subject and an executor made of plain functions: no Triton, no memory."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kvzero.campaign.judging import Judge
from kvzero.case import Case
from kvzero.memory import Pool
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Observation,
    Raised,
    WrongBytes,
)
from kvzero.properties.bad_ids_are_refused import must_raise
from kvzero.subjects.protocol import Contract, MadeSubject, Subject, Zeroer

Breaks = Callable[[Case], bool]
TOUCHED = WrongBytes(1, (ByteSpan(0, -1, 1),))


def never_built(_pool: Pool) -> Zeroer:
    raise AssertionError("the fake executor builds nothing")


SUBJECT = MadeSubject("fake", Contract(uses_triton=False), never_built)


@dataclass
class FakeExecutor:
    """Says that a byte was touched on the cases that `breaks` names."""

    breaks: Breaks
    judged: bool = True
    name: str = "footprint"
    seen: list[Case] = field(default_factory=list)

    def fits(self, _case: Case) -> bool:
        return True

    def run(self, subject: Subject, case: Case) -> Observation:
        self.seen.append(case)
        broken = TOUCHED if self.breaks(case) else WrongBytes()
        indices = range(len(case.calls))
        calls = tuple(self._call(case, index, broken) for index in indices)
        reasons = () if self.judged else (("listed_pages_are_zero", "not today"),)
        return Observation(
            subject.name, self.name, "TTIR", "nowhere", calls, not_judged=reasons
        )

    def _call(self, case: Case, index: int, broken: WrongBytes) -> CallObservation:
        if must_raise(case.calls[index], case.layout.num_blocks):
            return CallObservation(raised=Raised("BlockIdError", "", True))
        return CallObservation(touched=broken, bytes_judged=self.judged)


@pytest.fixture
def judge_of() -> Callable[[Breaks], Judge]:
    """Return what makes a judge whose subject breaks on some cases."""

    def build(breaks: Breaks) -> Judge:
        return Judge(SUBJECT, FakeExecutor(breaks))

    return build
