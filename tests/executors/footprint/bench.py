"""How the tests of this folder run one kernel on memory of their own."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from kvzero.case import Call, Case, IdRun
from kvzero.executors.footprint.arena import arena, arena_tensors
from kvzero.executors.footprint.evaluate import Evaluator, LaunchResult
from kvzero.executors.footprint.launch_memory import CaseMemory
from kvzero.executors.footprint.real_memory import RealMemory
from kvzero.executors.footprint.shadow import Shadow
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import place
from kvzero.triton_internals import LaunchEvent, dry_driver

EVALUATOR = Evaluator()


def one_page_case(size_bytes: int = 4096, **fields: object) -> Case:
    """Return a case of one allocation that is one page of one block."""
    layout = Layout(1, (Allocation(size_bytes),), (Run(size_bytes, size_bytes),))
    return Case(layout, (Call((IdRun(0),)),), **fields)  # type: ignore[arg-type]  # tests name Case's own fields


@dataclass
class Bench:
    """Memory of one case, and launches evaluated on it.

    Attributes:
        memory: Its tensor; addresses without memory behind them.
    """

    case: Case = field(default_factory=one_page_case)
    platform: str = "cuda:90"
    results: list[LaunchResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        addresses = place(self.case)
        sizes = self.case.layout.allocation_sizes
        self.shadow = Shadow(self.case.seed, addresses, sizes, arena().start)
        self.memory = arena_tensors(self.shadow.base_addresses, sizes)[0]
        self.real = RealMemory(arena())
        self._case_memory = CaseMemory(self.shadow, arena(), self.real, lambda: None)

    def launch(self, make: Callable[[], object]) -> LaunchResult:
        """Return what the one launch of `make` did."""
        before = len(self.results)
        with dry_driver(self.platform, self._evaluate):
            make()
        assert len(self.results) == before + 1
        return self.results[-1]

    def _evaluate(self, event: LaunchEvent) -> None:
        self.results.append(EVALUATOR.evaluate(event, self._case_memory))

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes of the allocation as programs would see them."""
        where = self.memory.data_ptr() + offset + np.arange(count, dtype=np.int64)
        return bytes(self.shadow.bytes_at(where))

    def zeros(self) -> list[tuple[int, int]]:
        """Return the stretches of zeros stored so far, as offsets."""
        base = self.memory.data_ptr()
        starts, ends = self.shadow.zero
        return [(s - base, e - base) for s, e in zip(starts.tolist(), ends.tolist())]


def ints(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Return a tensor of integers."""
    return torch.tensor(values, dtype=dtype)
