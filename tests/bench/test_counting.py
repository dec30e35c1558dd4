"""Programs and those without work, against what the shapes of the grids say."""

import pytest
import torch

from kvzero.bench.counting import Counter
from kvzero.bench.layouts import bench_layouts
from kvzero.layout import Allocation, Axis, Layout, Run
from kvzero.subjects.masked_3d import Masked3DZeroer
from kvzero.subjects.protocol import MadeSubject
from kvzero.subjects.registry import find_subject
from tests.bench.made import RIGHT

COUNTER = Counter("cuda:90")
MIXED = Layout(
    50,
    (Allocation(50 * 65536),),
    (Run(32768, 65536), Run(1024, 65536, 32768, axes=(Axis(3, 2048),))),
)
"""32 KiB is 8 chunks of 1,024 elements, 1 KiB is a quarter of one."""


@pytest.mark.slow
def test_the_masked_grid_wastes_all_but_the_chunks_of_its_pages() -> None:
    counts, why = COUNTER.count(find_subject("masked-3d"), MIXED, (1, 7))
    assert why is None
    found = {n: (c.programs, c.wasted, c.refusal) for n, c in counts.items()}
    assert found == {1: (32, 21, None), 7: (7 * 32, 7 * 21, None)}


def test_our_launches_are_those_of_the_plan_without_waste() -> None:
    counts, _ = COUNTER.count(find_subject("kvzero"), MIXED, (1, 16))
    assert counts[16].wasted == 0
    assert 0 < (counts[16].programs or 0) <= 16 * 11


def test_a_launch_that_no_grid_can_hold_is_counted_and_named() -> None:
    (layout,) = bench_layouts(["wide1-narrow180"])
    counts, _ = COUNTER.count(find_subject("flat-1d"), layout.make(23_000), (1, 23_000))
    assert counts[23_000].programs == 23_000 * 181 * 2048
    assert counts[23_000].refusal == "launcher-int32"
    assert counts[1].refusal is None


class LaunchesOnceMore(Masked3DZeroer):
    """Zeroes its first block twice, so launches are not in step with the list."""

    def launch(self, ids: torch.Tensor) -> None:
        super().launch(ids)
        super().launch(ids[:1])


def test_launches_out_of_step_with_the_list_are_evaluated() -> None:
    contract = find_subject("masked-3d").contract
    subject = MadeSubject("once-more", contract, LaunchesOnceMore)
    counts, _ = COUNTER.count(subject, MIXED, (1, 7))
    assert {n: (c.programs, c.wasted) for n, c in counts.items()} == {
        1: (2 * 32, 2 * 21),
        7: (8 * 32, 8 * 21),
    }


def test_what_is_no_triton_has_no_programs() -> None:
    assert COUNTER.count(RIGHT, MIXED, (1, 2)) == ({}, None)


def test_a_subject_that_cannot_be_built_says_why() -> None:
    contract = find_subject("kvzero").contract

    def make(_pool: object) -> None:
        raise RuntimeError("needs a GPU")

    broken = MadeSubject("broken", contract, make)  # type: ignore[arg-type]  # broken
    counts, why = COUNTER.count(broken, MIXED, (1,))
    assert counts == {}
    assert why == "programs not counted: RuntimeError: needs a GPU"


def test_host_times_are_taken_only_when_asked() -> None:
    kvzero = find_subject("kvzero")
    assert COUNTER.count(kvzero, MIXED, (3,))[0][3].host_us is None
    timed, _ = Counter("cuda:90", timed=True).count(kvzero, MIXED, (3,))
    assert (timed[3].host_us or 0) > 0


@pytest.mark.parametrize("name", ["index-fill", "torch-loop"])
def test_memory_that_does_not_exist_is_never_written(name: str) -> None:
    assert COUNTER.count(find_subject(name), MIXED, (1,)) == ({}, None)
