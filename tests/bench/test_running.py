"""A run on a card that only pretends to take time: verdicts, order, notes, limits."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from kvzero.bench.cards import Times
from kvzero.bench.contenders import TimedCall
from kvzero.bench.records import EMPTY, MEMSET, Record, Report
from kvzero.bench.running import Bench, Request
from kvzero.errors import EnvironmentMissingError, LayoutError
from tests.bench.made import BEYOND, ORIGIN, RAISING, RIGHT, SHORT, WARMED, CpuCard

PRESET = "vllm_gemma4_26b_a4b_unified_pages"
OTHER = "vllm_gemma3_27b_seven_groups"
ALL = (RIGHT, SHORT, BEYOND, RAISING)


@pytest.fixture(autouse=True)
def made_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(names: list[str] | None) -> tuple[list[Any], dict[str, str]]:
        missing = {} if names else {"vllm": "no module named vllm"}
        return [s for s in ALL if names is None or s.name in names], missing

    monkeypatch.setattr("kvzero.bench.running.find_subjects", found)


def report_of(card: CpuCard | None, **request: Any) -> Report:
    request = {"layouts": [PRESET], "sizes": (1, 3)} | request
    return Bench(Request(**request), ORIGIN, card).run()


def rows(report: Report) -> dict[tuple[str, int], Record]:
    return {(record.subject, record.n_blocks): record for record in report.records}


def notes(report: Report) -> list[str]:
    parts = ((n.preset, n.subject, n.n_blocks, n.text) for n in report.notes)
    return [", ".join(str(part) for part in told if part) for told in parts]


def test_ratios_are_memsets_time_over_the_own(card: CpuCard) -> None:
    card.us = {MEMSET: 2.0, EMPTY: 1.0, "right": 2.5}
    found = rows(report_of(card))
    assert found["right", 3].time_us == 2.5
    assert found["right", 3].ratio_to_memset == 0.8
    assert found[MEMSET, 3].ratio_to_memset == 1.0
    assert found[EMPTY, 3].ratio_to_memset is None
    assert found[EMPTY, 3].bytes == 0
    assert found["right", 3].bytes == found[MEMSET, 3].bytes == 3 * 655_360
    assert found["right", 3].min_page_bytes == 131_072
    assert (found["right", 3].host_us or 0) > 0


def test_a_wrong_contender_is_told_and_never_timed(card: CpuCard) -> None:
    report = report_of(card)
    assert card.asked == [(MEMSET, EMPTY, "right")] * 2
    found = rows(report)
    for name in ("short", "beyond", "raising"):
        assert found[name, 1].time_us is None
        assert found[name, 1].host_us is None
    said = notes(report)
    where = f"{PRESET}, short, 1, "
    old = "WRONG: listed pages are not zero: 1 words of them hold old bytes; not timed"
    assert where + old in said
    assert any("beyond, 3, WRONG: bytes of no listed" in note for note in said)
    assert any("raising, 3, raised ValueError: some;" in note for note in said)


def test_nobody_is_blamed_for_what_a_warm_up_has_zeroed(
    card: CpuCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [RIGHT, WARMED]
    monkeypatch.setattr("kvzero.bench.running.find_subjects", lambda _: (both, {}))
    assert notes(report_of(card)) == []
    assert card.asked == [(MEMSET, EMPTY, "right", "warmed")] * 2


def test_what_is_not_installed_is_a_note(card: CpuCard) -> None:
    assert "vllm, skipped: no module named vllm" in notes(report_of(card))


def test_without_a_gpu_bytes_are_known_and_times_are_not() -> None:
    report = report_of(None)
    found = rows(report)
    assert "no GPU: times not measured" in notes(report)
    assert found["right", 3].bytes == 3 * 655_360
    assert found["right", 3].time_us is None
    assert (MEMSET, 3) not in found


def test_a_slow_contender_is_not_tried_on_longer_lists(card: CpuCard) -> None:
    card.us = {"right": 1e6}
    report = report_of(card)
    assert card.asked == [(MEMSET, EMPTY, "right"), (MEMSET, EMPTY)]
    assert rows(report)["right", 3].time_us is None
    said = f"{PRESET}, right, 3, not tried, since 1 blocks took 1,000 ms"
    assert said in notes(report)


def test_times_of_events_are_told(card: CpuCard) -> None:
    card.by_events = frozenset({"right"})
    said = "right, timed by events around calls, no graph can hold them"
    assert f"{PRESET}, {said}" in notes(report_of(card))


def test_a_layout_without_room_is_a_note_and_the_next_is_measured(
    card: CpuCard,
) -> None:
    card.free = 700_000  # one block of the first is 1,310,720 B, of the second 655,360
    report = report_of(card, layouts=[OTHER, PRESET])
    assert any(f"{OTHER}, no room: LayoutError: one block" in n for n in notes(report))
    assert {record.preset for record in report.records} == {PRESET}
    assert {record.n_blocks for record in report.records} == {1}


def test_several_allocations_leave_memset_as_much_again(card: CpuCard) -> None:
    card.free = 6 * 3_506_336
    report = report_of(card, layouts=["mixed181-separate"], sizes=(10**6,))
    (n_blocks,) = {record.n_blocks for record in report.records}
    assert n_blocks == 3


def test_memory_that_runs_out_in_a_row_is_a_note(
    card: CpuCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(_calls: Mapping[str, TimedCall], _rounds: int) -> Times:
        raise torch.OutOfMemoryError("out of it")

    monkeypatch.setattr(card, "times", times)
    report = report_of(card)
    assert any("3, not timed: OutOfMemoryError" in note for note in notes(report))
    assert rows(report)["right", 3].time_us is None


def test_a_dead_device_ends_the_run_and_keeps_what_there_is(card: CpuCard) -> None:
    calls = iter(range(100))

    def wait() -> None:
        if next(calls) > 12:
            raise EnvironmentMissingError("cuda:0 died")

    card.wait = wait  # type: ignore[method-assign]  # the device dies here
    report = report_of(card, layouts=[PRESET, OTHER])
    assert any(
        "ended here: EnvironmentMissingError: cuda:0 died" in n for n in notes(report)
    )
    assert {record.preset for record in report.records} <= {PRESET}


def test_an_interrupted_run_keeps_what_there_is(
    card: CpuCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(_calls: Mapping[str, TimedCall], _rounds: int) -> Times:
        raise KeyboardInterrupt

    monkeypatch.setattr(card, "times", times)  # somebody presses Ctrl-C
    report = report_of(card, layouts=[PRESET, OTHER])
    assert f"{PRESET}, interrupted here" in notes(report)
    assert not report.records


def test_no_layout_is_begun_after_the_time(card: CpuCard) -> None:
    report = report_of(card, layouts=[PRESET, OTHER], seconds=0.0)
    assert f"{OTHER}, left out: the time is up" in notes(report)


def test_an_unknown_layout_is_refused_before_anything_runs(card: CpuCard) -> None:
    with pytest.raises(LayoutError, match="preset='nowhere'"):
        report_of(card, layouts=[PRESET, "nowhere"])
    assert not card.asked


def test_a_quick_run_cuts_a_models_pool(card: CpuCard) -> None:
    card.free = 2**23
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("kvzero.bench.running.QUICK_POOL_BYTES", 2**21)
        report = report_of(card, quick=True, sizes=None)
    assert {record.n_blocks for record in report.records} == {1, 3}
