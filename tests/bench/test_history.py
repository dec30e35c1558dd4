"""How numbers of the harness moved since the last record of the same machine."""

from pathlib import Path
from typing import Any

import pytest

from kvzero.bench.history import (
    append_record,
    changes,
    last_of_this_machine,
    read_history,
)
from kvzero.errors import CaseError


def record(speed: float = 100.0, kill: float = 1.0, **machine: Any) -> dict[str, Any]:
    return {
        "machine": {"gpu": None, "cpu": "x", "cores": 2, "system": "s"} | machine,
        "speeds": [{"executor": "host", "cases_per_s": speed, "launches_per_s": None}],
        "presets": [{"preset": "p", "executor": "host", "seconds": 2.0}],
        "kills": [{"fault": "f", "executor": "host", "seconds": kill}],
    }


@pytest.mark.parametrize(
    ("speed", "kill", "said"),
    [
        (100, 1.0, ["as before", "as before", "as before"]),
        (50, 2.0, ["SLOWER", "as before", "SLOWER"]),
        (200, 0.5, ["faster", "as before", "faster"]),
        (90, 1.1, ["as before", "as before", "as before"]),
    ],
)
def test_more_launches_and_fewer_seconds_are_better(
    speed: float, kill: float, said: list[str]
) -> None:
    found = list(changes(record(), record(speed, kill)))
    assert [change.verdict for change in found] == said
    assert [change.what for change in found] == ["host", "p on host", "f on host"]


def test_what_only_one_record_holds_is_not_compared() -> None:
    other = record() | {"kills": []}
    assert len(list(changes(record(), other))) == 2
    assert len(list(changes(other, record()))) == 2


def test_a_time_of_nothing_is_not_compared() -> None:
    assert len(list(changes(record(kill=0.0), record()))) == 2
    assert len(list(changes(record(), record(kill=0.0)))) == 2


def test_records_of_another_machine_are_passed_over() -> None:
    mine, other = record(speed=1), record(cpu="y")
    assert last_of_this_machine([mine, other], record()) == mine
    assert last_of_this_machine([other], record()) is None
    assert last_of_this_machine([mine], record(system="newer")) == mine


def test_a_record_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    assert read_history(path) == []
    append_record(path, [], record(1))
    append_record(path, read_history(path), record(2))
    assert read_history(path) == [record(1), record(2)]


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"machine": {}}]'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "speed.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CaseError, match=r"speed\.json"):
        read_history(path)
