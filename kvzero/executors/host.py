"""Real CPU memory and Triton's interpreter: an independent witness.

The interpreter has to be chosen before a kernel is defined, so this executor runs only
in a process that was started for it: `kvzero.executors.isolated` does that. Subjects
that are not Triton run there as they are.
"""

import torch
import triton

from kvzero.case import Case
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.arena import Arena
from kvzero.executors.interpreter import capped_interpreter
from kvzero.executors.real_memory import Bench, run_on_memory
from kvzero.memory import place
from kvzero.observation import Observation
from kvzero.subjects.protocol import Subject

MAX_PROGRAMS = 20_000
"""Programs of a case that are interpreted at most: about half a minute."""
MAX_BYTES = 2**30
"""Memory of a case: poison is written at about 300 MB/s on one core."""
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

    def __init__(self, *, max_programs: int | None = None) -> None:
        """Prepare; memory is had with the first case.

        Args:
            max_programs: Programs of a case that are interpreted at most, if that is
                less than `MAX_PROGRAMS`.
        """
        self._max_programs = min(max_programs or MAX_PROGRAMS, MAX_PROGRAMS)
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
        return addresses.total_bytes <= MAX_BYTES

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case.

        Raises:
            EnvironmentMissingError: The case's memory does not fit.
        """
        if not self.fits(case):
            raise EnvironmentMissingError(
                f"case beyond {MAX_BYTES} B, but the host executor takes no larger "
                f"one: use --executor footprint"
            )
        with capped_interpreter(self._max_programs):
            return run_on_memory(self._bench, subject, case)
