"""The footprint executor: what a subject stores, with no GPU.

The subject runs unmodified on addresses without memory behind them. Each kernel that it
launches is compiled for the case's platform and, instead of being launched, evaluated
over its whole grid; what it stores is compared with the oracle after each call.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from kvzero import oracle
from kvzero.case import ID_DTYPES, Case
from kvzero.errors import EnvironmentMissingError, InternalError
from kvzero.executors.arrival import block_ids_for, reuse_ids
from kvzero.executors.footprint.arena import arena, arena_tensors
from kvzero.executors.footprint.evaluate import Evaluator, LaunchResult
from kvzero.executors.footprint.facts import (
    again_bytes,
    again_writer,
    joined,
    missed_bytes,
    stored_bytes,
    touched_bytes,
)
from kvzero.executors.footprint.frame import Allowance, NotJudgedError
from kvzero.executors.footprint.launch_memory import CaseMemory
from kvzero.executors.footprint.real_memory import RealMemory, reachable_tensors
from kvzero.executors.footprint.shadow import Shadow
from kvzero.executors.footprint.stretches import Stretches
from kvzero.executors.footprint.torch_stores import TorchStores
from kvzero.executors.footprint.watch import ArenaWatch
from kvzero.memory import Addresses, Pool, place
from kvzero.observation import (
    WARMUP_CALL,
    CallObservation,
    Launch,
    Misstep,
    Observation,
    Raised,
    WrongBytes,
)
from kvzero.subjects.protocol import HoldsMemory, Subject, WarmsUp
from kvzero.triton_internals import TRITON_VERSION, LaunchEvent, dry_driver

BYTE_PROPERTIES = ("listed_pages_are_zero", "unlisted_bytes_are_untouched")
PROGRAM_PROPERTIES = (*BYTE_PROPERTIES, "promises_hold", "results_are_defined")
_SHORT_GAP_BYTES = 2**20


class FootprintExecutor:
    """Runs subjects without a GPU and judges what they store, byte for byte.

    Attributes:
        name: ``"footprint"``.
        max_programs: Programs evaluated for one case, turns of their loops included;
            of launches beyond it only the legality is judged. None: no limit.
    """

    name = "footprint"

    def __init__(self, *, max_programs: int | None = None) -> None:
        """Keep the limit, and everything that is compiled, for all cases."""
        self.max_programs = max_programs
        self._evaluator = Evaluator()

    def fits(self, case: Case) -> bool:
        """Return whether the case's memory fits the arena of this machine."""
        return addresses_in(case, len(arena())) is not None

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case."""
        addresses = addresses_in(case, len(arena()))
        if addresses is None:
            reason = f"the case's memory exceeds {len(arena())} B of address space"
            return _observed(
                subject, case, not_judged=tuple((p, reason) for p in PROGRAM_PROPERTIES)
            )
        run = CaseRun(subject, case, addresses, self._evaluator, self.max_programs)
        with _one_thread() if self.max_programs else nullcontext():
            return run()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch work alone: at a capped case's sizes, threads cost more than they do.

    They wait by turning idly, so that beside other processes they cost even more.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def addresses_in(case: Case, available_bytes: int) -> Addresses | None:
    """Return where allocations lie, with shorter gaps where they would not fit."""
    for most_gap in (None, _SHORT_GAP_BYTES):
        addresses = place(case, most_gap_bytes=most_gap)
        if addresses.total_bytes <= available_bytes:
            return addresses
    return None


def _observed(subject: Subject, case: Case, **facts: Any) -> Observation:
    """Return an observation; `facts` are its other fields."""
    environment = f"{case.platform}, triton {TRITON_VERSION}, torch {torch.__version__}"
    return Observation(subject.name, "footprint", "TTIR", environment, **facts)


class CaseRun:
    """One case from build to last call."""

    def __init__(
        self,
        subject: Subject,
        case: Case,
        addresses: Addresses,
        evaluator: Evaluator,
        max_programs: int | None,
    ) -> None:
        """Lay the memory out, and have nothing built.

        Args:
            subject: The implementation under test.
            case: The case.
            addresses: Where its allocations lie in the arena.
            evaluator: Keeps what it has built from kernels.
            max_programs: Programs evaluated at most; None: no limit.
        """
        self._subject = subject
        self._case = case
        self._evaluator = evaluator
        self._allowance = Allowance(max_programs)
        sizes = case.layout.allocation_sizes
        self._shadow = Shadow(case.seed, addresses, sizes, arena().start)
        bases = self._shadow.base_addresses
        tensors = arena_tensors(bases, sizes)
        self._pool = Pool(case.layout, tensors, torch.device("cpu"))
        self._real = RealMemory(arena())
        self._oracle = oracle.Oracle(case, bases)
        self._memory = CaseMemory(self._shadow, arena(), self._real, self._register)
        self._torch = TorchStores(self._shadow, self._allowance)
        self._zeroer: Any = None  # Any: a Zeroer, with or without its extras
        self._has_warmup = False
        self._ids: Any = None  # Any: whatever the call's ids are
        self._call = WARMUP_CALL
        self._launches: list[Launch] = []
        self._results: list[LaunchResult] = []
        self._programs = 0
        self._not_judged: dict[tuple[str, str], None] = {}
        self._blind = False
        self._bug: Exception | None = None

    def __call__(self) -> Observation:
        """Run everything and return what was seen."""
        calls: list[CallObservation] = []
        with dry_driver(self._case.platform, self._on_launch):
            built = self._set_up()
            self._refuse_bug()
            if built is None:
                setup = self._setup_facts()
                for index in range(len(self._case.calls)):
                    calls.append(self._observe_call(index, setup))
                    setup = _NOTHING
        return _observed(
            self._subject,
            self._case,
            calls=tuple(calls),
            launches=tuple(self._launches),
            has_warmup=self._has_warmup,
            built=built,
            not_judged=tuple(self._not_judged),
        )

    def _set_up(self) -> Raised | None:
        """Build the subject and warm it up; return what went wrong."""
        try:
            with ArenaWatch(arena(), self._torch.note) as watch:
                self._zeroer = self._subject.build(self._pool)
                self._has_warmup = isinstance(self._zeroer, WarmsUp)
                if self._has_warmup:
                    self._zeroer.warmup()
        except (InternalError, EnvironmentMissingError):
            raise
        except (Exception, SystemExit) as error:  # what a subject raises is observed
            return _raised(error)
        self._note_torch_work(watch)
        return None

    def _observe_call(self, index: int, setup: "_SetupFacts") -> CallObservation:
        self._call, self._results, self._programs = index, [], 0
        call = self._case.calls[index]
        num_blocks = self._case.layout.num_blocks
        self._ids = block_ids_for(call, self._pool.device, num_blocks)
        raised = self._zero()
        self._refuse_bug()
        if call.arrival != "device" and call.dtype in ID_DTYPES:
            reuse_ids(self._ids, num_blocks)
        return self._facts(index, raised, setup)

    def _zero(self) -> Raised | None:
        try:
            with ArenaWatch(arena(), self._torch.note) as watch:
                self._zeroer.zero(self._ids)
        except (InternalError, EnvironmentMissingError):
            raise
        except (Exception, SystemExit) as error:  # what a subject raises is observed
            self._note_torch_work(watch)
            return _raised(error)
        self._note_torch_work(watch)
        return None

    def _refuse_bug(self) -> None:
        if self._bug is not None:
            name = type(self._bug).__name__
            raise InternalError(
                f"the evaluation of a launch failed with {name}: {self._bug}; please "
                f"report it with the case"
            ) from self._bug

    def _settle_torch_work(self) -> None:
        """Add what torch wrote so far to what the call stored."""
        try:
            self._results += self._torch.settle()
        except NotJudgedError as error:
            self._give_up(str(error), BYTE_PROPERTIES)

    def _note_torch_work(self, watch: ArenaWatch) -> None:
        self._settle_torch_work()
        if watch.touched:
            names = ", ".join(sorted(set(watch.touched)))
            self._give_up(
                f"torch operations on the case's memory: {names}", BYTE_PROPERTIES
            )

    def _give_up(
        self, reason: str, properties: tuple[str, ...] = PROGRAM_PROPERTIES
    ) -> None:
        """Judge no bytes of this call and of those after it."""
        self._blind = True
        for name in properties:
            self._not_judged[name, reason] = None

    def _setup_facts(self) -> "_SetupFacts":
        may = self._oracle.reserved_pages(self._subject.contract.reserved_block)
        touched = touched_bytes(self._results, oracle.no_bytes(), may, self._shadow)
        missteps = tuple(m for result in self._results for m in result.missteps)
        return _SetupFacts(touched, missteps)

    def _facts(
        self, index: int, raised: Raised | None, setup: "_SetupFacts"
    ) -> CallObservation:
        missed, touched = self._wrong_bytes(index)
        stored, _ = stored_bytes(self._results)
        return CallObservation(
            raised=raised,
            bytes_judged=not self._blind,
            missed=missed,
            touched=joined(setup.touched, touched),
            stored_bytes=stored.total_bytes,
            missteps=(
                *setup.missteps,
                *(m for result in self._results for m in result.missteps),
            ),
            programs=self._programs,
            **self._work(stored),
        )

    def _work(self, stored: Stretches) -> dict[str, Any]:  # Any: a call's fields
        """Return what the stores of a call cost, if all of its launches were judged."""
        if self._blind:
            return {}
        tallies = [result.tally for result in self._results]
        widths = [t.narrowest_bytes for t in tallies if t.narrowest_bytes]
        idle = (t.first_idle for t in tallies if t.first_idle is not None)
        again = again_bytes(self._results, stored)
        return {
            "again_bytes": again,
            "again_by": again_writer(self._results) if again else None,
            "idle_programs": sum(tally.idle_programs for tally in tallies),
            "idle_program": next(idle, None),
            "narrowest_store_bytes": min(widths, default=0),
        }

    def _wrong_bytes(self, index: int) -> tuple[WrongBytes, WrongBytes]:
        """Return the bytes that a call missed, and those that it must not touch."""
        if self._blind and not self._results:
            return WrongBytes(), WrongBytes()
        must, may = self._oracle.must_be_zero(index), self._oracle.may_be_zero(index)
        missed = WrongBytes() if self._blind else missed_bytes(must, self._shadow)
        return missed, touched_bytes(self._results, must, may, self._shadow)

    def _register(self) -> None:
        """Register all memory that the subject holds by now."""
        for holder in (self._zeroer, self._ids):
            for tensor in reachable_tensors(holder):
                self._real.add(tensor)
        if isinstance(self._zeroer, HoldsMemory):
            for tensor in self._zeroer.extra_memory:
                self._real.add(tensor)

    def _on_launch(self, event: LaunchEvent) -> None:
        """Record a launch and evaluate it, if the platform runs it."""
        self._settle_torch_work()
        self._launches.append(event.launch(self._call))
        programs = event.shape.programs
        if event.fate != "runs" or not programs:
            return
        self._programs += programs
        try:
            self._results.append(
                self._evaluator.evaluate(event, self._memory, self._allowance)
            )
        except NotJudgedError as error:
            self._give_up(str(error))
        except Exception as error:  # a bug of ours: the subject must not catch it
            self._bug = error
            self._give_up(f"{event.kernel.name} at {event.kernel.place}")


class _SetupFacts:
    """What the constructor and the warm-up did that they must not do."""

    def __init__(self, touched: WrongBytes, missteps: tuple[Misstep, ...]) -> None:
        self.touched = touched
        self.missteps = missteps


_NOTHING = _SetupFacts(WrongBytes(), ())


def _raised(error: BaseException) -> Raised:
    return Raised(type(error).__name__, str(error), isinstance(error, ValueError))
