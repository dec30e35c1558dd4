"""The verbs take their defaults from the configuration; the command line wins."""

import json
from pathlib import Path

import pytest

from kvzero.cli.app import app
from kvzero.cli.configured import VERBS, default_map
from kvzero.configuration import OPTIONS
from tests.cli.conftest import Kvzero

PRESET = ("verify", "--preset", "trtllm_llama3_8b_pool", "--json")


def configure(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.kvzero]\n{text}\n", encoding="utf-8")


def test_the_file_is_the_default_and_the_command_line_wins(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    configure(tmp_path, 'subject = "torch-loop"\nexecutor = "footprint"')
    assert kvzero(*PRESET).json["subject"] == "torch-loop"
    assert kvzero(*PRESET, "--subject", "index-fill").json["subject"] == "index-fill"


def test_the_environment_wins_over_the_file(
    kvzero: Kvzero, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, 'subject = "torch-loop"\nexecutor = "footprint"')
    monkeypatch.setenv("KVZERO_SUBJECT", "index-fill")
    assert kvzero(*PRESET).json["subject"] == "index-fill"


@pytest.mark.parametrize("text", ['subjet = "kvzero"', 'executor = "gpu"'])
def test_a_wrong_configuration_is_a_usage_error_in_one_line(
    text: str, kvzero: Kvzero, tmp_path: Path
) -> None:
    configure(tmp_path, text)
    outcome = kvzero(*PRESET)
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = outcome.err.splitlines()
    assert line.startswith("kvzero: ConfigurationError: ")
    assert str(tmp_path / "pyproject.toml") in line


def test_every_option_reaches_each_verb_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"executor": "host", "strict-cost": "1", "case-deadline": "9s"}
    for option in OPTIONS:
        monkeypatch.setenv(option.variable, texts.get(option.name, "7"))
    monkeypatch.chdir(tmp_path)
    found = default_map(app)
    names = {option.parameter for option in OPTIONS}
    assert set(found) == set(VERBS)
    assert set(found["fuzz"]) == names
    assert set(found["verify"]) == set(found["replay"]) == names - {"regressions"}
    assert found["verify"]["subject"] == ["7"]
    assert found["fuzz"]["strict_cost"] is True


def test_a_path_of_the_file_is_shown_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, f'regressions = "deep/er"\nknown = {json.dumps("k.toml")}')
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    found = default_map(app)["fuzz"]
    assert found == {"regressions": "er", "known": str(tmp_path / "k.toml")}
