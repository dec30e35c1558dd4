"""A quick launch is a launch like any other, for all who look on."""

from typing import Any

import pytest
import torch
from triton import knobs

from kvzero.triton_internals import LaunchEvent, dry_driver
from kvzero.zeroer import quick_kernel
from kvzero.zeroer.quick_kernel import QuickKernel
from tests.executors.footprint import fault_kernels as kernels


@pytest.fixture
def memory() -> torch.Tensor:
    return torch.zeros(256, dtype=torch.uint8)


def launch(memory: torch.Tensor, grid: tuple[int, ...] = (2,)) -> Any:
    return kernels.fill[grid](memory, 100, 0, 128)


def test_quick_launch_is_recorded_like_any_other(memory: torch.Tensor) -> None:
    events: list[LaunchEvent] = []
    with dry_driver("cuda:90", events.append):
        compiled = launch(memory, (3, 4, 5))
        QuickKernel(compiled).launch(3, 4, 5, 0, memory, 100, 0, 128)
    usual, quick = events
    assert quick.shape == usual.shape
    assert quick.kernel is usual.kernel
    assert all(a is b for a, b in zip(quick.arguments, usual.arguments, strict=True))


def test_quick_launch_tells_hooks_of_it(memory: torch.Tensor) -> None:
    seen: list[str] = []

    def hook(metadata: Any) -> None:
        seen.append(metadata.get()["name"])

    with dry_driver("cuda:90", lambda _: None):
        kernel = QuickKernel(launch(memory))
        knobs.runtime.launch_enter_hook.add(hook)
        try:
            kernel.launch(1, 1, 1, 0, memory, 100, 0, 128)
        finally:
            knobs.runtime.launch_enter_hook.remove(hook)
        kernel.launch(1, 1, 1, 0, memory, 100, 0, 128)
    assert seen == ["fill"]


def test_kernel_whose_internals_moved_is_launched_as_triton_says() -> None:
    asked: list[object] = []

    class Moved:
        def __getitem__(self, grid: object) -> Any:
            return lambda *arguments: asked.append((grid, arguments))

    QuickKernel(Moved()).launch(2, 3, 4, 7, "rows", 5)
    assert asked == [((2, 3, 4), ("rows", 5))]


def test_hooks_of_an_unknown_kind_are_left_to_triton(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quick_kernel, "triton", None)
    assert quick_kernel._has_launch_hooks()
