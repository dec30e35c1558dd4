"""Triton's interpreter in a process of its own, fed with modules of random kernels.

Each line of input is JSON: a module, its launches and a target file. Answered by a line
when the bytes of all launches are in the file. Run with TRITON_INTERPRET=1.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tests.executors.footprint.random_kernels import TABLE


def load_module(path: Path) -> ModuleType:
    """Return a module from a file, as Triton needs one to read source from."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tables of a launch: half of the numbers small, half of any size."""
    random = np.random.default_rng(seed)
    numbers = random.integers(-(2**31), 2**31, TABLE, dtype=np.int64)
    wide = random.integers(-(2**63), 2**63, TABLE, dtype=np.int64)
    numbers[::2] = random.integers(-100, 100, TABLE // 2)
    wide[::2] = random.integers(-100, 100, TABLE // 2)
    edges = (2**31 - 1, -(2**31), -1, 0)
    numbers[1:8:2] = edges
    wide[1:8:2] = (2**63 - 1, -(2**63), 2**31, -1)
    return torch.from_numpy(numbers.astype(np.int32)), torch.from_numpy(wide)


def launch(module: ModuleType, what: dict[str, Any], out: torch.Tensor) -> None:
    """Launch one kernel of a module."""
    kernel = getattr(module, what["name"])
    numbers, wide = tables(what["seed"])
    kernel[tuple(what["grid"])](out, numbers, wide, what["n32"], what["n64"])


def interpreted(request: dict[str, Any]) -> dict[str, NDArray[np.uint8]]:
    """Return the bytes that each launch leaves; none where the interpreter fails."""
    module = load_module(Path(request["module"]))
    before = np.load(request["before"])
    found = {}
    for what in request["launches"]:
        out = torch.from_numpy(before.copy())
        try:
            launch(module, what, out)
        except Exception as error:  # the parent sees what is missing
            sys.stderr.write(f"{what['name']}: {error!r}\n")
            continue
        found[what["name"]] = out.numpy()
    return found


def serve() -> None:
    """Answer requests until the input ends; what kernels print goes nowhere."""
    answers = os.fdopen(os.dup(1), "w")
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    for line in sys.stdin:
        request = json.loads(line)
        np.savez(request["target"], **interpreted(request))  # type: ignore[arg-type]  # NumPy's own stubs
        answers.write("done\n")
        answers.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve()
