"""Built-in subjects that are not kvzero's own: right ones pass the whole test."""

from pathlib import Path

import pytest

from kvzero.campaign.checking import Check
from kvzero.campaign.judging import Judge
from kvzero.case import Call, Case, id_runs
from kvzero.executors.footprint import FootprintExecutor
from kvzero.layout import Allocation, Axis, Layout, Run
from kvzero.properties.registry import BYTE_PROPERTIES
from kvzero.properties.verdict import Holds
from kvzero.subjects.registry import find_subject

FOOTPRINT = FootprintExecutor()
TORCH = ("index-fill", "torch-loop")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TORCH, "slot-rows"])
def test_right_subject_passes_random_cases(name: str, tmp_path: Path) -> None:
    subject = find_subject(name)
    Check(25, seed=4, executor="footprint", regressions=tmp_path)(subject)


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize(
    "run",
    [
        Run(20, 64, 192 * 3, 0, (Axis(4, -192),)),
        Run(8, 256, 0, 0, (Axis(2, 128), Axis(3, 16))),
        Run(20, 64, 64 * 3, 0, (Axis(2, 0, 1), Axis(2, -192))),
        Run(8, 64, 0, 0, (Axis(2, 0), Axis(2, 32))),
    ],
    ids=["downwards", "two axes", "two allocations", "the same again"],
)
def test_torch_subject_covers_every_segment_of_a_run(name: str, run: Run) -> None:
    layout = Layout(3, (Allocation(768, 2),), (run,))
    calls = (Call(id_runs([1])), Call(id_runs([2, 0, 2]), "array"), Call(()))
    judged = Judge(find_subject(name), FOOTPRINT)(Case(layout, calls))
    held = {each.property for each in judged.results if isinstance(each, Holds)}
    assert held >= set(BYTE_PROPERTIES)


@pytest.mark.parametrize(("page", "slots"), [(4096, 4), (16, 2), (8, 1), (24, 1)])
def test_slot_rows_launches_a_program_for_each_slot(page: int, slots: int) -> None:
    layout = Layout(3, (Allocation(3 * 4096),), (Run(page, 4096),))
    case = Case(layout, (Call(id_runs([2, 1])),))
    seen = FOOTPRINT.run(find_subject("slot-rows"), case)
    (launch,) = seen.launches
    assert launch.shape.grid[0] == 2 * slots
    (call,) = seen.calls
    assert (call.missed.count, call.touched.count) == (0, 0)
    assert call.narrowest_store_bytes == 8


def test_slot_rows_stays_inside_its_contract() -> None:
    layout = Layout(3, (Allocation(60),), (Run(12, 20),))
    judged = Judge(find_subject("slot-rows"), FOOTPRINT)(
        Case(layout, (Call(id_runs([2])),))
    )
    assert judged.violations == ()
