from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest

from kvzero.errors import EnvironmentMissingError
from kvzero.subjects.vllm import closure

READ = {"pack/__init__.py", "pack/_fast.cpython-311-x86_64-linux-gnu.so", "pack/d.json"}
STEMS = {closure.module_stem(path) for path in READ}
KEPT = {
    "pack/d.json": True,
    "pack/e.json": False,
    "pack/other.py": True,
    "pack/models/unread.py": False,
    "pack/_fast.cpython-312-x86_64-linux-gnu.so": True,
    "pack/_slow.cpython-312-x86_64-linux-gnu.so": False,
    "pack.libs/libjpeg-1.so": True,
    "pack-1.0.dist-info/METADATA": True,
    "pack-1.0.dist-info/RECORD": False,
    "../bin/tool.py": False,
}


@pytest.mark.parametrize("path", KEPT)
def test_a_closure_keeps_source_and_what_was_read(path: str) -> None:
    assert closure.is_kept(path, STEMS) == KEPT[path]


def test_a_closure_takes_the_modules_of_the_wheel_s_own_python(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "pack-1.0-cp312-cp312-any.whl", "w") as wheel:
        for path in KEPT:
            wheel.writestr(path, path)
    with ZipFile(tmp_path / "out.zip", "w") as packed:
        closure.pack_wheel(tmp_path / "pack-1.0-cp312-cp312-any.whl", READ, packed)
    with ZipFile(tmp_path / "out.zip") as packed:
        assert packed.namelist() == [path for path, kept in KEPT.items() if kept]


def test_what_a_gpu_machine_has_is_left_out_with_all_that_it_requires() -> None:
    installed = {closure._key(d.metadata["Name"]): d for d in distributions()}
    here = closure.present(["hypothesis", "a-package-that-is-not-there"], installed)
    assert {"hypothesis", "sortedcontainers"} <= here
    assert "numpy" not in here


def test_a_closure_without_vllm_is_one_line_and_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(python: str, folder: Path) -> Path:
        raise EnvironmentMissingError(f"{python}: no vllm for {folder.name}")

    monkeypatch.setattr(closure, "collect", fails)
    assert closure.main(["--python", "3.12", "--out", str(tmp_path / "gone")]) == 3
    said = "closure: EnvironmentMissingError: 3.12: no vllm for gone\n"
    assert capsys.readouterr().err == said
