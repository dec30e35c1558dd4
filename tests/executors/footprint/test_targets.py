"""What differs between targets: the key, the warp, the limits, the machine code."""

from contextlib import suppress
from typing import Any

import pytest

from kvzero.case import Call, Case, IdRun, id_runs
from kvzero.executors.footprint import FootprintExecutor
from kvzero.executors.footprint.evaluate import Evaluator, LaunchResult
from kvzero.layout import Allocation, Layout, Run
from kvzero.limits import Fate, broken_limits
from kvzero.observation import Observation
from kvzero.subjects.protocol import Contract, MadeSubject, Subject
from kvzero.subjects.registry import find_subject
from kvzero.triton_internals import LaunchEvent, dry_driver, gpu_target
from tests.executors.footprint import fault_kernels, subjects
from tests.executors.footprint.bench import Bench

CUDA = ("cuda:80", "cuda:90", "cuda:100", "cuda:120")
HIP = ("hip:gfx942", "hip:gfx950")
TARGETS = (*CUDA, *HIP)
STORAGE_OF_32_BITS = 2**31
ELF = b"\x7fELF"
TAKES_A_POINTER = MadeSubject("pages", Contract(), subjects.PageZeroer)


class Listening(Evaluator):
    """An evaluator that keeps the launches it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[LaunchEvent] = []

    def evaluate(self, event: LaunchEvent, *others: Any) -> LaunchResult:
        self.events.append(event)
        return super().evaluate(event, *others)


def case_of(platform: str, pool_bytes: int) -> Case:
    layout = Layout(4, (Allocation(pool_bytes),), (Run(1024, 1024),))
    return Case(layout, (Call(id_runs([3, 1])),), platform=platform)


def launched(subject: Subject, case: Case) -> tuple[Observation, list[LaunchEvent]]:
    executor = FootprintExecutor()
    executor._evaluator = listening = Listening()
    seen = executor.run(subject, case)
    assert seen.not_judged == ()
    assert [(call.missed.count, call.touched.count) for call in seen.calls] == [(0, 0)]
    return seen, listening.events


def variants(subject: Subject, platform: str) -> list[set[str]]:
    """Return the compiled variants used on pools on both sides of 2 GiB."""
    pools = (4096, STORAGE_OF_32_BITS - 4096, STORAGE_OF_32_BITS + 4096)
    observed = [launched(subject, case_of(platform, pool))[0] for pool in pools]
    return [{launch.variant for launch in seen.launches} for seen in observed]


@pytest.mark.slow
@pytest.mark.parametrize("platform", TARGETS)
def test_pool_beyond_2_gib_adds_a_variant_where_hip_sees_its_pointer(
    platform: str,
) -> None:
    small, below, beyond = variants(TAKES_A_POINTER, platform)
    assert small == below
    assert (below == beyond) is (platform in CUDA)
    assert len(small | beyond) == (1 if platform in CUDA else 2)


@pytest.mark.slow
@pytest.mark.parametrize("platform", TARGETS)
def test_zeroer_has_one_variant_on_pools_of_any_size(platform: str) -> None:
    small, below, beyond = variants(find_subject("kvzero"), platform)
    assert small == below == beyond
    assert len(small) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kvzero", "masked-3d"])
@pytest.mark.parametrize("platform", TARGETS)
def test_kernel_is_machine_code_of_its_target_with_its_warps(
    platform: str, name: str
) -> None:
    _, events = launched(find_subject(name), case_of(platform, 4096))
    assert events
    warp = 64 if platform in HIP else 32
    for event in events:
        kernel = event.kernel
        assert kernel.target == gpu_target(platform)
        assert kernel.target.warp_size == warp
        assert kernel.num_warps * warp <= 1024
        code, text = machine_code(event)
        arch = platform.partition(":")[2]
        assert code.startswith(ELF)
        assert (f"sm_{arch}" if platform in CUDA else arch) in text


def machine_code(event: LaunchEvent) -> tuple[bytes, str]:
    """Return the binary of a variant, and the assembly that names its target."""
    made = event.kernel._cached_variants()
    (asm,) = [each.asm for each in made if each.hash == event.kernel.variant]
    if event.kernel.target.backend == "cuda":
        return asm["cubin"], asm["ptx"]
    return asm["hsaco"], asm["amdgcn"]


@pytest.mark.parametrize("platform", TARGETS)
def test_launches_of_the_zeroer_break_no_limit_of_any_platform(platform: str) -> None:
    page = 2**20
    layout = Layout(64, (Allocation(64 * page),), (Run(page, page),))
    calls = (Call((IdRun(0, 64),)), Call((IdRun(0, 2**16, 0),)))
    executor = FootprintExecutor(max_programs=1)
    seen = executor.run(find_subject("kvzero"), Case(layout, calls, platform=platform))
    assert {launch.target for launch in seen.launches} == {platform}
    assert max(launch.shape.programs for launch in seen.launches) > 2**23
    for launch in seen.launches:
        assert launch.fate == "runs"
        assert broken_limits(launch.shape) == ()


@pytest.mark.parametrize("platform", TARGETS)
@pytest.mark.parametrize(
    ("grid", "on_cuda", "on_hip"),
    [
        ((2**24 - 1, 1, 1), "runs", "runs"),
        ((2**24, 1, 1), "runs", "rejected"),
        ((32_768, 256, 256), "skipped", "runs"),
        ((1, 65_535, 1), "runs", "runs"),
        ((1, 65_536, 1), "rejected", "runs"),
        ((16_384, 16_384, 16), "skipped", "skipped"),
    ],
)
def test_fate_of_a_launch_is_that_of_its_target(
    platform: str, grid: tuple[int, int, int], on_cuda: Fate, on_hip: Fate
) -> None:
    events: list[LaunchEvent] = []
    memory = Bench().memory
    with dry_driver(platform, events.append), suppress(RuntimeError):
        # A launch that is rejected raises, as on the device.
        fault_kernels.fill[grid](memory, 100, 0, 128)
    (event,) = events
    assert event.fate == (on_cuda if platform in CUDA else on_hip)
