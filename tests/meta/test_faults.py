"""The harness itself: each fault is caught by its property and shrunk."""

from pathlib import Path

import pytest

from kvzero.campaign.fuzz import Budget, Fuzzer, cases_for
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.outcome import save_found
from kvzero.campaign.tally import Found, Tally
from kvzero.casefile import read_case_file
from kvzero.executors import executor_named
from kvzero.limits import LaunchShape, broken_limits
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.protocol import Subject
from kvzero.subjects.registry import find_subject

SEED = 0
CASES = 4_000
FUZZ_PROGRAMS = 200_000
NAMED = {
    "tail-not-written",
    "mask-missing",
    "page-as-stride",
    "offsets-32-bit",
    "last-block-lost",
    "id-0-skipped",
    "ids-not-validated",
    "segments-beyond-y",
    "product-skipped",
    "false-promise-on-mask",
}
FAULTS = [fault for fault in fault_subjects() if not fault.needs_gpu]


def quiet(_tally: Tally) -> None:
    """Say nothing of the progress."""


def judge_of(subject: Subject) -> Judge:
    return Judge(subject, executor_named("footprint", max_programs=FUZZ_PROGRAMS))


def fuzz(subject: Subject, cases: int) -> Tally:
    judge = judge_of(subject)
    return Fuzzer(judge, cases_for(judge), SEED, Budget(cases=cases), quiet).run()


def kill(fault: Fault) -> Found:
    """Return the violation by which a fault is caught."""
    found = fuzz(fault, CASES).found
    kills = [
        f
        for f in found.values()
        if (f.violation.property, f.violation.what) == (fault.breaks, fault.what)
    ]
    assert kills, f"{fault.name} survived; found {[*found]}"
    return kills[0]


def largest_shape(judged: Judged) -> LaunchShape:
    launches = judged.observation.launches
    return max((x.shape for x in launches), key=lambda shape: shape.programs)


def test_the_ten_named_faults_are_fault_subjects() -> None:
    assert {fault.name for fault in FAULTS} >= NAMED


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught_shrunk_saved_and_replayed(
    fault: Fault, tmp_path: Path
) -> None:
    found = kill(fault)
    layout = found.judged.case.layout
    assert len(layout.runs) <= 3
    assert layout.num_blocks <= 4
    assert not found.flaky
    save_found(found, tmp_path)
    assert found.file is not None
    saved = read_case_file(Path(found.file)).case
    identities = {v.identity for v in judge_of(fault)(saved).violations}
    assert found.violation.identity in identities
    if fault.what == "cuda-y":
        assert largest_shape(found.judged).grid == (1, 65_536, 1)
    if fault.what == "nvidia-product":
        assert_no_factor_can_be_lowered(largest_shape(found.judged))


def assert_no_factor_can_be_lowered(shape: LaunchShape) -> None:
    for axis, size in enumerate(shape.grid):
        lowered = [*shape.grid]
        lowered[axis] = size - 1
        rows = broken_limits(LaunchShape((lowered[0], lowered[1], lowered[2])))
        assert "nvidia-product" not in {row.name for row in rows}


@pytest.mark.slow
def test_the_correct_zeroer_passes_on_random_cases() -> None:
    tally = fuzz(find_subject("kvzero"), 1_000)
    assert [*tally.found] == []
    assert tally.judged["listed_pages_are_zero"] > 500
