import ast
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.cli.export import export
from kvzero.codec import Finding
from kvzero.errors import CaseError, ReportError, SubjectError
from kvzero.layout import Allocation, Layout, Run

LONG_PAGE = Layout(2, (Allocation(16400),), (Run(4100, 8200),))
CASE = Case(LONG_PAGE, (Call((IdRun(1),)),))
FOUND = Finding(
    "listed_pages_are_zero",
    "fault",
    "listed-byte-not-zero",
    "tail-not-written",
    "footprint",
    failure="listed_pages_are_zero: block 1, byte 4096 was not stored",
)


def invoke(*arguments: str) -> Result:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(export)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=True)


@pytest.fixture
def failing(tmp_path: Path) -> str:
    write_case_file(tmp_path / "case.json", CASE, FOUND)
    return str(tmp_path / "case.json")


def test_export_says_where_it_cannot_write(failing: str) -> None:
    # /dev/null is no folder, for root neither.
    error = invoke(failing, "-o", "/dev/null/alone.py").exception
    assert isinstance(error, ReportError)
    assert str(error).startswith("/dev/null/alone.py cannot be written: ")


@pytest.mark.slow
def test_export_writes_a_script_that_fails_by_itself(
    failing: str, tmp_path: Path
) -> None:
    path = tmp_path / "alone.py"
    assert invoke(failing, "-o", str(path)).exit_code == 0
    # The interpreter is fresh, and kvzero cannot be imported in it.
    run = f"runpy.run_path({str(path)!r}, run_name='__main__')"
    blocked = f"import runpy, sys; sys.modules['kvzero'] = None; {run}"
    ran = subprocess.run(
        [sys.executable, "-I", "-c", blocked],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={},
        cwd=tmp_path,
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "THE FAULT SHOWS" in ran.stdout


def test_export_prints_the_script_where_no_file_is_named(failing: str) -> None:
    ran = invoke(failing)
    assert ran.exit_code == 0
    ast.parse(ran.stdout)
    assert "# case     case.json: 1 segment, 2 blocks, 1 call\n" in ran.stdout
    assert "# listed_pages_are_zero: block 1, byte 4096 was not stored\n" in ran.stdout
    assert "sys.exit(main(CASE, TailNotWrittenZeroer))" in ran.stdout


def test_export_takes_another_subject_than_the_file_names(failing: str) -> None:
    ran = invoke(failing, "--subject", "masked-3d")
    assert "sys.exit(main(CASE, Masked3DZeroer))" in ran.stdout


def test_export_refuses_a_case_that_names_no_subject(tmp_path: Path) -> None:
    write_case_file(tmp_path / "case.json", CASE)
    ran = invoke(str(tmp_path / "case.json"))
    assert isinstance(ran.exception, SubjectError)
    assert "name it with --subject" in str(ran.exception)


def test_export_refuses_what_is_no_case(tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text("{")
    assert isinstance(invoke(str(tmp_path / "case.json")).exception, CaseError)
