"""A stream that is held: nothing behind the hold runs until it is let go."""

import pytest
import torch

from kvzero.executors.hold import Hold
from tests.executors.on_gpu import NEEDS_GPU

pytestmark = NEEDS_GPU


@pytest.fixture(scope="module")
def hold() -> Hold:
    return Hold(torch.device("cuda", torch.cuda.current_device()))


def test_nothing_behind_a_hold_runs_before_it_is_released(hold: Hold) -> None:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own gap
    ones, seen = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), hold.on_current_stream(60.0) as held:
        seen.copy_(ones)
        assert held.lasts()
    torch.cuda.synchronize()
    assert not held.lasts()
    assert bool((seen == 1).all())


def test_a_hold_ends_by_itself(hold: Hold) -> None:
    with hold.on_current_stream(0.001) as held:
        torch.cuda.synchronize()  # would never return if the host had to release it
        assert not held.lasts()


def test_a_hold_is_released_when_a_test_fails(hold: Hold) -> None:
    with (
        pytest.raises(RuntimeError, match="on the way"),
        hold.on_current_stream(60.0) as held,
    ):
        raise RuntimeError("on the way")
    torch.cuda.synchronize()
    assert not held.lasts()


def test_another_stream_is_not_held(hold: Hold) -> None:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own gap
    other = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own gap
    ones, seen = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), hold.on_current_stream(60.0) as held:
        with torch.cuda.stream(other):
            seen.copy_(ones)
        other.synchronize()
        assert held.lasts()
