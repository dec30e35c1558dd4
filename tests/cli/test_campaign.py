"""Campaigns on the command line: found, shrunk, saved, resumed, whatever happens."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
import torch
from rich.console import Console

from kvzero.campaign.tally import Tally
from kvzero.campaign.watching import Snapshot, WorkerView
from kvzero.cli.live import drawn, summary
from kvzero.cli.output import Progress
from tests.campaign.test_folder import an_entry

from .conftest import Kvzero

WILD = Path(__file__).parents[1] / "campaign"
REGRESSIONS = Path(__file__).parents[2] / "regressions"
ON = ("--executor", "footprint", "--seed", "4", "--json")
SHORT = ("--shrink-time", "2s")
WAIT_SECONDS = 120.0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--resume",), "--resume, but must come with --corpus DIR"),
        (("-n", "0"), "but must be auto or 1 to"),
        (("-n", "many"), "but must be auto or 1 to"),
        (("-n", "1", "--seek", "cuda-y"), "--seek, but a campaign cannot obey it"),
        (("-n", "1", "--no-isolate"), "--isolate, but a campaign cannot obey it"),
        (("--gpus", "0", "--executor", "footprint"), "needs none: leave it out"),
        (("--gpus", "0", "--ray", "local"), "--gpus, but with --ray its cluster gives"),
        (("--corpus", "c", "--resume"), "but must hold a campaign of version"),
        (("--corpus", __file__), "for '--corpus': "),
    ],
)
def test_what_no_campaign_can_obey_is_bad_usage(
    kvzero: Kvzero, arguments: tuple[str, ...], says: str
) -> None:
    outcome = kvzero("fuzz", *arguments)
    assert outcome.code == 2
    assert says in " ".join(outcome.err.replace("│", " ").split())


def test_a_ray_cluster_that_is_not_there_is_one_error(kvzero: Kvzero) -> None:
    outcome = kvzero("fuzz", "--ray", "127.0.0.1:1")
    assert outcome.code == 3
    assert "EnvironmentMissingError: ray=127.0.0.1:1, but " in outcome.err


def snapshot(**changes: Any) -> Snapshot:
    worker = WorkerView(7, 1234, 99, "fuzzing", 2**29, 2**29)
    values: dict[str, Any] = {
        "seconds": 3725.0,
        "seconds_left": 75.0,
        "cases": 12345,
        "cases_left": None,
        "launches": 5,
        "launches_per_second": 321.4,
        "features": 70,
        "feature_pairs": 2100,
        "failures": (an_entry("byte[red]", count=3, state="settled"),),
        "others": 0,
        "workers": (worker,),
        "parent_bytes": 2**28,
        "why": "",
    }
    return Snapshot(**values | changes)


def test_the_live_view_shows_cases_speed_workers_features_findings_and_time() -> None:
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115 - closed with the test
    console.print(drawn("fuzz kvzero", snapshot()))
    text = console.export_text()
    console.file.close()
    for word in ("1:02:05", "12,345 cases", "321 launches", "70 of", "1:15 left"):
        assert word in text
    for word in ("7  fuzzing", "512", "byte[red]", "settled"):
        assert word in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"why": "time is up"}, "time is up: shrinking what was found"),
        ({"seconds_left": None, "cases_left": 1500}, "1,500 cases left"),
        ({"seconds_left": None}, "until it is stopped"),
    ],
)
def test_the_summary_says_what_is_left(changes: dict[str, Any], says: str) -> None:
    assert summary(snapshot(**changes)).endswith(says)


def events(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def wild(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the wild subject importable, here and in children."""
    monkeypatch.syspath_prepend(str(WILD))
    monkeypatch.setenv("PYTHONPATH", str(WILD))


def started(*arguments: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Start the command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "kvzero", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def await_event(folder: Path, name: str) -> None:
    """Wait until a campaign has told of an event."""
    until, pause = monotonic() + WAIT_SECONDS, Event()
    while monotonic() < until:
        path = folder / "events.jsonl"
        if path.exists() and f'"event": "{name}"' in path.read_text():
            return
        pause.wait(0.1)
    raise AssertionError(f"no event {name} in {WAIT_SECONDS:g} s")


@pytest.mark.slow
def test_a_campaign_keeps_a_corpus_that_the_next_one_runs_first(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    first = kvzero("fuzz", "--corpus", "c", "--max-examples", "60", *ON)
    assert (first.code, first.json["cases"]) == (0, 60)
    kept = len(list((tmp_path / "c" / "cases").iterdir()))
    assert 0 < kept < 60
    assert first.json["features"]["met"] > 30
    again = kvzero("fuzz", "--corpus", "c", "--max-examples", "1", *ON)
    assert again.json["cases"] == kept + 1
    assert again.json["features"]["met"] == first.json["features"]["met"]
    started_events = [e for e in events(tmp_path / "c") if e["event"] == "start"]
    assert [e["corpus"] for e in started_events] == [0, kept]
    listed = kvzero("corpus", "list", "c", "--json").json
    assert len(listed["cases"]) == kept
    smaller = kvzero("corpus", "minimize", "c", "--json").json
    assert smaller["before"] == kept
    after = kvzero("corpus", "list", "c", "--json").json
    assert len(after["cases"]) == kept - len(smaller["deleted"])
    assert after["feature_pairs"] == listed["feature_pairs"]


@pytest.mark.slow
@pytest.mark.usefixtures("wild")
def test_deaths_are_found_shrunk_saved_and_replayed_and_no_worker_is_lost(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    outcome = kvzero(
        *("fuzz", "--subject", "wild_campaign:OFTEN", "--corpus", "c", "-n", "2"),
        *("--max-examples", "60", "--case-deadline", "20s", *ON, *SHORT),
    )
    assert outcome.code == 1
    found = {each["what"]: each for each in outcome.json["violations"]}
    assert set(found) == {"killed-by-sigsegv", "killed-by-sigabrt"}
    assert outcome.json["cases"] == 60
    for what, violation in found.items():
        assert not violation["flaky"]
        replayed = kvzero("replay", violation["file"], *ON[:2], "--json")
        assert [each["what"] for each in replayed.json["violations"]] == [what]
    assert events(tmp_path / "c")[-1]["event"] == "stop"


@pytest.mark.slow
@pytest.mark.usefixtures("wild")
def test_a_campaign_that_is_killed_goes_on_and_loses_nothing(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    budget = ("--subject", "wild_campaign:OFTEN", "--max-examples", "80", *ON, *SHORT)
    whole = kvzero("fuzz", *budget, "--corpus", "whole").json
    process = started("fuzz", *budget, "--corpus", "cut", folder=tmp_path)
    await_event(tmp_path / "cut", "finding")
    process.kill()
    process.communicate()
    resumed = kvzero("fuzz", "--corpus", "cut", "--resume", "--json").json
    for key in ("cases", "launches", "programs", "judged"):
        assert resumed[key] == whole[key], key
    counts = [
        {each["what"]: each["n"] for each in result["violations"]}
        for result in (whole, resumed)
    ]
    assert counts[0] == counts[1]
    assert resumed["features"]["pairs"] == whole["features"]["pairs"]


@pytest.mark.slow
@pytest.mark.usefixtures("wild")
def test_a_workers_first_case_hangs_no_longer_than_another(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    budget = ("--max-examples", "1", "--case-deadline", "1s", "--shrink-time", "1s")
    subject = ("--subject", "wild_campaign:STUCK", "-n", "1", "--corpus", "c")
    assert kvzero("fuzz", *subject, *budget, *ON).code == 1
    ends = [e["why"] for e in events(tmp_path / "c") if e["event"] == "worker-ended"]
    assert ends[0] == "process hung: no answer in 1.25 s"


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_an_interrupt_keeps_what_was_verified(
    kvzero: Kvzero, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def interrupts(_progress: Progress, tally: Tally) -> None:
        if tally.cases == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", interrupts)
    name = "promises_hold/false-promise-c1e5c595.json"
    files = (str(REGRESSIONS / name),) * 4
    result = kvzero(
        command, *files, "--executor", "footprint", "--subject", "kvzero", "--json"
    ).json
    assert (result["verdict"], result["cases"]) == ("interrupted", 2)
    assert "interrupted: 2 of 4 cases were run, and nothing" in result["notes"][0]


@pytest.mark.slow
def test_an_interrupt_stops_all_workers_and_keeps_what_there_is(tmp_path: Path) -> None:
    process = started("fuzz", "-n", "1", "--corpus", "c", *ON, folder=tmp_path)
    await_event(tmp_path / "c", "kept")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130
    result = json.loads(out)
    assert result["verdict"] == "interrupted"
    last = events(tmp_path / "c")[-1]
    assert (last["event"], last["why"]) == ("stop", "interrupted")
    state = json.loads((tmp_path / "c" / "campaign.json").read_text())
    assert state["counts"]["cases"] == result["cases"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpus_context_is_no_growth_of_its_worker(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    budget = ("-n", "1", "--max-examples", "200", "--seed", "4", "--corpus", "c")
    assert kvzero("fuzz", "--executor", "device", *budget, "--json").code == 0
    starts = [e for e in events(tmp_path / "c") if e["event"] == "worker-started"]
    assert len(starts) == 1


@pytest.mark.slow
def test_a_full_disk_ends_a_campaign_with_one_clear_error(kvzero: Kvzero) -> None:
    outcome = kvzero("fuzz", "-n", "1", "--log", "/dev/full", *ON)
    assert outcome.code == 3
    assert "/dev/full: No space left on device, but must be writable" in outcome.err
    assert outcome.json["verdict"] == "nothing judged"
