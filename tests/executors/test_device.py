"""The device executor; all but the recorder needs a GPU."""

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from kvzero.case import Call, Case, IdRun, Placement, id_runs
from kvzero.errors import EnvironmentMissingError
from kvzero.executors import device as device_module
from kvzero.executors.device import DeviceExecutor, LaunchRecorder, device_available
from kvzero.layout import Allocation, Axis, Layout, Run
from kvzero.limits import LaunchShape
from kvzero.observation import WARMUP_CALL, Launch, Observation, Raised
from kvzero.properties import Broken, Holds, judge
from kvzero.subjects.protocol import Subject
from kvzero.subjects.registry import find_subject
from tests.executors.gpu_subjects import HUNGRY

gpu = pytest.mark.skipif(not device_available(), reason="torch finds no GPU")

LAYOUT = Layout(4, (Allocation(2048),), (Run(272, 512), Run(128, 512, 272)))
CASE = Case(LAYOUT, (Call(id_runs([1, 3])), Call(id_runs([0, 3, 0]), "tensor")))


class FakeEvent:
    """A launch event without Triton."""

    def __init__(self, grid: tuple[int, int, int]) -> None:
        self.shape = LaunchShape(grid)

    def launch(self, call: int) -> Launch:
        return Launch(call, "zero", "k.py:1", self.shape)


def recorded(*events: int | Raised) -> LaunchRecorder:
    recorder = LaunchRecorder()
    for event in events:
        if isinstance(event, Raised):
            recorder.raised(event)
        else:
            recorder.begin(event)
            recorder(FakeEvent((1, 1, 1)))  # type: ignore[arg-type]  # quacks like one
    return recorder


def test_launches_are_recorded_by_call() -> None:
    recorder = recorded(WARMUP_CALL, 0, 0, 2)
    assert [launch.call for launch in recorder.launches()] == [-1, 0, 0, 2]


def test_a_launcher_that_raises_marks_the_last_launch_of_the_call() -> None:
    rejected = Raised("RuntimeError", "Triton Error [CUDA]: invalid argument")
    fates = [launch.fate for launch in recorded(0, 0, rejected).launches()]
    assert fates == ["runs", "rejected"]


def test_a_subject_that_raises_marks_no_launch() -> None:
    own = Raised("ValueError", "block_ids[0]=9")
    assert [launch.fate for launch in recorded(0, own).launches()] == ["runs"]


def test_a_launcher_that_raises_in_a_later_call_marks_no_earlier_launch() -> None:
    recorder = recorded(0)
    recorder.begin(1)
    recorder.raised(Raised("RuntimeError", "Triton Error [CUDA]: invalid argument"))
    assert [launch.fate for launch in recorder.launches()] == ["runs"]


@pytest.mark.skipif(device_available(), reason="there is a GPU")
def test_without_a_gpu_the_executor_says_so() -> None:
    with pytest.raises(EnvironmentMissingError, match="torch finds no GPU here"):
        DeviceExecutor()


@pytest.fixture(scope="module")
def device() -> Iterator[DeviceExecutor]:
    executor = DeviceExecutor()
    yield executor
    executor.close()


def results(subject: Subject, case: Case, seen: Observation) -> dict[str, type]:
    judged = judge(case, seen, subject.contract)
    return {result.property: type(result) for result in judged}


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("name", ["kvzero", "masked-3d", "flat-1d", "narrow-z"])
def test_a_correct_subject_holds_on_the_device(
    device: DeviceExecutor, name: str
) -> None:
    subject = find_subject(name)
    seen = device.run(subject, CASE)
    judged = results(subject, CASE, seen)
    assert (seen.executor, seen.semantics) == ("device", "machine")
    assert seen.launches
    assert judged["listed_pages_are_zero"] is Holds
    assert judged["unlisted_bytes_are_untouched"] is Holds
    assert judged["launches_fit_the_platform"] is Holds


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("name", ["mask-missing", "tail-not-written", "page-as-stride"])
def test_a_fault_of_bytes_is_seen_on_the_device(
    device: DeviceExecutor, name: str
) -> None:
    subject = find_subject(name)
    judged = results(subject, CASE, device.run(subject, CASE))
    assert Broken in (
        judged["listed_pages_are_zero"],
        judged["unlisted_bytes_are_untouched"],
    )


@pytest.mark.gpu
@gpu
def test_a_kernel_that_was_launched_before_is_recorded_again(
    device: DeviceExecutor,
) -> None:
    subject = find_subject("masked-3d")
    first, second = (device.run(subject, CASE).launches for _ in range(2))
    assert [launch.variant for launch in first] == [launch.variant for launch in second]


@pytest.mark.gpu
@gpu
def test_a_torch_subject_is_judged_without_launches(
    device: DeviceExecutor, cpu_subjects: ModuleType
) -> None:
    host_ids = replace(CASE, calls=(Call(id_runs([1, 3])),))
    seen = device.run(cpu_subjects.LONG_PAGES, host_ids)
    (call,) = seen.calls
    assert [span.offset_bytes for span in call.touched.spans] == [912, 1936]


@pytest.mark.gpu
@gpu
def test_allocations_lie_as_the_case_places_them(device: DeviceExecutor) -> None:
    layout = Layout(8, (Allocation(4096, 5),), (Run(96, 512, axes=(Axis(5, 0, 1),)),))
    placement = Placement(0, 2**40, (0, 16, 256), descending=True)
    case = Case(layout, (Call((IdRun(7, 8, -1),)),), placement=placement)
    subject = find_subject("kvzero")
    judged = results(subject, case, device.run(subject, case))
    assert judged["listed_pages_are_zero"] is Holds
    assert judged["unlisted_bytes_are_untouched"] is Holds


@pytest.mark.gpu
@pytest.mark.slow
@gpu
def test_a_case_of_gigabytes_is_compared_in_pieces(device: DeviceExecutor) -> None:
    blocks, stride = 4096, 2**20
    layout = Layout(
        blocks,
        (Allocation(blocks * stride),),
        (Run(9344, stride, axes=(Axis(8, 100_000),)),),
    )
    case = Case(layout, (Call((IdRun(blocks - 1, 2048, -2),)), Call((IdRun(0),))))
    if not device.fits(case):
        pytest.skip("the GPU has no 4 GiB free")
    subject = find_subject("kvzero")
    seen = device.run(subject, case)
    assert seen.calls[0].stored_bytes > 2048 * 8 * 9300
    judged = results(subject, case, seen)
    assert judged["listed_pages_are_zero"] is Holds
    assert judged["unlisted_bytes_are_untouched"] is Holds


@pytest.mark.gpu
@gpu
def test_a_case_that_does_not_fit_is_refused(device: DeviceExecutor) -> None:
    layout = Layout(1, (Allocation(2**44),), (Run(8, 8),))
    case = Case(layout, (Call((IdRun(0),)),))
    assert not device.fits(case)
    with pytest.raises(EnvironmentMissingError, match="use --executor footprint"):
        device.run(find_subject("kvzero"), case)


@pytest.mark.gpu
@gpu
def test_a_subject_that_runs_out_of_memory_is_to_blame_unless_others_hold_it(
    device: DeviceExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = device.run(HUNGRY, CASE)
    assert seen.calls[0].raised is not None
    assert seen.calls[0].raised.type_name == "OutOfMemoryError"
    monkeypatch.setattr(device_module, "HEADROOM_BYTES", 2**62)
    seen = device.run(HUNGRY, CASE)
    assert [why[:13] for _, why in seen.not_judged[:1]] == ["out of memory"]
