"""A process that runs random kernels one way, fed with modules of them.

Run with a way: `interpreter` (with TRITON_INTERPRET=1), `gpu`, or `dry`, which compiles
to machine code and launches nothing. Each line of input is JSON: a module, its launches
and a target file. Answered by a line when the bytes of all launches are in the file.
"""

import importlib.util
import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.triton_internals import dry_driver
from kvzero.triton_internals.interpreter import mend_interpreter
from tests.executors.footprint.random_kernels import TABLE
from tests.executors.footprint.random_stages import stages

MACHINE = {"num_warps": 1, "enable_fp_fusion": False}
"""Options of real launches. Stores of several warps have no order without a barrier,
which the kernels do not draw; and the interpreter rounds after each operation."""


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


def launch(
    module: ModuleType, what: dict[str, Any], out: torch.Tensor, **options: Any
) -> None:
    """Launch one kernel of a module, on the device of its memory."""
    kernel = getattr(module, what["name"])
    numbers, wide = (table.to(out.device) for table in tables(what["seed"]))
    arguments = (out, numbers, wide, what["n32"], what["n64"])
    kernel[tuple(what["grid"])](*arguments, **options)


def answered(request: dict[str, Any], way: str) -> dict[str, NDArray[np.uint8]]:
    """Return the bytes that each launch leaves; none where it fails."""
    module = load_module(Path(request["module"]))
    before = np.load(request["before"])
    device = "cuda" if way == "gpu" else "cpu"
    options = {} if way == "interpreter" else MACHINE
    found = {}
    for what in request["launches"]:
        try:
            out = torch.tensor(before, device=device)
            launch(module, what, out, **options)
            found[what["name"]] = out.cpu().numpy()
        except Exception as error:  # the parent reads why it is missing
            sys.stderr.write(f"{what['name']}: {in_one_line(error)}\n")
            sys.stderr.flush()
            if way == "gpu":  # what comes after it may fail because of it
                os._exit(1)
    return found


def in_one_line(error: Exception) -> str:
    """Return an exception's type, and its text's first and last line that say anything.

    Triton's compiler begins with the place and ends with the cause.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ends = dict.fromkeys(lines[:1] + lines[-1:]) or ("no text",)
    return f"{type(error).__name__}: {' ... '.join(ends)}"


def serve(way: str) -> None:
    """Answer requests until the input ends; what kernels print goes nowhere."""
    if way == "interpreter":
        mend_interpreter()
    answers = os.fdopen(os.dup(1), "w")
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    compiling = nullcontext() if way == "interpreter" else stages(only_ttir=False)
    driver: AbstractContextManager[object] = nullcontext()
    if way == "dry":
        driver = dry_driver("cuda:90", lambda _: None)
    with compiling, driver:
        for line in sys.stdin:
            request = json.loads(line)
            found = answered(request, way)
            np.savez(request["target"], **found)  # type: ignore[arg-type]  # NumPy's own stubs
            answers.write("done\n")
            answers.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(sys.argv[1])
