"""A card without a GPU, and subjects that write host memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kvzero.bench.cards import Times
from kvzero.bench.contenders import TimedCall
from kvzero.bench.machine import Origin
from kvzero.bench.records import EMPTY, MEMSET
from kvzero.memory import Pool
from kvzero.subjects.protocol import Contract, MadeSubject

PLAIN = Contract(checks_ids=False, uses_triton=False)
ORIGIN = Origin({"gpu": "Made Up 9"}, {"kvzero": "1"}, "kvzero bench", "2026-01-01")


@dataclass
class CpuCard:
    """Host memory, and times that are told instead of taken.

    Attributes:
        us: Time of each call, by name; 1 where it is not told.
        free: Bytes that may be asked for.
        asked: The calls of each row.
    """

    us: dict[str, float] = field(default_factory=dict)
    free: int = 2**23
    asked: list[tuple[str, ...]] = field(default_factory=list)
    by_events: frozenset[str] = frozenset()
    device = torch.device("cpu")

    def free_bytes(self) -> int:
        return self.free

    def wait(self) -> None:
        """Nothing is pending."""

    def yardsticks(self, memory: torch.Tensor, size_bytes: int) -> dict[str, TimedCall]:
        def clear() -> None:
            memory[:size_bytes].zero_()

        return {MEMSET: TimedCall(clear, True), EMPTY: TimedCall(lambda: None, True)}

    def times(self, calls: Mapping[str, TimedCall], rounds: int) -> Times:
        assert rounds > 0
        self.asked.append(tuple(calls))
        for call in calls.values():
            call.run()
        return Times({name: self.us.get(name, 1.0) for name in calls}, self.by_events)


@dataclass
class PlainZeroer:
    """Zeroes pages one by one; `spoil` is called after each block."""

    pool: Pool
    spoil: Callable[[Pool, int], None] = lambda _pool, _block: None

    def zero(self, block_ids: Any) -> None:
        for block in torch.as_tensor(block_ids).tolist():
            for allocation, offset, stride, page in zip(*self.pool.layout.table):
                begin = int(offset) + block * int(stride)
                self.pool.tensors[allocation][begin : begin + int(page)] = 0
            self.spoil(self.pool, block)


def misses_the_last_byte(pool: Pool, block: int) -> None:
    allocation, offset, stride, page = pool.layout.table.segment(0)
    pool.tensors[allocation][offset + block * stride + page - 1] = 1


def writes_beyond_the_end(pool: Pool, _block: int) -> None:
    last = pool.tensors[-1]
    last.as_strided((1,), (1,), last.numel())[0] = 0


def raises(_pool: Pool, _block: int) -> None:
    raise ValueError("some\nlong story")


def warmed_on_block_0(pool: Pool) -> PlainZeroer:
    zeroer = PlainZeroer(pool)
    zeroer.zero([0])
    return zeroer


def subject_of(name: str, spoil: Callable[[Pool, int], None] | None = None) -> Any:
    made = (lambda pool: PlainZeroer(pool, spoil)) if spoil else PlainZeroer
    return MadeSubject(name, PLAIN, made)


RIGHT = subject_of("right")
SHORT = subject_of("short", misses_the_last_byte)
BEYOND = subject_of("beyond", writes_beyond_the_end)
RAISING = subject_of("raising", raises)
WARMED = MadeSubject("warmed", PLAIN, warmed_on_block_0)
