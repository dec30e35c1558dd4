"""What is built: every file that the package reads is in it, code and data."""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kvzero"


def setuptools() -> dict[str, Any]:  # Any: parsed TOML
    with (ROOT / "pyproject.toml").open("rb") as file:
        parsed: dict[str, Any] = tomllib.load(file)
    return parsed["tool"]["setuptools"]  # type: ignore[no-any-return]  # parsed TOML


def packaged() -> set[Path]:
    """Return the data files that a wheel takes."""
    patterns = setuptools()["package-data"]["kvzero"]
    return {path for pattern in patterns for path in PACKAGE.glob(pattern)}


def data_files() -> set[Path]:
    """Return what lies in the package and is no code."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file())
    return {path for path in files if path.suffix not in (".py", ".pyc")}


def test_a_wheel_has_every_data_file_of_the_package() -> None:
    assert data_files() - packaged() == set()


def test_no_data_pattern_is_left_over() -> None:
    patterns = setuptools()["package-data"]["kvzero"]
    assert all(any(PACKAGE.glob(pattern)) for pattern in patterns)


def test_strategies_is_a_relative_link_to_the_folder_at_the_top() -> None:
    link = PACKAGE / "strategies"
    if not (ROOT / "strategies").is_dir():
        pytest.skip("this is an sdist, which has the files themselves in place")
    assert link.is_symlink()
    assert link.readlink() == Path("../strategies")


def test_the_manifest_names_what_is_there() -> None:
    words = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    named = [name for first, *names in words for name in names if first == "graft"]
    named += [name for first, *names in words for name in names if first == "include"]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_data_file_is_committed_or_new() -> None:
    try:
        ignored = subprocess.run(
            ["git", "check-ignore", *map(str, data_files())],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except FileNotFoundError:
        pytest.skip("there is no git")
    if ignored.returncode == 128:
        pytest.skip("this is no git checkout")
    assert ignored.stdout == ""
