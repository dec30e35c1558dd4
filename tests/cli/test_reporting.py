"""``--report`` of each verb: its files, and what it says to GitHub."""

import json
import re
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from kvzero.campaign.faults import Kill, Matrix, Row
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.cli.reporting import FORMS
from kvzero.layout import Allocation, Layout, Run
from kvzero.subjects.faults import fault_subjects
from tests.cli.conftest import Kvzero

SMALL = Layout(2, (Allocation(16),), (Run(4, 8),))
BROKEN = ("verify", "case.json", "--subject", "page-as-stride")


@pytest.fixture(autouse=True)
def _case_file(tmp_path: Path) -> None:
    """Save a case that shows the fault of page-as-stride."""
    write_case_file(tmp_path / "case.json", Case(SMALL, (Call((IdRun(1),)),)))


@pytest.mark.slow
def test_a_failing_run_is_reported_in_every_form(
    kvzero: Kvzero, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    outcome = kvzero(*BROKEN, "--report", ",".join(FORMS), "--report-dir", "out/r")
    assert outcome.code == 1
    page = Path("out/r/report.html").read_text()
    assert "kvzero replay case.json --subject page-as-stride" in page
    root = fromstring(Path("out/r/junit.xml").read_bytes())
    assert int(root.get("failures", "0")) >= 1
    told = json.loads(Path("out/r/report.json").read_text())
    assert told["exit_code"] == 1
    assert told["command"].startswith(
        "kvzero verify case.json --subject page-as-stride"
    )
    assert told["results"][0]["verdict"] == "fault"
    assert re.search(
        r"^::error file=case\.json,title=page-as-stride", outcome.out, re.MULTILINE
    )
    assert "<b>fault&#58;" in (tmp_path / "summary.md").read_text()


def test_annotations_leave_a_json_document_alone(kvzero: Kvzero) -> None:
    outcome = kvzero("replay", *BROKEN[1:], "--json", "--report", "github")
    assert outcome.json
    assert "::error " in outcome.err
    assert not Path("kvzero-report").exists()


def test_fuzz_reports_in_its_usual_folder(kvzero: Kvzero) -> None:
    outcome = kvzero("fuzz", "--max-examples", "3", "--seed", "1", "--report", "junit")
    assert outcome.code == 0
    suite = fromstring(Path("kvzero-report/junit.xml").read_bytes())[0]
    assert suite.get("name") == "kvzero"
    assert [suite.get("failures"), suite.get("errors")] == ["0", "0"]


def test_the_kill_matrix_is_reported(
    kvzero: Kvzero, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = next(each for each in fault_subjects() if each.name == "page-as-stride")
    matrix = Matrix((Row(fault, (Kill(fault, "footprint", 0, 9),)),), (0,), 1.0)
    monkeypatch.setattr("kvzero.cli.faults.kill_matrix", lambda **_: matrix)
    outcome = kvzero("faults", "--report", "html,junit,github")
    assert outcome.code == 1
    assert "::error title=kvzero faults%3A page-as-stride survived::" in outcome.out
    page = Path("kvzero-report/report.html").read_text()
    assert "0 of 1 fault killed with 1 seed each" in page
    suite = fromstring(Path("kvzero-report/junit.xml").read_bytes())[0]
    assert suite.get("failures") == "1"


def test_an_unknown_form_is_refused_before_anything_runs(kvzero: Kvzero) -> None:
    outcome = kvzero(*BROKEN, "--report", "html,pdf")
    assert outcome.code == 2
    assert "report='pdf', but must be some of html, junit, json, github" in outcome.err


def test_a_folder_that_cannot_be_is_refused_before_anything_runs(
    kvzero: Kvzero,
) -> None:
    Path("file").write_text("")
    outcome = kvzero(*BROKEN, "--report", "html", "--report-dir", "file/r")
    assert outcome.code == 3
    assert "report-dir=file/r cannot be made: Not a directory" in outcome.err
