"""The harness itself: each fault is caught by its property and shrunk."""

import sys
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from kvzero.campaign.faults import MAX_PROGRAMS, kill
from kvzero.campaign.fuzz import Budget, Fuzzer, cases_for
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.outcome import save_found
from kvzero.campaign.tally import Found, Tally
from kvzero.casefile import read_case_file
from kvzero.executors import executor_named
from kvzero.limits import LaunchShape, broken_limits
from kvzero.properties.registry import PROPERTIES
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.faults.exact_work import ExactWork
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.warmed_up import WarmedUp
from kvzero.subjects.faults.within_limits import WithinLimits
from kvzero.subjects.protocol import MadeSubject, Subject
from kvzero.subjects.registry import find_subject
from kvzero.subjects.view_table import ViewTableZeroer

SEED = 0
CASES = 4_000
BASE_CASES = 30
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
KILLS = Path(__file__).parent / "kills"
FAULTS = [fault for fault in fault_subjects() if not fault.needs_gpu]
FOOTPRINT = executor_named("footprint", max_programs=MAX_PROGRAMS)
BASES = {
    "within-limits": WithinLimits,
    "view-table": ViewTableZeroer,
    "exact-work": ExactWork,
    "warmed-up": WarmedUp,
}


def quiet(_tally: Tally) -> None:
    """Say nothing of the progress."""


def judge_of(subject: Subject) -> Judge:
    return Judge(subject, FOOTPRINT)


def fuzz(subject: Subject, cases: int) -> Tally:
    judge = judge_of(subject)
    return Fuzzer(judge, cases_for(judge), SEED, Budget(cases=cases), quiet).run()


def caught(fault: Fault) -> Found:
    """Return the violation by which a fault is caught."""
    made = kill(fault, SEED, CASES, FOOTPRINT, shrink_seconds=60.0)
    assert made.found is not None, f"{fault.name} survived {made.cases} cases"
    return made.found


def largest_shape(judged: Judged) -> LaunchShape:
    launches = judged.observation.launches
    return max((x.shape for x in launches), key=lambda shape: shape.programs)


def test_the_ten_named_faults_are_fault_subjects() -> None:
    assert {fault.name for fault in FAULTS} >= NAMED


def test_at_least_30_kinds_of_fault_are_there() -> None:
    areas = {fault.kind: fault.area for fault in FAULTS}
    of_area = Counter(areas.values())
    assert len(areas) >= 30
    assert of_area["planner"] >= 12
    assert of_area["kernel"] >= 10
    assert of_area.keys() == {"planner", "kernel", "ids", "ordering", "cache"}


@pytest.mark.parametrize("fault", fault_subjects(), ids=lambda fault: fault.name)
def test_a_fault_declares_what_it_breaks_and_where_it_is_known_from(
    fault: Fault,
) -> None:
    module = sys.modules[f"kvzero.subjects.faults.{fault.name.replace('-', '_')}"]
    text = module.__doc__ or ""
    assert "Kind: " in text
    assert "Source: " in text
    assert f"Breaks: `{fault.breaks}`" in text
    assert fault.breaks in PROPERTIES
    assert fault.what


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_what_faults_are_built_on_has_no_fault(name: str) -> None:
    subject = MadeSubject(name, TRUSTS_IDS, BASES[name])
    tally = fuzz(subject, BASE_CASES)
    assert {identity.what for identity in tally.found} <= {"too-many-programs"}
    assert name != "exact-work" or not tally.found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fails_on_its_saved_case(fault: Fault) -> None:
    # What `kvzero faults` shrunk; the verb itself fuzzes every fault, in CI.
    judged = judge_of(fault)(read_case_file(KILLS / f"{fault.name}.json").case)
    seen = {(violation.property, violation.what) for violation in judged.violations}
    assert (fault.breaks, fault.what) in seen


def test_saved_cases_are_small() -> None:
    layouts = [read_case_file(path).case.layout for path in KILLS.glob("*.json")]
    assert median(len(layout.runs) for layout in layouts) <= 2
    assert median(layout.num_blocks for layout in layouts) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_named_fault_is_caught_shrunk_saved_and_replayed(
    name: str, tmp_path: Path
) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    found = caught(fault)
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
