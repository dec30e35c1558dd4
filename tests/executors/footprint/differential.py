"""Random kernels on the footprint and on Triton's interpreter: the same bytes, or why.

Kernels are written to one module a batch. The footprint gets them through Triton's real
binder and front end, which here stop at TTIR: what comes after it is not evaluated.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray
from triton._C.libtriton import ir

from kvzero.executors.footprint.arena import arena, arena_tensors
from kvzero.executors.footprint.evaluate import Evaluator
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.ir import Region
from kvzero.executors.footprint.launch_memory import CaseMemory
from kvzero.executors.footprint.parse import parse_module
from kvzero.executors.footprint.real_memory import RealMemory
from kvzero.executors.footprint.shadow import Shadow
from kvzero.memory import place
from kvzero.triton_internals import LaunchEvent, dry_driver
from tests.executors.footprint import random_worker
from tests.executors.footprint.bench import one_page_case
from tests.executors.footprint.random_kernels import (
    HEADER,
    MAX_PROGRAMS,
    REGION_BYTES,
    RandomKernel,
)

OUT_BYTES = MAX_PROGRAMS * REGION_BYTES
Bytes = NDArray[np.uint8]
_ROOT = Path(__file__).parents[3]
_BIT_CAST = re.compile(r"arith\.extui( %[\w.#]+ : (?:tensor<[\dx]*)?i1>? to)")
_FALSE_PROMISE = ("false-promise",)


@contextmanager
def only_ttir() -> Iterator[None]:
    """Let Triton's compiler stop after TTIR, and keep what it caches in a folder."""
    knobs: Any = triton.knobs  # Any: Triton has no types
    with tempfile.TemporaryDirectory() as folder:
        before = knobs.runtime.add_stages_inspection_hook, knobs.cache.dir
        knobs.runtime.add_stages_inspection_hook = _shorten
        knobs.cache.dir = folder
        try:
            yield
        finally:
            knobs.runtime.add_stages_inspection_hook, knobs.cache.dir = before


def _shorten(*arguments: Any) -> tuple[str, str]:  # Any: as Triton calls its hook
    if arguments:
        stages = arguments[1]
        make_ttir = stages["ttir"]
        stages["ttir"] = lambda module, metadata: make_ttir(
            _with_signed_bits(module), metadata
        )
        for name in ("ttgir", "llir", "ptx"):
            stages[name] = _named
        stages["cubin"] = lambda module, metadata: str(
            _named(module, metadata)
        ).encode()
    return "only-ttir", "only-ttir"


def _with_signed_bits(module: Any) -> Any:  # Any: a module of MLIR's
    """Return a module whose casts of bits keep their sign, if its name asks for it.

    Triton's language never asks for it, and the evaluator must know it all the same.
    """
    text = str(module)
    if "@signed_" not in text:
        return module
    text = _BIT_CAST.sub(r"arith.extsi\1", text)
    with tempfile.NamedTemporaryFile("w", suffix=".ttir") as file:
        file.write(text)
        file.flush()
        changed = ir.parse_mlir_module(file.name, module.context)
    changed.context = module.context
    return changed


def _named(module: Any, metadata: dict[str, Any]) -> Any:  # Any: as a stage has it
    metadata.setdefault("shared", 0)
    metadata.setdefault("name", "kernel")
    return module


class Interpreter:
    """A process that interprets modules of kernels."""

    def __init__(self, folder: Path) -> None:
        """Start it; it reads and writes below a folder."""
        self._folder = folder
        self._before = folder / "before.npy"
        np.save(self._before, bytes_before())
        environment = {
            **os.environ,
            "TRITON_INTERPRET": "1",
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": str(_ROOT),
            "OMP_NUM_THREADS": "1",
        }
        self._log = (folder / "interpreter.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, random_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
        )

    def run(self, module: Path, kernels: Sequence[RandomKernel]) -> dict[str, Bytes]:
        """Return the bytes that each kernel of a module leaves."""
        target = module.with_suffix(".npz")
        request = {
            "module": str(module),
            "before": str(self._before),
            "target": str(target),
            "launches": [kernel.launch() for kernel in kernels],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n", self.errors()
        with np.load(target) as found:
            return {name: found[name] for name in found.files}

    def errors(self) -> str:
        """Return what the process has said so far."""
        self._log.seek(0)
        return self._log.read()[-4000:]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


@dataclass
class Memory:
    """One case's memory, made new for each launch."""

    def __post_init__(self) -> None:
        case = one_page_case(OUT_BYTES)
        sizes = case.layout.allocation_sizes
        self._shadow = Shadow(case.seed, place(case), sizes, arena().start)
        self.tensor = arena_tensors(self._shadow.base_addresses, sizes)[0]
        real = RealMemory(arena())
        self.case = CaseMemory(self._shadow, arena(), real, lambda: None)

    def read(self) -> Bytes:
        """Return all bytes as programs would see them."""
        where = self.tensor.data_ptr() + np.arange(OUT_BYTES, dtype=np.int64)
        return np.asarray(self._shadow.bytes_at(where))


def bytes_before() -> Bytes:
    """Return what `out` holds before a launch, in each process."""
    return Memory().read()


@dataclass
class Compiled:
    """A kernel ready to be evaluated.

    Attributes:
        kernel: What was drawn.
        event: Its launch.
        expected: What the interpreter leaves; None: it failed.
    """

    kernel: RandomKernel
    event: LaunchEvent
    expected: Bytes | None = None

    @cached_property
    def ops(self) -> Counter[str]:
        """Return how often each operation stands in the TTIR."""
        counts: Counter[str] = Counter()
        for function in parse_module(str(self.event.kernel.ttir)).functions.values():
            _count(function.body, counts)
        return counts

    def disagreement(self, evaluator: Evaluator | None = None) -> str | None:
        """Return how the footprint differs from the interpreter, or None."""
        memory = Memory()
        out = self.event.arguments[0]
        if not self.kernel.in_arena:
            assert isinstance(out, torch.Tensor)
            out.numpy()[:] = bytes_before_once()
        try:
            result = (evaluator or Evaluator()).evaluate(self.event, memory.case)
        except NotJudgedError as error:
            return f"not judged: {error}"
        missteps = tuple(dict.fromkeys(m.kind for m in result.missteps))
        wanted = _FALSE_PROMISE if "false-promise" in self.kernel.marks else ()
        if missteps != wanted:
            return f"missteps {[m.text for m in result.missteps]}, expected {wanted}"
        if self.expected is None:
            return "the interpreter failed"
        assert isinstance(out, torch.Tensor)
        left = memory.read() if self.kernel.in_arena else out.numpy()
        wrong = np.flatnonzero(left != self.expected)
        if not len(wrong):
            return None
        first = int(wrong[0])
        return (
            f"byte {first % REGION_BYTES} of program {first // REGION_BYTES} is "
            f"{left[first]}, in the interpreter {self.expected[first]}; "
            f"{len(wrong)} bytes differ"
        )


_BEFORE: list[Bytes] = []


def bytes_before_once() -> Bytes:
    """Return the bytes before a launch, read once."""
    if not _BEFORE:
        _BEFORE.append(bytes_before())
    return _BEFORE[0]


def _count(region: Region, counts: Counter[str]) -> None:
    for block in region.blocks:
        for op in block.ops:
            counts[op.name] += 1
            for inner in op.regions:
                _count(inner, counts)


def compiled(module: ModuleType, kernel: RandomKernel, platform: str) -> Compiled:
    """Return a kernel with its launch, on its way to a device."""
    events: list[LaunchEvent] = []
    out = (
        Memory().tensor
        if kernel.in_arena
        else torch.zeros(OUT_BYTES, dtype=torch.uint8)
    )
    with dry_driver(platform, events.append):
        random_worker.launch(module, kernel.launch(), out)
    return Compiled(kernel, events[0])


@dataclass
class Witness:
    """Runs batches of kernels on both sides.

    Attributes:
        folder: Where modules are written.
        interpreter: The other side.
        platform: What kernels are compiled for.
    """

    folder: Path
    platform: str = "cuda:90"
    interpreter: Interpreter = field(init=False)
    _batches: int = 0

    def __post_init__(self) -> None:
        self.interpreter = Interpreter(self.folder)

    def batch(self, kernels: Sequence[RandomKernel]) -> list[Compiled]:
        """Return kernels compiled and interpreted; names must differ."""
        self._batches += 1
        path = self.folder / f"batch_{self._batches}.py"
        path.write_text(HEADER + "".join(kernel.source for kernel in kernels))
        module = random_worker.load_module(path)
        with only_ttir(), warnings.catch_warnings():
            # A branch on a tensor of one element is legal, and drawn on purpose.
            warnings.filterwarnings("ignore", message="If conditional called")
            made = [compiled(module, kernel, self.platform) for kernel in kernels]
            for one in made:
                assert one.event.kernel.ttir is not None
        found = self.interpreter.run(path, kernels)
        for one in made:
            one.expected = found.get(one.kernel.name)
        return made

    def smallest(self, kernel: RandomKernel) -> RandomKernel:
        """Return a kernel with the blocks left out that a disagreement can spare."""
        for index in reversed(range(len(kernel.blocks))):
            rest = kernel.blocks[:index] + kernel.blocks[index + 1 :]
            candidate = replace(kernel, blocks=rest)
            if self._differs(candidate):
                kernel = candidate
        return kernel

    def _differs(self, kernel: RandomKernel) -> bool:
        try:
            (made,) = self.batch([kernel])
        except Exception:  # it needs the block that was left out
            return False
        return made.expected is not None and made.disagreement() is not None


@contextmanager
def witness(platform: str = "cuda:90") -> Iterator[Witness]:
    """Run kernels on both sides until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        made = Witness(Path(folder), platform)
        try:
            yield made
        finally:
            made.interpreter.close()
