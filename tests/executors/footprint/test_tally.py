"""What the stores of a launch cost."""

import pytest
import torch

from kvzero.case import Call, Case, IdRun, id_runs
from kvzero.executors.footprint import FootprintExecutor
from kvzero.layout import Allocation, Layout, Run
from kvzero.properties.bytes_are_stored_once import (
    allowed_again_bytes,
    bytes_are_stored_once,
)
from kvzero.properties.verdict import Broken, Holds
from kvzero.subjects.protocol import Contract, MadeSubject
from tests.executors.footprint import order_kernels as kernels
from tests.executors.footprint import subjects
from tests.executors.footprint.bench import Bench


@pytest.mark.parametrize("part", [2**19, 5, 1])
def test_idle_programs_and_bytes_are_counted_over_parts_and_branches(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvzero.executors.footprint.evaluate.PART_PROGRAMS", part)
    bench = Bench()
    words = bench.memory.view(torch.int32)
    result = bench.launch(lambda: kernels.stores_halves[(7, 3)](words, 11, LANES=8))
    assert result.tally.stored_bytes == 5 * 2
    assert result.tally.idle_programs == 21 - 5
    assert result.tally.narrowest_bytes == 1
    assert result.again_bytes == 0


@pytest.mark.parametrize("value", [0, 7])
def test_store_of_all_programs_alike_counts_for_each(value: int) -> None:
    bench = Bench()
    words = bench.memory.view(torch.int32)
    result = bench.launch(lambda: kernels.stores_alike[(3, 2)](words, value, LANES=8))
    assert result.tally.stored_bytes == 6 * 32
    assert result.again_bytes == 5 * 32
    assert (result.tally.idle_programs, result.tally.narrowest_bytes) == (0, 4)


def test_shared_atomics_count_once() -> None:
    bench = Bench()
    words = bench.memory.view(torch.int32)
    result = bench.launch(lambda: kernels.counts[(9,)](words, 0, LANES=8))
    assert (result.again_bytes, result.tally.idle_programs) == (0, 9)


@pytest.mark.parametrize(
    ("ids", "zeroer", "again"),
    [
        ((3, 5), subjects.PageZeroer, 0),
        ((3, 5, 3, 3), subjects.PageZeroer, 200),
        ((3, 5), subjects.TwiceZeroer, 200),
        ((3, 5, 3), subjects.TwiceZeroer, 400),
    ],
)
def test_only_bytes_that_the_list_names_once_are_blamed(
    ids: tuple[int, ...], zeroer: type, again: int
) -> None:
    layout = Layout(8, (Allocation(4096),), (Run(100, 512),))
    case = Case(layout, (Call(id_runs(list(ids))),))
    seen = FootprintExecutor().run(MadeSubject("test", Contract(), zeroer), case)
    assert seen.calls[0].again_bytes == again
    assert allowed_again_bytes(case, 0) == 100 * (len(ids) - len(set(ids)))
    result = bytes_are_stored_once(case, seen)
    assert isinstance(result, Broken if zeroer is subjects.TwiceZeroer else Holds)
    if isinstance(result, Broken):
        assert [v.kind for v in result.violations] == ["cost"]


def test_pages_that_share_bytes_are_not_blamed() -> None:
    layout = Layout(4, (Allocation(4096),), (Run(100, 512, 2, 0),))
    case = Case(layout, (Call((IdRun(0),)),))
    assert allowed_again_bytes(case, 0) == 0
