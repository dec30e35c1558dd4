"""Running a subject on real memory: what the device and the host executor share.

The arena, the poison, the comparison and the order of things are the same wherever the
memory lies. What differs is a `Bench`: its device, how it waits, what it records.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

import torch

from kvzero.case import Case
from kvzero.executors.arena import Arena, Memory
from kvzero.executors.arrival import block_ids_for, reuse_ids
from kvzero.executors.comparing import Comparison, Difference
from kvzero.memory import Pool
from kvzero.observation import (
    EVERY_PROPERTY,
    WARMUP_CALL,
    CallObservation,
    Death,
    Launch,
    Observation,
    Queued,
    Raised,
    Replayed,
    Semantics,
    WrongBytes,
)
from kvzero.oracle import (
    may_be_zero,
    must_be_zero,
    reserved_pages,
    subtract,
    union,
    zeroed_blocks,
)
from kvzero.subjects.protocol import Contract, Subject, WarmsUp, Zeroer


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
class Alone:
    """What is known of a case's calls when each has been made alone.

    Attributes:
        zeroer: What made them.
        contract: What its subject promises.
        memory: The case with its memory.
        calls: What was seen of each.
        seconds: The longest time that one of them took on the host.
    """

    zeroer: Zeroer
    contract: Contract
    memory: Memory
    calls: tuple[CallObservation, ...]
    seconds: float


@dataclass(frozen=True)
class Together:
    """What the calls of a case did when they were repeated: fields of `Observation`."""

    queued: Queued | None = None
    replayed: Replayed | None = None
    kept_bytes: int | None = None
    not_judged: tuple[tuple[str, str], ...] = ()


class HostWaits(Protocol):
    """Times that the host waited for the device."""

    count: int


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
        count_waits: Counts how often a call makes the host wait, if the device is one
            that is waited for.
        repeat: Repeats the calls in ways that only a device shows, likewise.
        is_short: Returns whether others have left too little of the device's memory:
            a subject that then runs out of it is not to blame.
    """

    executor: str
    semantics: Semantics
    environment: str
    arena: Arena
    wait: Callable[[], None]
    blind_to: tuple[tuple[str, str], ...] = ()
    count_waits: Callable[[], AbstractContextManager[HostWaits]] | None = None
    repeat: Callable[[Alone], Together] | None = None
    is_short: Callable[[], bool] = lambda: False


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
        self.died: Death | None = None
        self.gave_up: str | None = None
        self.seconds = 0.0
        self.waits: int | None = None
        self.together = Together()

    def observe(self) -> Observation:
        try:
            self._run()
        except DeviceDeadError as error:
            self.died = Death("device-died", str(error))
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
            queued=self.together.queued,
            replayed=self.together.replayed,
            kept_bytes=self.together.kept_bytes,
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
        if self.bench.repeat is not None:
            contract, calls = self.subject.contract, tuple(self.calls)
            alone = Alone(zeroer, contract, memory, calls, self.seconds)
            self.together = self.bench.repeat(alone)

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
        raised = self._attempt(lambda: self._make(zeroer, ids))[1]
        # The call is over and its ids are its caller's again. Only here, when the work
        # is done: whether work that is still queued reads them is a matter of luck, and
        # `Bench.repeat` leaves nothing to luck.
        reuse_ids(ids, num_blocks)
        return raised

    def _make(self, zeroer: Zeroer, ids: Any) -> None:  # Any: see `block_ids_for`
        """Make a call, and note how long it keeps the host and how often it waits."""
        started, self.waits = monotonic(), None
        counting = self.bench.count_waits or nullcontext
        waits = None
        try:
            with counting() as waits:
                zeroer.zero(ids)
        finally:
            self.waits = waits.count if waits is not None else None
            self.seconds = max(self.seconds, monotonic() - started)

    def _attempt(self, action: Callable[[], Any]) -> tuple[Any, Raised | None]:
        """Return what an action of the subject returns and what it raises."""
        result, raised = None, None
        try:
            result = action()
        except (Exception, SystemExit) as error:  # what a subject raises is observed
            if isinstance(error, torch.OutOfMemoryError) and self.bench.is_short():
                raise
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
            host_waits=self.waits,
        )

    def _difference(self, comparison: Comparison, index: int) -> Difference | None:
        if comparison.lost:
            return None
        bases = comparison.memory.addresses.base_bytes
        must = must_be_zero(self.case, index, bases)
        may = may_be_zero(self.case, index, bases)
        if index == 0:
            block = self.subject.contract.reserved_block
            reserved = reserved_pages(self.case, block, bases)
            may = union(may, subtract(reserved, must))
        return comparison.after_call(must, may)

    def _not_judged(self) -> tuple[tuple[str, str], ...]:
        reason = self.gave_up or self._unrecorded()
        known = (*self.bench.blind_to, *self.together.not_judged)
        return known if reason is None else ((EVERY_PROPERTY, reason), *known)

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
