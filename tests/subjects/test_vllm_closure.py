import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from zipfile import ZipFile

import pytest

from kvzero.errors import EnvironmentMissingError
from kvzero.subjects.vllm import closure

ABI = "cpython-999-x86_64-linux-gnu.so"


def _install(
    site: Path, name: str, files: tuple[str, ...], requires: tuple[str, ...] = ()
) -> Distribution:
    """Make an installed distribution whose files contain their own paths."""
    about = f"{name}-1.0.dist-info"
    heads = [f"Requires-Dist: {requirement}" for requirement in requires]
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *heads]
    texts = {path: path for path in files}
    texts[f"{about}/METADATA"] = "\n".join(metadata) + "\n"
    texts[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in texts)
    for path, text in texts.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return PathDistribution(site / about)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, Distribution]:
    """vLLM, what it requires, and what a GPU machine has or nothing asks for."""
    site = tmp_path / "site"
    vllm = ("vllm/a.py", "vllm/models/b.py", "vllm/big.so", "vllm/read.json", "vllm/c")
    return closure.first_on_path(
        [
            _install(
                site, "vllm", vllm, ("torch==2", "Pure_Pack>=1", "x; extra == 'y'")
            ),
            _install(
                site, "pure.pack", ("pure/p.py", "pure/data.bin"), ("fast [z]>1",)
            ),
            _install(site, "fast", (f"fast/f.{ABI}", "fast.libs/libf-1.so.2")),
            _install(site, "torch", ("torch/t.py",), ("unasked",)),
            _install(site, "x", ("x.py",)),
            _install(site, "unasked", ("unasked.py",)),
        ]
    )


def _read(tmp_path: Path) -> set[Path]:
    names = (
        "vllm/a.py",
        "vllm/read.json",
        "torch/t.py",
        "unasked-1.0.dist-info/METADATA",
    )
    return {(tmp_path / "site" / name).resolve() for name in names}


def _collect(
    tmp_path: Path,
    installed: dict[str, Distribution],
    monkeypatch: pytest.MonkeyPatch,
    python: str,
) -> list[str]:
    """Collect the closure of the made-up packages and return the files in it."""
    monkeypatch.setattr(closure, "_recorded", lambda: _read(tmp_path))
    monkeypatch.setattr(closure, "distributions", installed.values)
    archive = closure.collect(python, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == [archive]
    with tarfile.open(archive) as packed:
        return sorted(m.name.removeprefix("./") for m in packed if m.isfile())


def _own() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_closure_is_what_was_read_and_required_without_what_a_gpu_machine_has(
    tmp_path: Path, installed: dict[str, Distribution]
) -> None:
    assert closure.needed_of(_read(tmp_path), installed) == {
        "vllm",
        "pure-pack",
        "fast",
    }


def test_a_closure_takes_packages_whole_and_of_vllm_its_source_and_what_was_read(
    tmp_path: Path,
    installed: dict[str, Distribution],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = _collect(tmp_path, installed, monkeypatch, _own())
    assert [path for path in packed if ".dist-info/" not in path] == [
        *("fast.libs/libf-1.so.2", f"fast/f.{ABI}", "pure/data.bin", "pure/p.py"),
        *("vllm/a.py", "vllm/models/b.py", "vllm/read.json"),
    ]


def test_a_closure_for_another_python_takes_binary_packages_from_their_wheels(
    tmp_path: Path,
    installed: dict[str, Distribution],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def download(command: list[str]) -> None:
        assert command[-1] == "fast==1.0"
        assert command[command.index("--python-version") + 1] == "3.0"
        folder = Path(command[command.index("--dest") + 1])
        with ZipFile(folder / "fast-1.0-cp30-cp30-any.whl", "w") as wheel:
            wheel.writestr("fast/f.cpython-30.so", "another")
            wheel.writestr("fast/libf_dlopened.so", "another")

    monkeypatch.setattr(closure, "_run", download)
    packed = _collect(tmp_path, installed, monkeypatch, "3.0")
    assert [path for path in packed if path.startswith("fast")] == [
        *("fast/f.cpython-30.so", "fast/libf_dlopened.so")
    ]


def test_an_archive_that_would_be_too_large_leaves_the_old_one(
    tmp_path: Path,
    installed: dict[str, Distribution],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _collect(tmp_path, installed, monkeypatch, _own())
    before = (tmp_path / "out" / closure.ARCHIVE).read_bytes()
    monkeypatch.setattr(closure, "MAX_BYTES", 10)
    with pytest.raises(EnvironmentMissingError, match="must be at most 10 B"):
        closure.collect(_own(), tmp_path / "out")
    assert [p.read_bytes() for p in (tmp_path / "out").iterdir()] == [before]


def test_of_two_distributions_of_one_name_the_first_on_the_path_is_taken(
    tmp_path: Path,
) -> None:
    first = _install(tmp_path / "a", "Some.Pack", ("s.py",))
    second = _install(tmp_path / "b", "some-pack", ("s.py",))
    assert closure.first_on_path([first, second]) == {"some-pack": first}


def test_a_program_that_fails_is_one_line_with_its_last_words() -> None:
    program = [sys.executable, "-c", "import sys; sys.exit('no wheel of it')"]
    with pytest.raises(EnvironmentMissingError, match=r"ended with 1: no wheel of it$"):
        closure._run(program)


def test_a_closure_without_vllm_is_one_line_and_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(python: str, folder: Path) -> Path:
        raise EnvironmentMissingError(f"{python}: no vllm for {folder.name}")

    monkeypatch.setattr(closure, "collect", fails)
    assert closure.main(["--python", "3.12", "--out", str(tmp_path / "gone")]) == 3
    said = "closure: EnvironmentMissingError: 3.12: no vllm for gone\n"
    assert capsys.readouterr().err == said


def test_a_closure_asks_the_very_pip_of_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        seen.extend(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    fast = _install(tmp_path, "fast", (f"fast/f.{ABI}",))
    closure._download([fast], "3.12", tmp_path)
    assert seen[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in seen
