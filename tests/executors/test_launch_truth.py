"""Every launch limit that a CUDA machine can show, measured again from memory.

What a launcher or a driver does with a launch is read from the flag that its first
program sets, never from what the call returns.
"""

from pathlib import Path

import pytest
import torch

from kvzero.casefile import read_case_file
from kvzero.executors.device import DeviceExecutor
from kvzero.limits import LIMITS, Fate, LaunchShape, launch_fate
from kvzero.subjects.registry import find_subject
from tests.executors.gpu_subjects import set_flag
from tests.executors.on_gpu import NEEDS_GPU

KILLS = Path(__file__).parents[1] / "meta" / "kills"
SHAPES = (
    LaunchShape((1, 1, 1)),
    LaunchShape((1, 1, 1), num_ctas=2),
    LaunchShape((2**31, 1, 1)),
    LaunchShape((1, 2**31, 1)),
    LaunchShape((1, 1, 2**31)),
    LaunchShape((32_768, 256, 256)),
    LaunchShape((6_870, 181, 2_336)),
    LaunchShape((6_870, 181, 1_728)),
    LaunchShape((65_536, 65_536, 1)),
    LaunchShape((2**30, 1, 1), num_ctas=2),
    LaunchShape((1, 65_535, 1)),
    LaunchShape((1, 65_536, 1)),
    LaunchShape((1, 1, 65_535)),
    LaunchShape((1, 1, 65_536)),
)
SLOW_SHAPES = (LaunchShape((2**31 - 1, 1, 1)), LaunchShape((32_768, 256, 255)))
"""Launches of about 2**31 programs, just inside a limit: seconds each."""


def fate_here(shape: LaunchShape) -> Fate:
    """Return what became of a launch on this machine."""
    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    launch = set_flag[shape.grid]
    try:
        launch(flag, num_warps=shape.num_warps, num_ctas=shape.num_ctas)
    except (OverflowError, RuntimeError):
        return "rejected"
    return "runs" if flag.item() else "skipped"


def test_every_row_that_cuda_can_show_is_measured() -> None:
    rows = {row.name for row in LIMITS if row.platform in ("any", "cuda")}
    deciding = [launch_fate(shape, "cuda")[1] for shape in SHAPES]
    assert {row.name for row in deciding if row is not None} == rows


@pytest.mark.gpu
@NEEDS_GPU[1]
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.grid}x{s.num_ctas}")
def test_the_table_of_limits_foretells_what_memory_shows(shape: LaunchShape) -> None:
    assert fate_here(shape) == launch_fate(shape, "cuda")[0]


@pytest.mark.gpu
@pytest.mark.slow
@NEEDS_GPU[1]
@pytest.mark.parametrize("shape", SLOW_SHAPES, ids=lambda s: f"{s.grid}")
def test_the_largest_launches_inside_the_limits_run(shape: LaunchShape) -> None:
    assert launch_fate(shape, "cuda")[0] == fate_here(shape) == "runs"


@pytest.mark.gpu
@NEEDS_GPU[1]
@pytest.mark.parametrize("name", ["product-skipped", "segments-beyond-y"])
def test_a_launch_beyond_a_limit_leaves_its_pages_as_they_were(name: str) -> None:
    file = read_case_file(KILLS / f"{name}.json")
    executor = DeviceExecutor()
    try:
        if not executor.fits(file.case):
            pytest.skip("the GPU's memory does not hold the case")
        seen = executor.run(find_subject(name), file.case)
    finally:
        executor.close()
    fates = {launch.fate for launch in seen.launches}
    assert fates & {"skipped", "rejected"}
    assert seen.calls[0].missed.count > 0
