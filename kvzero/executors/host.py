"""Real CPU memory and Triton's interpreter: an independent witness.

The interpreter has to be chosen before a kernel is defined, so this executor runs only
in a process that was started for it: `kvzero.executors.isolated` does that. Subjects
that are not Triton run there as they are.
"""

from collections.abc import Callable
from math import prod

import torch
import triton

from kvzero.case import Case
from kvzero.executors.arena import Arena
from kvzero.executors.leaks import resident_bytes
from kvzero.executors.real_memory import Bench, NotJudgedError, run_on_memory
from kvzero.memory import place
from kvzero.observation import EVERY_PROPERTY, Observation
from kvzero.subjects.protocol import Subject
from kvzero.triton_internals.interpreter import interpreted_launches, mend_interpreter

MAX_PROGRAMS = 20_000
"""Programs of a case that are interpreted at most: about half a minute, 1.4 ms each."""
MAX_BYTES = 2**30
"""Memory of a case: poison is written at about 300 MB/s on one core."""
WORKING_BYTES = 2**27
"""Memory that a case takes besides: what interprets, and masks of a piece."""
PIECE_BYTES = 2**22
"""Bytes compared at once: what a core's cache holds of them."""
MOST_GAP_BYTES = 2**20
_NO_LAUNCHER = "Triton's interpreter has no launcher: footprint and device record"

BLIND_TO = tuple(
    (name, _NO_LAUNCHER)
    for name in (
        "launches_fit_the_platform",
        "warm_calls_compile_nothing",
        "work_is_bounded",
        "promises_hold",
        "results_are_defined",
    )
)
"""What the interpreter cannot show, and why."""


class HostExecutor:
    """Runs subjects on CPU memory, in a process that interprets Triton."""

    name = "host"

    def __init__(
        self, *, max_programs: int | None = None, memory_bytes: int | None = None
    ) -> None:
        """Prepare; memory is had with the first case.

        Args:
            max_programs: Programs of a case that are interpreted at most, if that is
                less than `MAX_PROGRAMS`.
            memory_bytes: Resident memory that this process may take, if it is limited:
                what a case itself needs is no fault of a subject's.
        """
        mend_interpreter()
        self._max_programs = min(max_programs or MAX_PROGRAMS, MAX_PROGRAMS)
        self._max_bytes = MAX_BYTES
        if memory_bytes is not None:
            left = memory_bytes - resident_bytes() - WORKING_BYTES
            self._max_bytes = max(0, min(MAX_BYTES, left))
        arena = Arena(
            torch.device("cpu"), most_gap_bytes=MOST_GAP_BYTES, piece_bytes=PIECE_BYTES
        )
        versions = f"cpu, triton {triton.__version__}, torch {torch.__version__}"
        self._bench = Bench(
            self.name, "interpreter", versions, arena, lambda: None, BLIND_TO
        )

    def fits(self, case: Case) -> bool:
        """Return whether the case's memory can be had here in reasonable time."""
        addresses = place(case, most_gap_bytes=MOST_GAP_BYTES)
        return addresses.total_bytes <= self._max_bytes

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case; a larger one is not judged."""
        if not self.fits(case):
            reason = (
                f"a case beyond {self._max_bytes:,} B of memory, which is this "
                f"executor's cap"
            )
            return Observation(
                subject.name,
                self.name,
                self._bench.semantics,
                self._bench.environment,
                not_judged=((EVERY_PROPERTY, reason), *BLIND_TO),
            )
        with interpreted_launches(_cap(self._max_programs)):
            return run_on_memory(self._bench, subject, case)


def _cap(max_programs: int) -> Callable[[tuple[int, ...]], None]:
    """Return what ends a case whose launches have more programs together."""
    spent = 0

    def admit(grid: tuple[int, ...]) -> None:
        nonlocal spent
        spent += prod(grid)
        if spent > max_programs:
            raise NotJudgedError(
                f"more than {max_programs:,} programs, which is this executor's cap"
            )

    return admit
