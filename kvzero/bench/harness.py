"""What testing costs: launches checked a second, large presets, time to kill a fault.

One process does all of it, so a number is that of one core, beside what torch and
Triton's compiler do in threads. Nothing is asserted: records show how it moves.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from kvzero.bench.machine import Origin
from kvzero.campaign.faults import MAX_EXAMPLES, kill_matrix
from kvzero.campaign.fuzz import MAX_PROGRAMS, Budget, Fuzzer, cases_for
from kvzero.campaign.judging import Judge
from kvzero.campaign.tally import Tally
from kvzero.campaign.verify import preset_case
from kvzero.errors import SubjectError
from kvzero.executors import Executor, executor_named
from kvzero.executors.device import device_available
from kvzero.presets import load_preset
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.registry import find_subject

SUBJECT = "kvzero"
LARGEST = (
    "vllm_pr52058_dsv4_181seg_9344_292",
    "vllm_dsv4_pro_fp4idx_packed",
    "lhbnc_mha_block2048_65536_segments",
    "sglang_llama3_8b_page1",
)
"""Presets whose longest lists need the most programs or segments."""
WARM_SHARE = 0.5
"""Time before, in parts of the time that counts: kernels are compiled in it."""
SEED = 0


@dataclass(frozen=True)
class Speed:
    """How fast one executor checks random cases of kvzero's zeroer.

    Attributes:
        executor: Its name.
        cases: Cases that it judged.
        seconds: In how long.
        launches: Launches that it checked; None where it records none.
        to_the_byte: Those among them whose bytes were judged too; of the others, which
            exceed the cap of programs, the legality and the variant.
        cases_per_s: Cases a second, drawing included.
        launches_per_s: Launches a second, drawing included.
        launches_per_s_checking: Launches a second, with Hypothesis's drawing excluded.
    """

    executor: str
    cases: int
    seconds: float
    launches: int | None
    to_the_byte: int | None
    cases_per_s: float
    launches_per_s: float | None
    launches_per_s_checking: float | None


@dataclass(frozen=True)
class PresetTime:
    """How long all properties of one preset at full size took."""

    preset: str
    executor: str
    programs: int
    seconds: float


@dataclass(frozen=True)
class KillTime:
    """How long it took to find one fault and to shrink its case."""

    fault: str
    executor: str
    killed: bool
    cases: int
    seconds: float


@dataclass(frozen=True)
class HarnessRequest:
    """What to measure.

    Attributes:
        executors: Names of executors, or None: all that work here.
        presets: Names of presets, or None: `LARGEST`.
        faults: Names of faults, or None: all.
        fuzz_seconds: How long each executor checks.
        seconds: Time after which no further preset or fault is begun.
    """

    executors: Sequence[str] | None = None
    presets: Sequence[str] | None = None
    faults: Sequence[str] | None = None
    fuzz_seconds: float = 10.0
    seconds: float | None = None


@dataclass
class HarnessRecord:
    """What was measured.

    Attributes:
        origin: Machine, versions and command.
        speeds: Of each executor.
        presets: Of each preset.
        kills: Of each fault that this machine can judge.
        left_out: What the time did not suffice for.
    """

    origin: Origin
    speeds: list[Speed] = field(default_factory=list)
    presets: list[PresetTime] = field(default_factory=list)
    kills: list[KillTime] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the record as plain data."""
        return {
            **self.origin.as_json(),
            "speeds": [asdict(each) for each in self.speeds],
            "presets": [asdict(each) for each in self.presets],
            "kills": [asdict(each) for each in self.kills],
            "left_out": self.left_out,
        }


def measure_harness(
    request: HarnessRequest, origin: Origin, say: Callable[[str], None]
) -> HarnessRecord:
    """Return what was measured.

    Args:
        request: What to measure.
        origin: What the record says of machine and command.
        say: Gets a line on progress.

    Raises:
        EnvironmentMissingError: An executor was named that needs a GPU, without one.
        LayoutError: There is no preset of a name.
        SubjectError: There is no fault of a name.
    """
    record = HarnessRecord(origin)
    begun = monotonic()
    presets = [load_preset(name).name for name in request.presets or LARGEST]
    faults = chosen_faults(request.faults)
    for name in executor_names(request.executors):
        say(f"{name}: random cases for {request.fuzz_seconds:g} s")
        record.speeds.append(checking_speed(name, request.fuzz_seconds))
    for what, measure in _steps(record, presets, faults):
        if request.seconds is not None and monotonic() - begun > request.seconds:
            record.left_out.append(what)
            continue
        say(what)
        measure()
    return record


def _steps(
    record: HarnessRecord, presets: Sequence[str], faults: Sequence[Fault]
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what is to be measured, in words and as a function."""
    for preset in presets:
        yield preset, partial(_time_preset, record, preset)
    for fault in faults:
        yield fault.name, partial(_time_kill, record, fault)


def _time_preset(record: HarnessRecord, preset: str) -> None:
    record.presets.append(preset_time(preset))


def _time_kill(record: HarnessRecord, fault: Fault) -> None:
    record.kills.extend(kill_times(fault))


def executor_names(chosen: Sequence[str] | None) -> tuple[str, ...]:
    """Return the executors to measure: those chosen, or all that work here."""
    if chosen is not None:
        return tuple(chosen)
    gpu = ("device",) if device_available() else ()
    return (*gpu, "footprint", "host")


def chosen_faults(names: Sequence[str] | None) -> list[Fault]:
    """Return the faults of some names, or all that this machine can judge.

    Raises:
        SubjectError: There is none of a name.
    """
    known = {fault.name: fault for fault in fault_subjects()}
    if names is None:
        gpu = device_available()
        return [fault for fault in known.values() if gpu or not fault.needs_gpu]
    for name in names:
        if name not in known:
            raise SubjectError(
                f"fault={name!r}, but must be one of {', '.join(sorted(known))}"
            )
    return [known[name] for name in names]


@contextmanager
def using(name: str | None, most_programs: int | None = None) -> Iterator[Executor]:
    """Yield an executor, and give back what it holds: a GPU's memory, a process."""
    executor = executor_named(name, max_programs=most_programs)
    try:
        yield executor
    finally:
        close = getattr(executor, "close", None)
        if close is not None:
            close()


def checking_speed(executor: str, seconds: float) -> Speed:
    """Return how fast an executor draws, runs and judges random cases.

    Args:
        executor: Its name.
        seconds: How long, after about half of it to start and to compile.
    """
    with using(executor, MAX_PROGRAMS) as chosen:
        judge = Judge(find_subject(SUBJECT), chosen)
        _fuzzed(judge, WARM_SHARE * seconds)
        fuzzer = _fuzzed(judge, seconds)
    spent, cases, pace = fuzzer.budget.elapsed(), fuzzer.tally.cases, fuzzer.pace
    records = pace.launches > 0
    return Speed(
        executor,
        cases,
        round(spent, 3),
        pace.launches if records else None,
        pace.to_the_byte if records else None,
        round(cases / spent, 1),
        round(pace.per_second, 1) if records else None,
        round(pace.per_second_of_checking, 1) if records else None,
    )


def _fuzzed(judge: Judge, seconds: float) -> Fuzzer:
    """Return a run of fuzzing that is over."""
    budget = Budget(seconds=seconds)
    fuzzer = Fuzzer(judge, cases_for(judge), SEED, budget, _say_nothing)
    fuzzer.run()
    return fuzzer


def _say_nothing(_tally: Tally) -> None:
    """Take the progress of a run of seconds."""


def preset_time(name: str) -> PresetTime:
    """Return how long it takes to verify a preset, as `kvzero verify` does."""
    case = preset_case(load_preset(name))
    with using(None) as default, using("footprint") as footprint:
        chosen = default if default.fits(case) else footprint
        begun = monotonic()
        judged = Judge(find_subject(SUBJECT), chosen)(case)
        seconds = monotonic() - begun
    programs = sum(call.programs for call in judged.observation.calls)
    return PresetTime(name, chosen.name, programs, round(seconds, 3))


def kill_times(fault: Fault) -> Iterator[KillTime]:
    """Yield how long a fault lived, if this machine can judge it."""
    matrix = kill_matrix(faults=[fault], max_examples=MAX_EXAMPLES)
    for row in matrix.rows:
        for kill in row.kills:
            seconds = round(kill.seconds, 3)
            name = row.fault.name
            yield KillTime(name, kill.executor, kill.killed, kill.cases, seconds)
