"""Torch operations on drawn tensors: followed, named or left alone."""

import sys
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.arena import arena
from kvzero.executors.footprint.torch_writes import Write
from kvzero.executors.footprint.watch import ArenaWatch
from tests.executors.footprint.bench import Bench

SIZE = 4


class Operand(NamedTuple):
    """A tensor, and whether it lies in watched memory."""

    tensor: torch.Tensor
    is_watched: bool


class Here:
    """Watched memory and plain memory, and what the watch was told.

    Attributes:
        noted: First address and place of each write.
    """

    def __init__(self) -> None:
        self.bench = Bench()
        self.noted: list[tuple[int, str]] = []
        self.used = 0

    def note(self, write: Write, place: str) -> None:
        self.noted.append((int(write.starts[0]), place))

    def operand(self, data: st.DataObject) -> Operand:
        self.used += 1
        if data.draw(st.booleans(), "watched"):
            begin = SIZE * self.used
            return Operand(self.bench.memory[begin : begin + SIZE], is_watched=True)
        return Operand(torch.full((SIZE,), self.used, dtype=torch.uint8), False)


@settings(max_examples=25)
@given(data=st.data())
def test_operation_is_followed_if_it_only_writes_watched_memory(
    data: st.DataObject,
) -> None:
    here = Here()
    mine, theirs = here.operand(data), here.operand(data)
    before = mine.tensor.clone()
    with ArenaWatch(arena(), here.note) as watch:
        found, line = mine.tensor.copy_(theirs.tensor), sys._getframe().f_lineno
    assert found.data_ptr() == mine.tensor.data_ptr()
    assert watch.touched == (["aten::copy_"] if theirs.is_watched else [])
    is_followed = mine.is_watched and not theirs.is_watched
    written = [(mine.tensor.data_ptr(), f"test_watch_drawn.py:{line}")]
    assert here.noted == (written if is_followed else [])
    expected = before if mine.is_watched else theirs.tensor
    assert torch.equal(mine.tensor, expected)


@settings(max_examples=30)
@given(data=st.data(), count=st.integers(1, 3))
def test_operation_on_a_list_is_followed_if_all_of_it_is_watched(
    data: st.DataObject, count: int
) -> None:
    here = Here()
    operands = [here.operand(data) for _ in range(count)]
    before = [each.tensor.clone() for each in operands]
    tensors = [each.tensor for each in operands]
    with ArenaWatch(arena(), here.note) as watch:
        torch._foreach_zero_(tensors)
    watched = [each.is_watched for each in operands]
    is_named = any(watched) and not all(watched)
    assert watch.touched == (["aten::_foreach_zero_"] if is_named else [])
    addresses = [tensor.data_ptr() for tensor in tensors]
    assert [at for at, _ in here.noted] == (addresses if all(watched) else [])
    for tensor, was in zip(tensors, before):
        assert torch.equal(tensor, was if any(watched) else torch.zeros_like(was))


@settings(max_examples=30)
@given(data=st.data(), has_out=st.booleans())
def test_operation_that_reads_watched_memory_is_named_and_returns_something(
    data: st.DataObject, has_out: bool
) -> None:
    here = Here()
    first, second, out = (here.operand(data) for _ in range(3))
    expected = first.tensor + second.tensor
    before = out.tensor.clone()
    with ArenaWatch(arena(), here.note) as watch:
        if has_out:
            found = torch.add(first.tensor, second.tensor, out=out.tensor)
        else:
            found = torch.add(first.tensor, second.tensor)
    is_named = first.is_watched or second.is_watched or (has_out and out.is_watched)
    assert bool(watch.touched) == is_named
    assert here.noted == []
    left_out = has_out and out.is_watched
    assert torch.equal(found, before if left_out else expected)
    assert torch.equal(out.tensor, expected if has_out and not left_out else before)


@settings(max_examples=20)
@given(data=st.data())
def test_operation_that_writes_two_tensors_returns_both(data: st.DataObject) -> None:
    here = Here()
    source, low, high = (here.operand(data) for _ in range(3))
    before = low.tensor.clone()
    with ArenaWatch(arena(), here.note) as watch:
        found = torch.aminmax(
            source.tensor.view(1, SIZE), dim=0, out=(low.tensor, high.tensor)
        )
    assert found.min.data_ptr() == low.tensor.data_ptr()
    assert found.max.data_ptr() == high.tensor.data_ptr()
    is_written = not (low.is_watched or high.is_watched)
    assert bool(watch.touched) == (source.is_watched or not is_written)
    assert torch.equal(low.tensor, source.tensor if is_written else before)


@settings(max_examples=20)
@given(data=st.data())
def test_writer_is_who_called_torch_and_not_torch_itself(data: st.DataObject) -> None:
    here = Here()
    operand = here.operand(data)
    with ArenaWatch(arena(), here.note):
        torch.nn.init.zeros_(operand.tensor)
        line = sys._getframe().f_lineno - 1
    places = [f"test_watch_drawn.py:{line}"]
    assert [place for _, place in here.noted] == places * operand.is_watched


@pytest.mark.slow  # torch's compiler takes a second to import
@settings(max_examples=10, deadline=None)
@given(data=st.data(), must_compile=st.booleans())
def test_compiled_code_is_followed_as_it_is_written(
    data: st.DataObject, must_compile: bool
) -> None:
    compiled: list[object] = []

    def backend(graph: Any, _inputs: Any) -> Any:  # Any: torch's compiler has no types
        compiled.append(graph)
        return graph.forward

    def work(tensor: torch.Tensor) -> None:
        tensor[1:] = 0
        tensor.add_(1)

    fast = torch.compile(work, backend=backend, fullgraph=must_compile)
    here = Here()
    operand = here.operand(data)
    with ArenaWatch(arena(), here.note) as watch:
        fast(operand.tensor)
    first = operand.tensor.data_ptr() + 1
    line = work.__code__.co_firstlineno + 1
    written = [(first, f"test_watch_drawn.py:{line}")]
    assert here.noted == written * operand.is_watched
    assert watch.touched == ["aten::add_.Tensor"] * operand.is_watched
    assert compiled == []
    fast(torch.ones(SIZE))
    assert len(compiled) == 1
