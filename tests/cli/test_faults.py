"""The verb `faults`, over a few faults that are caught at once."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from kvzero.campaign.faults import Matrix, kill_matrix
from kvzero.cli import faults as verb
from kvzero.cli.faults import faults
from kvzero.report.known_faults import known_faults_page
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits

KEYS = {
    *("name", "kind", "killed", "needs_gpu", "property"),
    *("executor", "cases", "seconds", "runs", "blocks"),
}
BY_NAME = {fault.name: fault for fault in fault_subjects()}
QUICK = BY_NAME["id-0-skipped"]
HARMLESS = Fault(
    "harmless",
    TRUSTS_IDS,
    WithinLimits,
    kind="none",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
ON_GPU = replace(HARMLESS, name="on-a-gpu", needs_gpu=True)

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Return what runs the verb over the given faults, in this process."""

    def run(chosen: list[Fault], *arguments: str) -> Result:
        def matrix(**options: object) -> Matrix:
            options["faults"] = chosen
            return kill_matrix(**options)  # type: ignore[arg-type]  # the verb's own

        monkeypatch.setattr(verb, "kill_matrix", matrix)
        monkeypatch.setattr("kvzero.executors.device.device_available", lambda: False)
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command()(faults)
        given = ["--workers", "1", "--max-examples", "20", *arguments]
        return CliRunner().invoke(app, given, catch_exceptions=False)

    return run


def test_faults_exits_0_where_every_fault_is_killed(invoke: Invoke) -> None:
    ran = invoke([QUICK, BY_NAME["header-kept"]], "--json")
    assert ran.exit_code == 0
    document = json.loads(ran.stdout)
    assert document["survivors"] == []
    for told in document["faults"]:
        assert set(told) >= KEYS
        assert told["killed"] is True
        assert told["executor"] == "footprint"
        assert (told["runs"], told["blocks"]) == (1, 1)


def test_faults_exits_1_and_names_a_survivor(invoke: Invoke) -> None:
    ran = invoke([QUICK, HARMLESS])
    assert ran.exit_code == 1
    assert "SURVIVED: harmless" in ran.stdout
    assert "1 of 2 faults killed by each of 1 seeds" in ran.stdout


def test_a_violation_that_is_not_the_declared_one_is_no_kill(invoke: Invoke) -> None:
    other = replace(QUICK, breaks="unlisted_bytes_are_untouched")
    assert invoke([other]).exit_code == 1


def test_a_fault_that_needs_a_gpu_is_listed_and_never_green(invoke: Invoke) -> None:
    ran = invoke([QUICK, ON_GPU], "--json")
    assert ran.exit_code == 0
    told = json.loads(ran.stdout)["faults"][1]
    assert (told["killed"], told["needs_gpu"], told["executor"]) == (False, True, None)
    assert "not judged: 1 faults need a GPU" in invoke([QUICK, ON_GPU]).stdout


def test_faults_exits_5_where_nothing_can_be_judged(invoke: Invoke) -> None:
    assert invoke([ON_GPU]).exit_code == 5


def test_every_seed_must_kill(invoke: Invoke) -> None:
    ran = invoke([QUICK], "--seeds", "2", "--json")
    document = json.loads(ran.stdout)
    assert document["seeds"] == [0, 1]
    assert document["faults"][0]["survived_seeds"] == []


def test_faults_writes_the_page_of_known_faults_and_fuzzes_nothing(
    invoke: Invoke, tmp_path: Path
) -> None:
    page = tmp_path / "known-faults.md"
    assert invoke([HARMLESS], "--page", str(page)).exit_code == 0
    assert page.read_text() == known_faults_page()
