"""Telling a leak from what is merely kept: by running a case again.

What an executor or a compiler keeps, it keeps once, and what grows with every run of
one case is a leak of the subject's. So only a case that leaves much more memory taken
than it found is run again, and all others cost two looks at this process's memory. What
is freed, and lies unused in the heap of C, is given back first: it is nobody's leak,
and in a heap with holes it grows for several runs.
"""

import ctypes
import gc
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kvzero.case import Case
from kvzero.executors import Executor
from kvzero.observation import Death, Observation
from kvzero.subjects.protocol import Subject

LEAK_BYTES = 2**24
"""Memory that each run of one case must keep to be called a leak: the allocators of C
and Python grow by less when nothing leaks."""
LEAK_RUNS = 2
"""Further runs that must keep as much."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class LeakWatch:
    """An executor that observes a leak as a death, for the process is spoilt by it."""

    def __init__(self, executor: Executor) -> None:
        """Take the executor that runs all cases, in this process."""
        self._executor = executor
        self.name = executor.name

    def fits(self, case: Case) -> bool:
        """Return whether the case's memory can be had here."""
        return self._executor.fits(case)

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case, or that it leaks."""
        seen, kept = _measured(lambda: self._executor.run(subject, case))
        least = kept
        for _ in range(LEAK_RUNS):
            if kept < LEAK_BYTES or seen.died is not None:
                break
            seen, kept = _measured(lambda: self._executor.run(subject, case))
            least = min(least, kept)
        if seen.died is None and least >= LEAK_BYTES:
            text = f"memory leaked: each run of the case keeps {LEAK_BYTES:,} B or more"
            return replace(seen, died=Death("memory-leaked", text))
        return seen


def _measured(run: Callable[[], Observation]) -> tuple[Observation, int]:
    """Return what a run saw, and by how much memory grew."""
    before = resident_bytes()
    seen = run()
    if resident_bytes() - before >= LEAK_BYTES:
        gc.collect()
        _give_back_freed()
    return seen, resident_bytes() - before


def _give_back_freed() -> None:
    """Return what the heap of C holds unused to the system, where C's library can."""
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _keep: None)(0)


def resident_bytes() -> int:
    """Return the memory that this process takes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * _PAGE_BYTES
