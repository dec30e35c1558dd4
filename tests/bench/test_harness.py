"""What testing costs, measured for as short as it goes."""

import pytest

from kvzero.bench.harness import (
    HarnessRequest,
    chosen_faults,
    executor_names,
    measure_harness,
    using,
)
from kvzero.bench.harness_tables import harness_tables
from kvzero.errors import LayoutError, SubjectError
from tests.bench.made import ORIGIN

PRESET = "vllm_gemma4_26b_a4b_unified_pages"
TINY = HarnessRequest(["footprint"], [PRESET], ["id-0-skipped"], 3.0)


@pytest.mark.slow
def test_a_record_holds_speed_preset_and_kill() -> None:
    said: list[str] = []
    record = measure_harness(TINY, ORIGIN, said.append)
    (speed,), (told,), (kill,) = record.speeds, record.presets, record.kills
    assert (speed.executor, speed.cases > 0) == ("footprint", True)
    assert 0 < (speed.launches_per_s or 0) <= (speed.launches_per_s_checking or 0)
    assert (speed.to_the_byte or 0) <= (speed.launches or 0)
    assert (told.preset, told.programs > 0) == (PRESET, True)
    assert (kill.fault, kill.killed) == ("id-0-skipped", True)
    assert len(said) == 3
    document = record.as_json()
    assert set(document) >= {"machine", "versions", "command", "speeds", "kills"}
    for table in harness_tables(document).values():
        assert "footprint" in table or "kvzero bench" in table


def test_what_the_time_does_not_suffice_for_is_left_out() -> None:
    request = HarnessRequest([], [PRESET], ["id-0-skipped"], 0.1, seconds=-1.0)
    record = measure_harness(request, ORIGIN, lambda _line: None)
    assert record.left_out == [PRESET, "id-0-skipped"]
    assert not record.presets
    assert not record.kills


def test_unknown_names_are_refused_before_anything_is_measured() -> None:
    with pytest.raises(LayoutError, match="preset='nowhere'"):
        measure_harness(HarnessRequest([], ["nowhere"]), ORIGIN, print)
    with pytest.raises(SubjectError, match="fault='kvzero', but must be one of"):
        measure_harness(HarnessRequest([], [], ["kvzero"]), ORIGIN, print)


def test_faults_that_need_a_gpu_are_left_out_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvzero.bench.harness.device_available", lambda: True)
    with_gpu = chosen_faults(None)
    monkeypatch.setattr("kvzero.bench.harness.device_available", lambda: False)
    assert chosen_faults(None) == [f for f in with_gpu if not f.needs_gpu]
    assert executor_names(None) == ("footprint", "host")
    assert executor_names(["host"]) == ("host",)


def test_an_executor_gives_back_what_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Holder:
        closed = 0

        def close(self) -> None:
            self.closed += 1

    holder = Holder()
    monkeypatch.setattr("kvzero.bench.harness.executor_named", lambda *_, **__: holder)
    with pytest.raises(KeyError), using("device"):
        raise KeyError
    assert holder.closed == 1
