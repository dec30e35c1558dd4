"""Running a subject on real memory: what the device and the host executor share.

The arena, the poison, the comparison and the order of things are the same wherever the
memory lies. What differs is a `Bench`: its device, how it waits, what it records.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from kvzero.case import Case
from kvzero.executors.arena import Arena
from kvzero.executors.arrival import block_ids_for, reuse_ids
from kvzero.executors.comparing import Comparison, Difference
from kvzero.memory import Pool
from kvzero.observation import (
    EVERY_PROPERTY,
    WARMUP_CALL,
    CallObservation,
    Launch,
    Observation,
    Raised,
    Semantics,
    WrongBytes,
)
from kvzero.oracle import may_be_zero, must_be_zero, zeroed_blocks
from kvzero.subjects.protocol import Subject, WarmsUp, Zeroer


class DeviceDeadError(Exception):
    """The device or its context is of no more use to this process."""


class NotJudgedError(BaseException):
    """The case cannot be run to its end here, for a reason that is nobody's fault.

    Not an `Exception`, so that no subject catches it by accident.
    """


class Recorder(Protocol):
    """Records the launches of one case."""

    def begin(self, call: int) -> None:
        """Count what is launched from now on as that call's."""

    def raised(self, raised: Raised) -> None:
        """Take note that the call raised: its last launch may be why."""

    def launches(self) -> tuple[Launch, ...]:
        """Return what was launched, in order."""


@dataclass(frozen=True)
class Bench:
    """Where a subject runs.

    Attributes:
        executor: Name of the executor.
        semantics: What its verdicts speak of.
        environment: Target and versions.
        arena: Its memory.
        wait: Waits for the device; raises `DeviceDeadError` where it is dead.
        blind_to: Properties that it cannot judge, and why.
    """

    executor: str
    semantics: Semantics
    environment: str
    arena: Arena
    wait: Callable[[], None]
    blind_to: tuple[tuple[str, str], ...] = ()


def run_on_memory(
    bench: Bench, subject: Subject, case: Case, recorder: Recorder | None = None
) -> Observation:
    """Run a subject on a case in real memory and return what it did.

    Args:
        bench: Where.
        subject: The implementation under test.
        case: The case.
        recorder: Records its launches, where there is a launcher.
    """
    return _Trial(bench, subject, case, recorder).observe()


class _Trial:
    """One run of one subject on one case."""

    def __init__(
        self, bench: Bench, subject: Subject, case: Case, recorder: Recorder | None
    ) -> None:
        self.bench = bench
        self.subject = subject
        self.case = case
        self.recorder = recorder
        self.calls: list[CallObservation] = []
        self.has_warmup = False
        self.built: Raised | None = None
        self.died: str | None = None
        self.gave_up: str | None = None

    def observe(self) -> Observation:
        try:
            self._run()
        except DeviceDeadError as error:
            self.died = str(error)
        except NotJudgedError as error:
            self.gave_up = str(error)
        except (MemoryError, torch.OutOfMemoryError) as error:
            self.gave_up = f"out of memory: {_first_line(error)}"
        bench = self.bench
        return Observation(
            subject=self.subject.name,
            executor=bench.executor,
            semantics=bench.semantics,
            environment=bench.environment,
            calls=tuple(self.calls),
            launches=self.recorder.launches() if self.recorder else (),
            has_warmup=self.has_warmup,
            built=self.built,
            died=self.died,
            not_judged=self._not_judged(),
        )

    def _run(self) -> None:
        memory = self.bench.arena.lay_out(self.case)
        pool = memory.pool()
        comparison = Comparison(memory)
        self._begin(WARMUP_CALL)
        zeroer = self._build(pool)
        if zeroer is None:
            return
        for index in range(len(self.case.calls)):
            self._begin(index)
            raised = self._call(zeroer, index)
            self.calls.append(self._seen(comparison, index, raised))

    def _begin(self, call: int) -> None:
        if self.recorder is not None:
            self.recorder.begin(call)

    def _build(self, pool: Pool) -> Zeroer | None:
        """Return the warmed zeroer, None if it could not be built."""

        def build() -> Zeroer:
            zeroer = self.subject.build(pool)
            if isinstance(zeroer, WarmsUp):
                self.has_warmup = True
                zeroer.warmup()
            return zeroer

        zeroer: Zeroer | None
        zeroer, self.built = self._attempt(build)
        return zeroer

    def _call(self, zeroer: Zeroer, index: int) -> Raised | None:
        call, num_blocks = self.case.calls[index], self.case.layout.num_blocks
        ids = block_ids_for(call, self.bench.arena.device, num_blocks)

        def zero() -> None:
            zeroer.zero(ids)
            # Work may still be queued, but the call is over and its ids are ours again.
            reuse_ids(ids, num_blocks)

        return self._attempt(zero)[1]

    def _attempt(self, action: Callable[[], Any]) -> tuple[Any, Raised | None]:
        """Return what an action of the subject returns and what it raises."""
        result, raised = None, None
        try:
            result = action()
        except (MemoryError, torch.OutOfMemoryError):
            raise
        except (Exception, SystemExit) as error:  # what a subject raises is observed
            raised = Raised(
                type(error).__name__, str(error), isinstance(error, ValueError)
            )
            if self.recorder is not None:
                self.recorder.raised(raised)
        self.bench.wait()
        return result, raised

    def _seen(
        self, comparison: Comparison, index: int, raised: Raised | None
    ) -> CallObservation:
        seen = self._difference(comparison, index)
        launches = self.recorder.launches() if self.recorder else ()
        programs = sum(run.shape.programs for run in launches if run.call == index)
        return CallObservation(
            raised=raised,
            bytes_judged=seen is not None,
            missed=seen.missed if seen else WrongBytes(),
            touched=seen.touched if seen else WrongBytes(),
            stored_bytes=seen.changed if seen else 0,
            programs=programs,
        )

    def _difference(self, comparison: Comparison, index: int) -> Difference | None:
        if comparison.lost:
            return None
        bases = comparison.memory.addresses.base_bytes
        must = must_be_zero(self.case, index, bases)
        may = may_be_zero(self.case, index, bases)
        return comparison.after_call(must, may)

    def _not_judged(self) -> tuple[tuple[str, str], ...]:
        reason = self.gave_up or self._unrecorded()
        if reason is None:
            return self.bench.blind_to
        return ((EVERY_PROPERTY, reason), *self.bench.blind_to)

    def _unrecorded(self) -> str | None:
        """Return why a Triton subject that seems to launch nothing is not judged."""
        if self.recorder is None or not self.subject.contract.uses_triton:
            return None
        worked = any(
            seen.raised is None
            and len(zeroed_blocks(self.case.calls[i], self.case.layout.num_blocks))
            for i, seen in enumerate(self.calls)
        )
        if not worked or not len(self.case.layout.table) or self.recorder.launches():
            return None
        return "no launch of this Triton subject was recorded"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
