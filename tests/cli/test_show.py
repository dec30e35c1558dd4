from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.cli.show import show
from kvzero.codec import Finding
from kvzero.errors import CaseError, LayoutError
from kvzero.layout import Allocation, Layout, Run

PACKED = Layout(2, (Allocation(32),), (Run(8, 16), Run(8, 16, 8)))
CASE = Case(PACKED, (Call((IdRun(1),)),))


def invoke(*arguments: str) -> Result:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(show)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=True)


@pytest.fixture
def failing(tmp_path: Path) -> str:
    path = tmp_path / "case.json"
    found = Finding(
        "listed_pages_are_zero", "fault", "x", "page-as-stride", "footprint"
    )
    write_case_file(path, CASE, found)
    return str(path)


def test_show_runs_a_failing_case_again_and_marks_the_wrong_bytes(failing: str) -> None:
    ran = invoke(failing, "--executor", "footprint")
    assert ran.exit_code == 0
    lines = ran.stdout.splitlines()
    assert lines[0].startswith("listed_pages_are_zero: block 1, byte 0 = 0x")
    assert f"  replay   kvzero replay {failing}" in lines
    at = lines.index("allocation 0; 1 column = 1 B")
    assert lines[at + 3 : at + 7] == [
        "  segment   ::::::::AaaaaaaaBbbbbbbbAaaaaaaaBbbbbbbb::::::::",
        "  call 1                            ================",
        "  missed 1                                  !!!!!!!!",
        "  touched 1                 XXXXXXXX",
    ]


def test_show_says_so_where_a_subject_breaks_nothing(failing: str) -> None:
    ran = invoke(failing, "--subject", "kvzero", "--executor", "footprint")
    assert ran.exit_code == 0
    assert ran.stdout.startswith("kvzero breaks nothing on ")
    assert "missed" not in ran.stdout


def test_show_draws_a_case_that_names_no_subject_without_running_it(
    tmp_path: Path,
) -> None:
    write_case_file(tmp_path / "case.json", CASE)
    ran = invoke(str(tmp_path / "case.json"))
    assert ran.exit_code == 0
    assert "not run, it names no subject" in ran.stdout
    assert "allocation 0; 1 column = 1 B" in ran.stdout


def test_show_draws_a_preset_at_full_size() -> None:
    ran = invoke("--preset", "vllm_pr52058_dsv4_181seg_9344_292")
    assert ran.exit_code == 0
    assert "181 segments, 6,871 blocks, 1 allocation" in ran.stdout
    assert "90 times, every 39,168 B" in ran.stdout


def test_show_writes_no_colour_where_there_is_no_terminal(failing: str) -> None:
    assert "\x1b" not in invoke(failing, "--executor", "footprint").stdout


@pytest.mark.parametrize("arguments", [(), ("a.json", "--preset", "x")])
def test_show_takes_either_a_file_or_a_preset(arguments: tuple[str, ...]) -> None:
    ran = invoke(*arguments)
    assert isinstance(ran.exception, CaseError)
    assert "either a FILE or --preset NAME" in str(ran.exception)


def test_show_refuses_unknown_presets_and_unreadable_files(tmp_path: Path) -> None:
    assert isinstance(invoke("--preset", "nowhere").exception, LayoutError)
    missing = invoke(str(tmp_path / "none.json"))
    assert isinstance(missing.exception, CaseError)
