"""Copies of the tree, one a worker, and the warm process that runs in each.

A mutant is written into a copy, never into the checkout. Byte code of the copies is
checked by the hash of its source, not by its time: a mutant of the same size, written
in the same second, must not be taken for what it mutates.
"""

import compileall
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any

from tests.mutation.groups import TREE


def copy_tree(root: Path, to: Path) -> None:
    """Copy what tests and fuzzing need, in place of what is there.

    Args:
        root: The tree.
        to: A folder of this run.
    """
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for folder in TREE:
        shutil.copytree(
            root / folder,
            to / folder,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"),
        )
    shutil.copy2(root / "pyproject.toml", to)
    for folder in TREE:
        compileall.compile_dir(
            to / folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )


def digest(root: Path, files: Iterable[Path]) -> str:
    """Return a digest of the files that a session was listed from."""
    seen = hashlib.blake2b(digest_size=16)
    for file in sorted(files):
        seen.update(f"{file}\n".encode())
        seen.update((root / file).read_bytes())
    return seen.hexdigest()


class Worker:
    """A copy of the tree with a warm process in it."""

    def __init__(self, tree: Path, log: Path, cache: Path) -> None:
        """Start the process; `wait_until_ready` waits for it.

        Args:
            tree: The copy.
            log: Takes what tests print.
            cache: Triton's, shared by all workers.
        """
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.server"],
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(tree, cache),
            text=True,
        )

    def wait_until_ready(self) -> None:
        """Wait until the process has imported what it keeps warm.

        Raises:
            RuntimeError: It ended instead; its log says why.
        """
        self._line()

    def answer(self, group: str, deadline: float, module: str, source: str) -> Any:
        """Return what became of a mutant, as plain data.

        Args:
            group: Whose killers run.
            deadline: Seconds after which they hang.
            module: The file that is mutated; empty: none.
            source: Its text.

        Raises:
            RuntimeError: The process ended.
        """
        job = {"group": group, "deadline": deadline, "module": module, "source": source}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._line())

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.communicate()
        self._log.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the warm process ended with code {self._process.wait()}, but must "
                f"answer: see {self._log.name}"
            )
        return line


def _environment(tree: Path, cache: Path) -> dict[str, str]:
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(tree / ".hypothesis"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": "",
        "TRITON_CACHE_DIR": str(cache),
    }
