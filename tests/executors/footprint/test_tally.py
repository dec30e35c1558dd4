"""What the stores of a launch cost."""

import pytest
import torch

from kvzero.case import Call, Case, IdRun, id_runs
from kvzero.executors.footprint import FootprintExecutor
from kvzero.executors.footprint.facts import again_writer
from kvzero.layout import Allocation, Layout, Run
from kvzero.limits import LaunchShape
from kvzero.observation import CallObservation, Launch, Observation
from kvzero.properties.bytes_are_stored_once import (
    allowed_again_bytes,
    bytes_are_stored_once,
)
from kvzero.properties.verdict import Broken, Holds
from kvzero.properties.work_is_bounded import work_is_bounded
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
        (violation,) = result.violations
        assert violation.kind == "cost"
        assert violation.place.startswith("subjects.py:")
        details = dict(violation.details)
        assert details["written"].startswith("again by program (")
        assert details["width"] == "1 B at the narrowest"


@pytest.mark.parametrize("ids", [(3, 3), (5, 3, 4, 5)])
def test_who_stored_a_byte_again_is_the_program_of_the_later_id(
    ids: tuple[int, ...],
) -> None:
    case = Case(
        Layout(8, (Allocation(4096),), (Run(100, 512),)), (Call(id_runs(list(ids))),)
    )
    subject = MadeSubject("test", Contract(), subjects.PageZeroer)
    again_by = FootprintExecutor().run(subject, case).calls[0].again_by
    assert again_by is not None
    assert again_by.program == (len(ids) - 1, 0, 0)


def test_bytes_that_all_programs_store_alike_name_one_of_them() -> None:
    bench = Bench()
    words = bench.memory.view(torch.int32)
    result = bench.launch(lambda: kernels.stores_alike[(3, 2)](words, 7, LANES=8))
    again_by = again_writer([result])
    assert again_by is not None
    assert again_by.program == (0, 0, 0)
    assert again_by.place.startswith("order_kernels.py:")


def test_first_idle_program_is_known() -> None:
    bench = Bench()
    words = bench.memory.view(torch.int32)
    result = bench.launch(lambda: kernels.stores_halves[(7, 3)](words, 11, LANES=8))
    first = result.tally.first_idle
    assert first is not None
    stored = {store.program_of(0) for store in result.stores}
    assert first not in stored


def test_too_many_programs_say_how_many_did_nothing_and_the_first() -> None:
    layout = Layout(1, (Allocation(4),), (Run(4, 4),))
    case = Case(layout, (Call((IdRun(0, 1),)),))
    call = CallObservation(programs=10_000, idle_programs=9_999, idle_program=(1, 0, 0))
    launch = Launch(0, "kernel", "kernels.py:7", LaunchShape((10_000, 1, 1)))
    seen = Observation("s", "footprint", "TTIR", "", (call,), (launch,))
    result = work_is_bounded(case, seen)
    assert isinstance(result, Broken)
    assert dict(result.violations[0].details)["idle"] == (
        "9,999 programs stored nothing, the first (1, 0, 0), of kernels.py:7"
    )


def test_pages_that_share_bytes_are_not_blamed() -> None:
    layout = Layout(4, (Allocation(4096),), (Run(100, 512, 2, 0),))
    case = Case(layout, (Call((IdRun(0),)),))
    assert allowed_again_bytes(case, 0) == 0
