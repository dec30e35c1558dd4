"""Processes that run random kernels in another way than the footprint does.

A process that dies or does not answer in time is started again, and what it was given
is run once more, one kernel at a time: a kernel that cannot be run leaves a reason in
place of bytes, and costs the others nothing.
"""

import json
import os
import re
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from tests.executors.footprint import random_worker
from tests.executors.footprint.random_kernels import RandomKernel

Bytes = NDArray[np.uint8]
Way = Literal["interpreter", "gpu", "dry"]
DEADLINE_S = 180.0
"""For one module, imports and a GPU's context included; a module takes seconds."""
PATIENCE_S = 20.0
"""For a process to end that has closed its output."""
_ROOT = Path(__file__).parents[3]
_PASS = re.compile(r"Pipeline failed while executing \[`(\w+)`")


class Side:
    """A process that runs modules of kernels one way.

    Attributes:
        way: Which way.
        deadline_s: Time for one module.
        reasons: Why kernels of the last module left no bytes, by their names.
    """

    def __init__(
        self, way: Way, folder: Path, before: Path, deadline_s: float = DEADLINE_S
    ) -> None:
        """Start it.

        Args:
            way: Which way it runs kernels.
            folder: Where it writes.
            before: File of the bytes before each launch.
            deadline_s: Time for one module.
        """
        self.way = way
        self.deadline_s = deadline_s
        self.reasons: dict[str, str] = {}
        self._folder = folder
        self._before = before
        self._log = folder / f"{way}.log"
        self._asked: tuple[Path, Sequence[RandomKernel]] | None = None
        self._said_before = 0
        self._process = self._started()

    def start(self, module: Path, kernels: Sequence[RandomKernel]) -> None:
        """Let it run the kernels of a module."""
        self._asked = module, kernels
        self._said_before = self._log.stat().st_size
        self._ask(module, kernels)

    def finish(self) -> dict[str, Bytes]:
        """Return the bytes that each kernel leaves; of the others, `reasons` tells."""
        self.reasons = {}
        return self._finished()

    def _finished(self) -> dict[str, Bytes]:
        assert self._asked is not None
        module, kernels = self._asked
        lost = self._lost()
        found = self._found(module) if lost is None else {}
        if lost is not None and len(kernels) > 1:
            for kernel in kernels:
                self.start(module, [kernel])
                found |= self._finished()
            return found
        missing = [kernel.name for kernel in kernels if kernel.name not in found]
        if missing:
            said = self._complaints(missing)
            self.reasons |= dict.fromkeys(missing, lost or "it said nothing") | said
        return found

    def _complaints(self, missing: Sequence[str]) -> dict[str, str]:
        """Return what was said of kernels, with the pass of the compiler that failed.

        The compiler writes what it has to say before the process names the kernel.
        """
        with self._log.open("rb") as log:
            log.seek(self._said_before)
            said = log.read().decode(errors="replace")
        found, begin = {}, 0
        names = "|".join(map(re.escape, missing))
        for line in re.finditer(f"^({names}): (.*)$", said, re.MULTILINE):
            passes = _PASS.findall(said, begin, line.start())
            found[line[1]] = line[2] + (f" in {passes[-1]}" if passes else "")
            begin = line.end()
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._forget()

    def _started(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": str(_ROOT),
            "OMP_NUM_THREADS": "1",
            "TRITON_INTERPRET": "1" if self.way == "interpreter" else "0",
        }
        with self._log.open("a") as log:
            return subprocess.Popen(
                [sys.executable, random_worker.__file__, self.way],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )

    def _ask(self, module: Path, kernels: Sequence[RandomKernel]) -> None:
        request = {
            "module": str(module),
            "before": str(self._before),
            "target": str(self._target(module)),
            "launches": [kernel.launch() for kernel in kernels],
        }
        line = (json.dumps(request) + "\n").encode()
        with suppress(BrokenPipeError):  # it is dead: `finish` sees it
            _stream(self._process.stdin).write(line)
            _stream(self._process.stdin).flush()

    def _lost(self) -> str | None:
        """Wait for the answer; without one, start another process and return why."""
        answers = _stream(self._process.stdout)
        ready, _, _ = select.select([answers], [], [], self.deadline_s)
        if ready and answers.readline() == b"done\n":
            return None
        why = f"no answer within {self.deadline_s:g} s"
        if ready:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_S)
            why = f"its process ended with code {self._process.poll()}"
        self.close()
        self._process = self._started()
        return why

    def _target(self, module: Path) -> Path:
        return module.with_suffix(f".{self.way}.npz")

    def _found(self, module: Path) -> dict[str, Bytes]:
        with np.load(self._target(module)) as found:
            return {name: found[name] for name in found.files}

    def _forget(self) -> None:
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):  # a request that nobody has read
                _stream(stream).close()


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
