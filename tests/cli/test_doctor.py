import json

import pytest
import typer
from typer.testing import CliRunner, Result

from kvzero.cli import doctor as verb
from kvzero.cli.doctor import doctor
from kvzero.limits import LIMITS
from kvzero.report.doctor import Diagnosis


def invoke(*arguments: str) -> Result:
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(doctor)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=True)


def test_doctor_exits_0_where_something_can_be_judged() -> None:
    ran = invoke()
    assert ran.exit_code == 0
    for heading in ("executors", "memory", "launch limits", "not judged here"):
        assert f"\n{heading}" in ran.stdout


def test_doctor_prints_one_json_document() -> None:
    ran = invoke("--json")
    assert ran.exit_code == 0
    document = json.loads(ran.stdout)
    assert document["can_judge"] is True
    assert len(document["limits"]) == len(LIMITS)
    assert set(document["executors"]) == {"device", "footprint", "host"}


def test_doctor_exits_3_where_nothing_can_be_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nothing = Diagnosis(
        dict.fromkeys(("kvzero", "torch", "triton", "numpy")), "3.11", executors={}
    )
    nothing.versions.update(
        dict.fromkeys(("hypothesis", "pytest", "pytest-xdist", "rich", "typer"))
    )
    monkeypatch.setattr(verb, "diagnose", lambda: nothing)
    assert invoke().exit_code == 3
