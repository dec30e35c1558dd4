"""A wrong byte anywhere is seen, and memory is as before afterwards."""

from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from kvzero.bench.layouts import bench_layouts
from kvzero.bench.memory import FILLED, BenchMemory, filled_word
from kvzero.layout import Allocation, Axis, Layout, Run
from tests.bench.made import BEYOND, RIGHT, SHORT

ODD = Layout(
    5,
    (Allocation(5 * 37), Allocation(5 * 64, 2)),
    (Run(13, 37, 3), Run(16, 64, 8, 1, (Axis(2, 32), Axis(2, step_allocations=1)))),
)
IDS = torch.tensor([4, 0, 3])


def memory_after(subject: Any, ids: torch.Tensor = IDS) -> BenchMemory:
    memory = BenchMemory(ODD, torch.device("cpu"))
    subject.build(memory.pool).zero(ids)
    return memory


def is_filled(memory: BenchMemory) -> bool:
    return all(bool((tensor == FILLED).all()) for tensor in memory.pool.tensors)


def test_a_right_call_has_no_fault_and_its_pages_are_filled_again() -> None:
    memory = memory_after(RIGHT)
    assert not is_filled(memory)
    assert memory.faults(IDS) is None
    assert is_filled(memory)


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (SHORT, "listed pages are not zero: 3 words of them hold old bytes"),
        (BEYOND, "bytes of no listed page were changed"),
    ],
)
def test_a_wrong_call_is_told_once(subject: Any, said: str) -> None:
    memory = memory_after(subject)
    assert memory.faults(IDS) == said
    RIGHT.build(memory.pool).zero(IDS)
    assert memory.faults(IDS) is None
    assert is_filled(memory)


def test_a_call_that_does_nothing_is_wrong() -> None:
    memory = BenchMemory(ODD, torch.device("cpu"))
    assert str(memory.faults(IDS)).startswith("listed pages are not zero")


def test_a_page_too_many_is_wrong() -> None:
    assert memory_after(RIGHT).faults(IDS[:2]) == "bytes of no listed page were changed"


@given(st.integers(0, 2), st.integers(0, 1000), st.integers(0, 255))
def test_any_changed_byte_of_no_page_is_seen(which: int, at: int, value: int) -> None:
    memory = memory_after(RIGHT)
    tensor = memory.pool.tensors[which]
    at %= tensor.numel()
    assume(tensor[at] == FILLED and value != FILLED)
    tensor[at] = value
    assert memory.faults(IDS) == "bytes of no listed page were changed"


def test_pieces_of_a_large_list_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvzero.bench.memory.PIECE_BYTES", 20)
    monkeypatch.setattr("kvzero.bench.memory.SCAN_WORDS", 7)
    assert memory_after(RIGHT).faults(IDS) is None
    assert memory_after(SHORT).faults(IDS) is not None
    assert memory_after(BEYOND).faults(IDS) is not None


def test_a_filled_word_is_the_byte_repeated() -> None:
    for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
        word = torch.tensor([filled_word(dtype.itemsize)], dtype=dtype)
        assert word.view(torch.uint8).tolist() == [FILLED] * dtype.itemsize


def test_segments_that_overlap_are_checked_once() -> None:
    (found,) = bench_layouts(["vllm_dsv4_flash_fp8_packed"])
    memory = BenchMemory(found.make(3), torch.device("cpu"))
    RIGHT.build(memory.pool).zero([2, 0])
    assert memory.faults(torch.tensor([2, 0])) is None
