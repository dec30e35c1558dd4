"""A leak is what every run of a case keeps; what is freed, or kept once, is none."""

import ctypes
import gc
import mmap
from collections.abc import Callable
from dataclasses import dataclass, field

from kvzero.case import Call, Case, id_runs
from kvzero.executors.leaks import LEAK_BYTES, LEAK_RUNS, LeakWatch
from kvzero.layout import Allocation, Layout, Run
from kvzero.observation import Observation
from kvzero.subjects.protocol import Contract, MadeSubject, Subject

CASE = Case(Layout(1, (Allocation(64),), (Run(64, 64),)), (Call(id_runs([0])),))
SUBJECT = MadeSubject("any", Contract(), lambda pool: pool)  # type: ignore[arg-type,return-value]  # never built
SMALL_BYTES = 2**16
"""Below the size from which on C's allocator asks the system for each piece."""
LIBC = ctypes.CDLL(None)
LIBC.malloc.argtypes, LIBC.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
LIBC.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.realloc.restype = ctypes.c_void_p
LIBC.free.argtypes = [ctypes.c_void_p]


@dataclass
class Keeping:
    """An executor whose runs do something to this process's memory.

    Attributes:
        act: Called with the number of each run.
        runs: How many there were.
    """

    act: Callable[[int], None]
    runs: int = 0
    name: str = field(default="footprint", init=False)

    def fits(self, _case: Case) -> bool:
        return True

    def run(self, subject: Subject, _case: Case) -> Observation:
        self.act(self.runs)
        self.runs += 1
        return Observation(subject.name, self.name, "TTIR", "nowhere")


def watched(act: Callable[[int], None]) -> tuple[str | None, int]:
    """Return the death that a watch sees in such runs, and how many it makes."""
    # What earlier tests freed would be given back in the middle of what is measured.
    gc.collect()
    LIBC.malloc_trim(0)
    executor = Keeping(act)
    died = LeakWatch(executor).run(SUBJECT, CASE).died
    return died.what if died else None, executor.runs


def taken() -> mmap.mmap:
    """Return memory from the system: a heap with holes would take it from there."""
    memory = mmap.mmap(-1, 2 * LEAK_BYTES)
    memory[:: mmap.PAGESIZE] = b"x" * (len(memory) // mmap.PAGESIZE)
    return memory


def test_what_every_run_keeps_is_a_leak() -> None:
    kept: list[mmap.mmap] = []
    seen = watched(lambda _run: kept.append(taken()))
    assert seen == ("memory-leaked", 1 + LEAK_RUNS)


def test_what_one_run_keeps_is_no_leak() -> None:
    kept: list[mmap.mmap] = []

    def keep_once(run: int) -> None:
        kept.extend(taken() for _ in range(run == 0))

    assert watched(keep_once) == (None, 2)


def test_a_run_that_keeps_little_is_not_repeated() -> None:
    assert watched(lambda _run: None) == (None, 1)


def test_what_the_heap_holds_unused_is_no_leak() -> None:
    # Each run asks for larger pieces, which fit in no hole that a run before has left:
    # so the heap grows with every run, though next to nothing of it is in use.
    stay: list[int] = []

    def leave_holes(run: int) -> None:
        size = SMALL_BYTES + run * 2**12
        pieces = [LIBC.malloc(size) for _ in range(2 * LEAK_BYTES // size)]
        for piece in pieces:
            ctypes.memset(piece, 1, size)
        stay.extend(LIBC.realloc(piece, 64) for piece in pieces)

    try:
        assert watched(leave_holes)[0] is None
    finally:
        for piece in stay:
            LIBC.free(piece)
