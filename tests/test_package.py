"""What ``import kvzero`` gives, costs and refuses."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvzero

PACKAGE = Path(kvzero.__file__).parent


def run_python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that finds the kvzero of a folder first."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, '.')\n{code}"]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_public_names_are_sorted_and_there() -> None:
    assert kvzero.__all__ == sorted(kvzero.__all__)
    assert set(kvzero.__all__) == set(kvzero._HOMES)
    assert all(getattr(kvzero, name) is not None for name in kvzero.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'zeroes'"):
        getattr(kvzero, "zeroes")  # noqa: B009 - a checker knows there is none


def test_import_needs_neither_torch_nor_triton() -> None:
    code = "import kvzero; print({'torch', 'triton', 'numpy'} & set(sys.modules))"
    assert run_python(code, PACKAGE.parent).stdout.strip() == "set()"


@pytest.mark.parametrize("lost", ["as text", "wholly"])
def test_a_checkout_without_the_link_says_so(tmp_path: Path, lost: str) -> None:
    copied = tmp_path / "kvzero"
    copied.mkdir()
    shutil.copy(PACKAGE / "__init__.py", copied)
    if lost == "as text":
        (copied / "strategies").write_text("../strategies", encoding="utf-8")
    done = run_python("import kvzero", tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert "must be a symbolic link to ../strategies" in last


@pytest.mark.slow
def test_a_verb_without_its_extra_says_so_in_one_line() -> None:
    code = "sys.modules['typer'] = None\nfrom kvzero.__main__ import main\nmain()"
    done = run_python(code, PACKAGE.parent)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'kvzero[harness]'" in done.stderr
