"""The import closure of vLLM's class, for machines without a registry.

``python -m kvzero.subjects.vllm.closure --python 3.12 --out DIR`` imports the class in
a process of its own, keeps the files that this read, and packs them into one archive.
Binary packages come from their wheels for the Python that is asked for. What torch,
Triton and NumPy bring along is left out: a GPU machine has them. Unpacked into a folder
on ``PYTHONPATH``, the archive is an installed vLLM as far as its zeroer goes; vLLM's
compiled operations, which the class does not use, stay behind.

Source: vllm 0.33.0, imported under torch 2.13.0: 1,900 files of 50 packages.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, distributions
from importlib.metadata import version as version_of
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_LZMA, ZipFile

from kvzero.errors import EnvironmentMissingError, KvzeroError

ARCHIVE = "vllm-closure.zip"
MAX_BYTES = 64 * 2**20
"""What may travel to a GPU machine in all."""
PRESENT = (
    "torch",
    "triton",
    "numpy",
    "kvzero",
    "hypothesis",
    "pytest",
    "rich",
    "typer",
)
"""What a GPU machine has, with all that it requires: kvzero and its harness."""
ZOO = "/models/"
"""Folder of architectures: of each package that has one, most of its source."""
DEADLINE_SECONDS = 900.0

Files = dict[str, set[str]]
"""Paths inside the folder of installed packages, by name of the distribution."""


def collect(python: str, folder: Path) -> Path:
    """Write the closure for a version of Python and return the archive.

    Args:
        python: Such as ``"3.12"``.
        folder: Where the archive is written; made if it is not there.

    Raises:
        EnvironmentMissingError: The class cannot be imported here, a wheel cannot be
            had, or the archive would be too large.
    """
    installed = {_key(d.metadata["Name"]): d for d in distributions()}
    needed = _by_distribution(_recorded(), installed)
    here = present(PRESENT, installed)
    needed = {
        name: files
        for name, files in needed.items()
        # Metadata alone are read of any package: by whoever looks for entry points.
        if name not in here and any(f.endswith((".py", ".so")) for f in files)
    }
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / ARCHIVE
    binary = [name for name in needed if _is_binary(needed[name])]
    own = python == f"{sys.version_info.major}.{sys.version_info.minor}"
    with ZipFile(archive, "w", ZIP_LZMA) as packed, TemporaryDirectory() as wheels:
        if binary and not own:
            _download([installed[name] for name in binary], python, Path(wheels))
        for name, files in sorted(needed.items()):
            if name in binary and not own:
                pack_wheel(_wheel_of(name, Path(wheels)), files, packed)
            else:
                _pack_installed(installed[name], files, packed)
    size = archive.stat().st_size
    if size > MAX_BYTES:
        archive.unlink()
        raise EnvironmentMissingError(
            f"closure={size} B, but must be at most {MAX_BYTES} B to be carried to a "
            f"GPU machine"
        )
    return archive


def _recorded() -> list[Path]:
    """Return the files that a fresh process reads to import the class."""
    done = _run([sys.executable, "-m", "kvzero.subjects.vllm.recording"])
    last = done.stdout.strip().splitlines()[-1]
    return [Path(name) for name in json.loads(last)]


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a program; its last words are the reason where it fails."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=DEADLINE_SECONDS
    )
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise EnvironmentMissingError(
            f"{' '.join(command[1:4])} ended with {done.returncode}: "
            f"{words[-1] if words else 'it said nothing'}"
        )
    return done


def _key(name: str) -> str:
    """Return a distribution's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _by_distribution(
    files: Iterable[Path], installed: dict[str, Distribution]
) -> Files:
    """Return the files by the distribution that owns them; others are left out."""
    owners: dict[Path, tuple[str, str]] = {}
    for name, distribution in installed.items():
        for path in distribution.files or ():
            owners[Path(str(path.locate())).resolve()] = name, str(path)
    needed: defaultdict[str, set[str]] = defaultdict(set)
    for file in files:
        if file in owners:
            owner, inside = owners[file]
            needed[owner].add(inside)
    return dict(needed)


def present(names: Iterable[str], installed: dict[str, Distribution]) -> set[str]:
    """Return some distributions with all that they require, extras left out."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = _key(waiting.pop())
        if name in found or name not in installed:
            continue
        found.add(name)
        waiting.extend(
            re.split(r"[\s<>=!~;\[(]", requirement, maxsplit=1)[0]
            for requirement in installed[name].requires or ()
            if not re.search(r"extra\s*==", requirement)
        )
    return found


def _is_binary(files: Iterable[str]) -> bool:
    return any(name.endswith(".so") for name in files)


def _download(wanted: list[Distribution], python: str, folder: Path) -> None:
    pins = [f"{d.metadata['Name']}=={d.version}" for d in wanted]
    _run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--only-binary=:all:", "--python-version", python, "--dest", str(folder)),
            *pins,
        ]
    )


def _wheel_of(name: str, folder: Path) -> Path:
    for wheel in folder.glob("*.whl"):
        if _key(wheel.name.split("-")[0]) == name:
            return wheel
    raise EnvironmentMissingError(f"{name}: pip downloaded no wheel of it")


def pack_wheel(wheel: Path, files: Iterable[str], packed: ZipFile) -> None:
    """Pack what is kept of a wheel, its modules as that wheel's Python names them.

    Args:
        wheel: The wheel.
        files: Paths as installed here, for this Python, that were read.
        packed: Where to.
    """
    stems = {module_stem(name) for name in files}
    with ZipFile(wheel) as source:
        for name in source.namelist():
            if is_kept(name, stems):
                packed.writestr(name, source.read(name))


def is_kept(path: str, stems: set[str]) -> bool:
    """Return whether a file of a package goes into the archive.

    What a package imports depends on what else is installed, so all of its source is
    kept, save the models of `ZOO` that were not read; of all else, what was read.

    Args:
        path: The file, from the folder of installed packages.
        stems: What was read, as `module_stem` returns it.
    """
    if module_stem(path) in stems or path.endswith(".dist-info/METADATA"):
        return True
    if path.endswith(".py"):
        return ZOO not in path and not path.startswith("../")
    return ".libs/" in path


def module_stem(path: str) -> str:
    """Return the path of an extension module without its ABI; others as they are."""
    folder, _, name = path.rpartition("/")
    stem = name.split(".")[0] if name.endswith(".so") else name
    return f"{folder}/{stem}"


def _pack_installed(
    distribution: Distribution, files: Iterable[str], packed: ZipFile
) -> None:
    stems = {module_stem(name) for name in files}
    for path in distribution.files or ():
        located = Path(str(path.locate()))
        if is_kept(str(path), stems) and located.is_file():
            packed.write(located, str(path))


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect the closure; return the exit code."""
    parser = argparse.ArgumentParser(prog="kvzero.subjects.vllm.closure")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", default=here, help="version, such as 3.12")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    chosen = parser.parse_args(arguments)
    try:
        archive = collect(chosen.python, chosen.out)
    except KvzeroError as error:
        sys.stderr.write(f"closure: {type(error).__name__}: {error}\n")
        return 3
    size = archive.stat().st_size / 2**20
    sys.stdout.write(
        f"{archive}: {size:.1f} MiB, vllm {version_of('vllm')}, Python "
        f"{chosen.python}\nunpack: python3 -m zipfile -e {archive} FOLDER; export "
        f"PYTHONPATH=FOLDER\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
