"""What an executor saw while a subject ran on a case: facts, no judgement.

Byte facts are stated against the oracle's three classes: bytes that had to be zero and
are not (`CallObservation.missed`) and bytes that had to stay untouched and were stored
or changed (`CallObservation.touched`). The properties turn facts into verdicts.
"""

from dataclasses import dataclass, field
from typing import Literal

from kvzero.limits import Fate, LaunchShape

WARMUP_CALL = -1
"""The `call` of launches made by the subject's constructor or its warm-up."""

MAX_SPANS = 8
"""Wrong stretches of bytes that a call keeps with their place; the rest is counted."""

EVERY_PROPERTY = "*"
"""Stands for all properties in `Observation.not_judged`."""

Semantics = Literal["TTIR", "machine", "interpreter"]


@dataclass(frozen=True, slots=True)
class Writer:
    """Who stored a byte: the program and the line of the kernel."""

    program: tuple[int, int, int]
    place: str


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """A stretch of wrong bytes.

    Attributes:
        allocation: The allocation whose bytes or guards they are; None: no memory of
            the case.
        offset_bytes: Where it begins, from the allocation's base (below 0 or beyond
            its size: in a guard), or the address where `allocation` is None.
        length_bytes: How long it is.
        seen: Its first bytes after the call, at most 16; empty where the executor
            sees stores only.
        writer: Who stored the first byte, when known.
    """

    allocation: int | None
    offset_bytes: int
    length_bytes: int
    seen: bytes = b""
    writer: Writer | None = None


@dataclass(frozen=True, slots=True)
class WrongBytes:
    """All wrong bytes of one call and class: their number and the first stretches."""

    count: int = 0
    spans: tuple[ByteSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Misstep:
    """Something a program did that has no defined result.

    Attributes:
        kind: ``"false-promise"``, ``"undefined-value"``, ``"undefined-arithmetic"``,
            ``"race"`` or ``"bad-load"``.
        text: What happened, with values.
        place: File and line of the kernel.
        program: The first program that did it.
        count: Programs that did it.
    """

    kind: str
    text: str
    place: str
    program: tuple[int, int, int]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Launch:
    """One recorded kernel launch.

    Attributes:
        call: Index of the call that made it, or `WARMUP_CALL`.
        kernel: Name of the kernel.
        place: File and line of the kernel.
        shape: Grid, warps and CTAs.
        fate: What the platform did with it, or would do.
        limit: Name of the row of `kvzero.limits` that decided the fate, if any.
        variant: Identity of the compiled variant that was launched.
        target: What it was compiled for, such as ``"cuda:90"``.
        constants: Compile-time arguments, by name.
    """

    call: int
    kernel: str
    place: str
    shape: LaunchShape
    fate: Fate = "runs"
    limit: str | None = None
    variant: str = ""
    target: str = ""
    constants: tuple[tuple[str, object], ...] = ()

    @property
    def is_of_warmup(self) -> bool:
        """Return whether it was made before the first call."""
        return self.call == WARMUP_CALL


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that a call let out."""

    type_name: str
    message: str
    is_value_error: bool = False


@dataclass(frozen=True, slots=True)
class Death:
    """How a subject ended its process, or its device.

    Attributes:
        what: Stable short word: ``"killed-by-sigsegv"`` or another signal,
            ``"process-exited"``, ``"process-hung"``, ``"out-of-memory"``,
            ``"memory-leaked"``, ``"answer-garbled"`` (it broke the harness's own
            connection), ``"process-killed"`` (from outside) or ``"device-died"``.
        text: What happened, as a sentence without its end.
    """

    what: str
    text: str


@dataclass(frozen=True, slots=True)
class CallObservation:
    """What one call did.

    Attributes:
        raised: The exception it let out, if any.
        bytes_judged: Whether `missed` and `touched` are complete.
        missed: Bytes that must be zero and are not.
        touched: Bytes that must stay untouched and were stored (footprint) or changed.
        stored_bytes: Bytes that differ from before or were stored, wherever they lie.
        missteps: Undefined things that programs did.
        programs: Programs launched, whether or not they were evaluated.
        again_bytes: Bytes stored more often than once, each time after the first; None
            where the executor does not see single stores, as for those below.
        again_by: Who stored one of those, when known.
        idle_programs: Programs that stored nothing.
        idle_program: The first of them.
        narrowest_store_bytes: Bytes of the smallest element that was stored; 0: none.
        host_waits: Times that it made the host wait for the device; None where the
            executor does not see it.
    """

    raised: Raised | None = None
    bytes_judged: bool = True
    missed: WrongBytes = WrongBytes()
    touched: WrongBytes = WrongBytes()
    stored_bytes: int = 0
    missteps: tuple[Misstep, ...] = ()
    programs: int = 0
    again_bytes: int | None = None
    again_by: Writer | None = None
    idle_programs: int | None = None
    idle_program: tuple[int, int, int] | None = None
    narrowest_store_bytes: int | None = None
    host_waits: int | None = None


@dataclass(frozen=True, slots=True)
class Queued:
    """What a case's calls did together, queued on a stream that was held busy.

    The caller of each call had reused and freed its ids before the stream moved on.

    Attributes:
        missed: Bytes that one of the calls had to zero and that were not zero when the
            stream had passed the last call.
        touched: Bytes that none of them was to touch.
        raised: The first exception that one of them let out which it did not let out
            when it was made alone.
        waited_in: Index of the call that did not return while the stream was held.
    """

    missed: WrongBytes = WrongBytes()
    touched: WrongBytes = WrongBytes()
    raised: Raised | None = None
    waited_in: int | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a CUDA graph of one call did, replayed after its ids had been changed.

    Attributes:
        call: Index of the call.
        ids: What stood in its tensor of ids at the replay.
        missed: Bytes of those ids' pages that were not zero.
        touched: All other bytes that were changed.
        raised: Why the call could not be captured.
    """

    call: int
    ids: tuple[int, ...]
    missed: WrongBytes = WrongBytes()
    touched: WrongBytes = WrongBytes()
    raised: Raised | None = None


@dataclass(frozen=True)
class Observation:
    """What an executor saw of one case.

    Attributes:
        subject: Name of the subject.
        executor: ``"footprint"``, ``"device"`` or ``"host"``.
        semantics: What the verdict speaks of: Triton's IR, the machine, or Triton's
            interpreter.
        environment: Target and versions, such as ``"cuda:90, triton 3.7.1, torch
            2.13.0"``.
        calls: One entry a call of the case, in order; fewer if it died.
        launches: Launches in order, those of the warm-up included.
        has_warmup: Whether the subject offers a warm-up, which then ran first.
        built: Why the subject could not be built on this case, if so.
        died: How the process or its device died, if it did.
        not_judged: Properties that could not be judged, and why; `EVERY_PROPERTY`
            names all of them.
        queued: What its calls did when they were queued together, where that was tried.
        replayed: What a graph of one of them did, where that was tried.
        kept_bytes: Device memory that each repetition of the calls kept, likewise.
    """

    subject: str
    executor: str
    semantics: Semantics
    environment: str
    calls: tuple[CallObservation, ...] = ()
    launches: tuple[Launch, ...] = ()
    has_warmup: bool = False
    built: Raised | None = None
    died: Death | None = None
    not_judged: tuple[tuple[str, str], ...] = field(default=())
    queued: Queued | None = None
    replayed: Replayed | None = None
    kept_bytes: int | None = None
