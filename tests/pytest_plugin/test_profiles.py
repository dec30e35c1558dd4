"""Hypothesis profiles: registered, none loaded, each complete in itself."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from kvzero.pytest_plugin.profiles import NAMES, STORAGE, register


@pytest.fixture(autouse=True)
def registered() -> None:
    register()


def test_registering_loads_none() -> None:
    before = settings.get_current_profile_name()
    register()
    assert settings.get_current_profile_name() == before
    assert before not in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_profile_fails_for_time(name: str) -> None:
    profile = settings.get_profile(name)
    assert profile.deadline is None
    assert HealthCheck.too_slow in profile.suppress_health_check
    assert HealthCheck.filter_too_much not in profile.suppress_health_check
    assert set(profile.phases) == set(Phase)


def test_the_profile_for_ci_gives_the_same_run_every_time() -> None:
    profile = settings.get_profile("kvzero-ci")
    assert profile.derandomize
    assert profile.database is None


def test_the_profile_for_the_night_is_new_every_time_and_keeps_what_it_finds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(STORAGE, str(tmp_path))
    register()
    profile = settings.get_profile("kvzero-nightly")
    assert not profile.derandomize
    assert profile.database is not None
    profile.database.save(b"key", b"value")
    assert any((tmp_path / "examples").rglob("*"))
    assert profile.max_examples > settings.get_profile("kvzero-ci").max_examples


def test_a_profile_does_not_depend_on_the_one_that_is_loaded() -> None:
    before = {name: repr(settings.get_profile(name)) for name in NAMES}
    loaded = settings.get_current_profile_name()
    settings.load_profile("ci")
    try:
        register()
        after = {name: repr(settings.get_profile(name)) for name in NAMES}
    finally:
        settings.load_profile(loaded)
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize("chosen_by", ["conftest", "option"])
def test_a_profile_is_there_when_it_is_asked_for(
    chosen_by: str, tmp_path: Path
) -> None:
    in_conftest = 'settings.load_profile("kvzero-nightly")'
    arguments = ["--hypothesis-profile", "kvzero-nightly"]
    if chosen_by == "conftest":
        (tmp_path / "conftest.py").write_text(
            f"from hypothesis import settings\n{in_conftest}\n", encoding="utf-8"
        )
        arguments = []
    (tmp_path / "test_it.py").write_text(
        "from hypothesis import settings\n"
        "def test_it():\n"
        "    assert settings.get_current_profile_name() == 'kvzero-nightly'\n"
        "    assert not settings().derandomize\n"
        "    assert settings().database is not None\n",
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=tmp_path,
        env={"CI": "true", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
