"""Random kernels on the footprint and elsewhere: the same bytes, or why not.

Kernels are written to one module a batch. The footprint gets them through Triton's real
binder and front end, which here stop at TTIR: what comes after it is not evaluated.
"""

import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from kvzero.executors.footprint.arena import arena, arena_tensors
from kvzero.executors.footprint.evaluate import Evaluator
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.launch_memory import CaseMemory
from kvzero.executors.footprint.real_memory import RealMemory
from kvzero.executors.footprint.shadow import Shadow
from kvzero.memory import place
from kvzero.triton_internals import TRITON_VERSION, LaunchEvent, dry_driver
from tests.executors.footprint import random_worker
from tests.executors.footprint.bench import one_page_case
from tests.executors.footprint.random_kernels import (
    HEADER,
    MAX_PROGRAMS,
    REGION_BYTES,
    RandomKernel,
)
from tests.executors.footprint.random_sides import Bytes, Side, Way
from tests.executors.footprint.random_stages import stages

OUT_BYTES = MAX_PROGRAMS * REGION_BYTES
_OP = re.compile(r'^ *(?:%[^=]* = )?"?([a-z]+\.[a-z_.]+)', re.MULTILINE)
_NO_OPS = {"tt.func"}
_FALSE_PROMISE = ("false-promise",)
FAULTS_OF_TRITON = (
    ("3.6.", "RuntimeError: PassManager::run failed in TritonGPUCoalesce"),
)
"""Versions and what they say of kernels that are sound: see docs/witnesses.md."""


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
        expected: What each other side leaves; None: it failed.
        reasons: Why the sides failed that did.
    """

    kernel: RandomKernel
    event: LaunchEvent
    expected: dict[Way, Bytes | None] = field(default_factory=dict)
    reasons: dict[Way, str] = field(default_factory=dict)

    @property
    def refusals(self) -> set[Way]:
        """Return the sides on which it meets a known fault of this Triton."""
        return {
            way
            for way, why in self.reasons.items()
            for version, fault in FAULTS_OF_TRITON
            if TRITON_VERSION.startswith(version) and why == fault
        }

    @cached_property
    def ops(self) -> Counter[str]:
        """Return how often each operation stands in the TTIR."""
        found = Counter(_OP.findall(str(self.event.kernel.ttir)))
        return Counter({n: count for n, count in found.items() if n not in _NO_OPS})

    @property
    def breaks_a_promise(self) -> bool:
        """Return whether a machine may do with it as it likes."""
        return "false-promise" in self.kernel.marks

    def disagreement(self, evaluator: Evaluator | None = None) -> str | None:
        """Return how the footprint differs from another side, or None."""
        memory = Memory()
        out = self.event.arguments[0]
        assert isinstance(out, torch.Tensor)
        if not self.kernel.in_arena:
            out.numpy()[:] = bytes_before_once()
        try:
            result = (evaluator or Evaluator()).evaluate(self.event, memory.case)
        except NotJudgedError as error:
            return f"not judged: {error}"
        missteps = tuple(dict.fromkeys(m.kind for m in result.missteps))
        wanted = _FALSE_PROMISE if self.breaks_a_promise else ()
        if missteps != wanted:
            return f"missteps {[m.text for m in result.missteps]}, expected {wanted}"
        left = memory.read() if self.kernel.in_arena else out.numpy()
        ways = [way for way in self.expected if way not in self.refusals]
        found = (self._difference(left, way) for way in ways)
        return next((text for text in found if text is not None), None)

    def _difference(self, left: Bytes, way: Way) -> str | None:
        expected = self.expected[way]
        if expected is None:
            return f"the {way} failed: {self.reasons[way]}"
        return _difference(left, way, expected)


def _difference(left: Bytes, way: Way, expected: Bytes) -> str | None:
    wrong = np.flatnonzero(left != expected)
    if not len(wrong):
        return None
    first = int(wrong[0])
    return (
        f"byte {first % REGION_BYTES} of program {first // REGION_BYTES} is "
        f"{left[first]}, in the {way} {expected[first]}; {len(wrong)} bytes differ"
    )


_BEFORE: list[Bytes] = []


def bytes_before_once() -> Bytes:
    """Return the bytes before a launch, read once."""
    if not _BEFORE:
        _BEFORE.append(bytes_before())
    return _BEFORE[0]


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
    """Runs batches of kernels on all sides.

    Attributes:
        folder: Where modules are written.
        ways: The other sides.
        platform: What kernels are compiled for.
    """

    folder: Path
    ways: tuple[Way, ...] = ("interpreter",)
    platform: str = "cuda:90"
    sides: list[Side] = field(init=False)
    _batches: int = 0

    def __post_init__(self) -> None:
        before = self.folder / "before.npy"
        np.save(before, bytes_before_once())
        self.sides = [Side(way, self.folder, before) for way in self.ways]

    def batch(self, kernels: Sequence[RandomKernel]) -> list[Compiled]:
        """Return kernels compiled here and run elsewhere; names must differ."""
        self._batches += 1
        path = self.folder / f"batch_{self._batches}.py"
        path.write_text(HEADER + "".join(kernel.source for kernel in kernels))
        for side in self.sides:
            side.start(path, [k for k in kernels if _is_run(side.way, k)])
        try:
            made = self._compiled(path, kernels)
        finally:  # an answer that nobody takes would pass for the next batch's
            answers = [side.finish() for side in self.sides]
        for side, found in zip(self.sides, answers):
            for one in made:
                if _is_run(side.way, one.kernel):
                    one.expected[side.way] = found.get(one.kernel.name)
                    if one.kernel.name in side.reasons:
                        one.reasons[side.way] = side.reasons[one.kernel.name]
        return made

    def _compiled(self, path: Path, kernels: Sequence[RandomKernel]) -> list[Compiled]:
        module = random_worker.load_module(path)
        with stages(only_ttir=True), warnings.catch_warnings():
            # A branch on a tensor of one element is legal, and drawn on purpose.
            warnings.filterwarnings("ignore", message="If conditional called")
            made = [compiled(module, kernel, self.platform) for kernel in kernels]
            for one in made:
                assert one.event.kernel.ttir is not None
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
        ran = any(left is not None for left in made.expected.values())
        return ran and made.disagreement() is not None

    def close(self) -> None:
        """End the other sides."""
        for side in self.sides:
            side.close()


def _is_run(way: Way, kernel: RandomKernel) -> bool:
    """Return whether a side says anything of a kernel: not of undefined behaviour."""
    return way == "interpreter" or "false-promise" not in kernel.marks


@contextmanager
def witness(*ways: Way, platform: str = "cuda:90") -> Iterator[Witness]:
    """Run kernels on the footprint and other sides until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        made = Witness(Path(folder), ways or ("interpreter",), platform)
        try:
            yield made
        finally:
            made.close()
