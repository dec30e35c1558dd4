"""The import closure of vLLM's class, for machines without a registry.

``python -m kvzero.subjects.vllm.closure --python 3.12 --out DIR`` imports the class in
a process of its own, sees which packages this read, and packs them into one archive.
What a package imports depends on the machine: a GPU, another torch. So each travels
whole, with all that vLLM requires of what is installed here; binary ones come from
their wheels for the Python that is asked for. Of vLLM itself only the source and the
data that were read travel: the class uses none of its compiled operations, which are
hundreds of megabytes. What a GPU machine has (`PRESENT`) is left out.

Unpacked into a folder on ``PYTHONPATH``, the archive is an installed vLLM as far as its
zeroer goes. Source: vllm 0.33.0, imported under torch 2.13 on Python 3.11 and, from the
archive alone, under torch 2.11 on Python 3.12.
"""

import argparse
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from importlib.metadata import version as version_of
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from kvzero.errors import EnvironmentMissingError, KvzeroError

ARCHIVE = "vllm-closure.tar.xz"
MAX_BYTES = 64 * 2**20
"""What may travel to a GPU machine in all."""
VLLM = "vllm"
PRESENT = frozenset(
    (
        *("torch", "triton", "numpy", "sympy", "mpmath", "networkx", "setuptools"),
        *("kvzero", "hypothesis", "sortedcontainers", "rich", "typer", "click"),
        *("pytest", "pytest-xdist", "execnet", "pluggy", "iniconfig", "pip"),
    )
)
"""What a GPU machine has. By name and not with what these require: which packages that
is differs by release, and one that is there twice does no harm, as it travels whole."""
DEADLINE_SECONDS = 900.0


def collect(python: str, folder: Path) -> Path:
    """Write the closure for a version of Python and return the archive.

    Args:
        python: Such as ``"3.12"``.
        folder: Where the archive is written; made if it is not there. One that is
            there stays as it is until the new one is whole.

    Raises:
        EnvironmentMissingError: The class cannot be imported here, a wheel cannot be
            had, or the archive would be too large.
    """
    installed = first_on_path(distributions())
    read = _recorded()
    needed = sorted(needed_of(read, installed))
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        packages = Path(scratch) / "packages"
        _gather([installed[name] for name in needed], read, python, packages)
        archive = Path(scratch) / ARCHIVE
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(packages, arcname=".")
        size = archive.stat().st_size
        if size > MAX_BYTES:
            raise EnvironmentMissingError(
                f"closure={size} B, but must be at most {MAX_BYTES} B to be carried to "
                f"a GPU machine"
            )
        archive.replace(folder / ARCHIVE)
    return folder / ARCHIVE


def _recorded() -> set[Path]:
    """Return the files that a fresh process reads to import the class."""
    done = _run([sys.executable, "-m", "kvzero.subjects.vllm.recording"])
    last = done.stdout.strip().splitlines()[-1]
    return {Path(name) for name in json.loads(last)}


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


def first_on_path(found: Iterable[Distribution]) -> dict[str, Distribution]:
    """Return distributions by name; of two of one name the first, as an import does."""
    installed: dict[str, Distribution] = {}
    for distribution in found:
        installed.setdefault(_key(distribution.metadata["Name"]), distribution)
    return installed


def needed_of(read: set[Path], installed: Mapping[str, Distribution]) -> set[str]:
    """Return the distributions that travel: those read, and all that they require.

    Args:
        read: Files that importing the class read.
        installed: What is installed here, by name.
    """
    found: set[str] = set()
    # Metadata alone are read of any package: by whoever looks for entry points.
    waiting = [
        name
        for name, distribution in installed.items()
        if any(where in read for path, where in _files(distribution) if _is_code(path))
    ]
    while waiting:
        name = waiting.pop()
        if name in found or name in PRESENT or name not in installed:
            continue
        found.add(name)
        waiting.extend(_required(installed[name]))
    return found


def _files(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of a distribution: path inside the archive, and place."""
    for path in distribution.files or ():
        if not str(path).startswith("..") and path.suffix != ".pyc":
            yield str(path), Path(str(path.locate())).resolve()


def _is_code(path: str) -> bool:
    return path.endswith((".py", ".so"))


def _required(distribution: Distribution) -> list[str]:
    """Return the names of what a distribution requires, extras left out."""
    return [
        _key(re.split(r"[\s<>=!~;\[(]", requirement, maxsplit=1)[0])
        for requirement in distribution.requires or ()
        if not re.search(r"extra\s*==", requirement)
    ]


def _gather(
    wanted: Sequence[Distribution], read: set[Path], python: str, folder: Path
) -> None:
    """Lay out distributions as they would be installed for a version of Python."""
    own = python == f"{sys.version_info.major}.{sys.version_info.minor}"
    foreign = [d for d in wanted if not own and _is_binary(d)]
    for distribution in wanted:
        if distribution not in foreign:
            copy_installed(distribution, read, folder)
    if foreign:
        with TemporaryDirectory() as wheels:
            _download(foreign, python, Path(wheels))
            for wheel in Path(wheels).glob("*.whl"):
                ZipFile(wheel).extractall(folder)


def _is_binary(distribution: Distribution) -> bool:
    """Return whether a distribution differs by version of Python; vLLM's do not."""
    if _key(distribution.metadata["Name"]) == VLLM:
        return False
    return any(path.endswith(".so") for path, _ in _files(distribution))


def copy_installed(distribution: Distribution, read: set[Path], folder: Path) -> None:
    """Copy an installed distribution; of vLLM its source and what was read.

    Args:
        distribution: What is installed.
        read: Files that importing the class read.
        folder: Where to.
    """
    whole = _key(distribution.metadata["Name"]) != VLLM
    for path, where in _files(distribution):
        if where.is_file() and (whole or path.endswith(".py") or where in read):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(where.read_bytes())


def _download(wanted: Sequence[Distribution], python: str, folder: Path) -> None:
    """Download the wheels of distributions for a version of Python.

    Raises:
        EnvironmentMissingError: One cannot be had.
    """
    pins = [f"{d.metadata['Name']}=={d.version}" for d in wanted]
    _run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--only-binary=:all:", "--python-version", python, "--dest", str(folder)),
            *pins,
        ]
    )


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
        f"{archive}: {size:.1f} MiB, vllm {version_of(VLLM)}, Python "
        f"{chosen.python}\nunpack: mkdir FOLDER; tar -xf {archive} -C FOLDER; export "
        f"PYTHONPATH=FOLDER\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
