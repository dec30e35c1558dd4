"""A block pool's life: a stateful machine, with a model beside it.

Hypothesis draws a pool and then steps: allocate, write, extend, copy, load, fail to
load, free, dummy steps, capture, sleep and wake, re-allocate. A server decides what is
zeroed when, a subject zeroes, and after each step every byte is compared with the
model's books. A history that breaks a rule is shrunk to its fewest steps.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import Any, ClassVar

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.errors import Flaky
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kvzero.campaign.block_books import BlockBooks
from kvzero.campaign.tally import EXIT_FAULT, EXIT_NOTHING_JUDGED, EXIT_OK
from kvzero.errors import PropertyFailure
from kvzero.executors.sessions import Session, open_session
from kvzero.observation import Raised
from kvzero.properties.verdict import Violation
from kvzero.strategies.block_pools import block_pools
from kvzero.subjects.block_server import (
    ACCEPTED,
    NULL_BLOCK,
    OWNED_ONCE,
    BlockServer,
    Hands,
)
from kvzero.subjects.protocol import Subject

MAX_EXAMPLES = 100
MAX_STEPS = 25
SHRINK_SECONDS = 10.0
"""Time for shrinking; the shortest history until then is told."""
MAX_AT_ONCE = 3
"""Blocks of one step: pools are small."""

Server = Callable[[int, Hands], BlockServer]
picks = st.integers(0, 7)
counts = st.integers(1, MAX_AT_ONCE)
upheavals = st.sampled_from(("dummy step", "sleep and wake", "move"))
"""A batch whose tables are all 0; memory given away and taken back at its addresses;
memory allocated anew, elsewhere."""


@cache
def _failure_class(broken: str) -> type[PropertyFailure]:
    """Return the class of one rule's failures: Hypothesis tells faults apart by it."""
    return type("Failure", (PropertyFailure,), {"__doc__": broken})


class _TimeIsUpError(BaseException):
    """Leaves Hypothesis from inside a step."""


@dataclass
class Trial:
    """A server and a subject under test.

    Attributes:
        subject: What zeroes.
        executor: Name of the executor that carries the steps out.
        server: What decides which blocks are zeroed, and when.
        checks: How often the whole memory was compared, by the step before.
        not_judged: Steps after which it could not be, by the reason.
        shrink_seconds: Time for shrinking.
        shortest: The violation with the shortest history, and its steps.
    """

    subject: Subject
    executor: str
    server: Server = BlockServer
    checks: Counter[str] = field(default_factory=Counter)
    not_judged: Counter[str] = field(default_factory=Counter)
    shrink_seconds: float = SHRINK_SECONDS
    shortest: tuple[int, Violation] | None = None
    _until: float | None = None

    def note(self, violation: Violation, steps: int) -> None:
        """Keep a violation, if no shorter history has shown one."""
        if self._until is None:
            self._until = monotonic() + self.shrink_seconds
        if self.shortest is None or steps <= self.shortest[0]:
            self.shortest = steps, violation

    def check_time(self) -> None:
        """Leave Hypothesis if the time for shrinking is up.

        Raises:
            _TimeIsUpError: It is.
        """
        if self._until is not None and monotonic() >= self._until:
            raise _TimeIsUpError


class _Hands:
    """Carries out what the server asks for."""

    def __init__(self, machine: "BlockLife") -> None:
        self._machine = machine

    def zero(self, blocks: Sequence[int]) -> None:
        """Zero blocks."""
        self._accepted(f"zero({list(blocks)})", self._machine.session.zero(blocks))

    def copy(self, source: int, target: int) -> None:
        """Copy a block."""
        self._machine.books.copy(source, target)

    def build(self) -> None:
        """Build the zeroer."""
        self._accepted("build", self._machine.session.build())

    def capture(self) -> None:
        """Capture a graph, in a dummy step."""
        self._accepted("capture", self._machine.session.capture())
        self._machine.books.spoil_null_block()

    def replay(self, block: int) -> None:
        """Replay the graph."""
        self._machine.session.replay(block)

    def _accepted(self, what: str, raised: Raised | None) -> None:
        if raised is not None:
            claim = f"{what} raised {raised.type_name}: {raised.message}"
            self._machine.fail(ACCEPTED, f"{claim}, but must be accepted")


class BlockLife(RuleBasedStateMachine):
    """The machine; a subclass says what is on trial.

    Attributes:
        trial: What is on trial.
    """

    trial: ClassVar[Trial]
    session: Session
    books: BlockBooks
    server: BlockServer

    def __init__(self) -> None:
        """Begin before there is a pool."""
        super().__init__()
        self.steps: list[str] = []
        self.requests: list[list[int]] = []
        self.loads: list[tuple[list[int], int]] = []

    @initialize(data=st.data())
    def open_pool(self, data: st.DataObject) -> None:
        """Lay a pool out, and start the server on it."""
        self.trial.check_time()
        contract = self.trial.subject.contract
        case = data.draw(block_pools(contract=contract))
        self.session = open_session(self.trial.executor, self.trial.subject, case)
        self.books = BlockBooks(self.session)
        self._step("open")
        self.server = self.trial.server(self.books.num_blocks, _Hands(self))

    @precondition(lambda self: self.has_free)
    @rule(count=counts)
    def allocate(self, count: int) -> None:
        """Hand out blocks to a new request."""
        self._step(f"allocate({count})")
        self._add_request([], self.server.allocate(self._at_most(count)))

    @precondition(lambda self: self.requests and self.has_free)
    @rule(pick=picks, count=counts)
    def extend(self, pick: int, count: int) -> None:
        """Hand out more blocks to a request that has computed those it has."""
        blocks = self.requests.pop(pick % len(self.requests))
        self._step(f"extend({blocks}, {count})")
        for block in blocks:
            self.books.write(block)
        more = self.server.extended(list(blocks), self._at_most(count))
        if more[: len(blocks)] != blocks:
            self.fail(OWNED_ONCE, f"{blocks} became {more}, but must stay in front")
        self._add_request(blocks, more[len(blocks) :])

    @precondition(lambda self: self.requests)
    @rule(pick=picks, which=picks)
    def write(self, pick: int, which: int) -> None:
        """Let a request compute one of its blocks."""
        blocks = self.requests[pick % len(self.requests)]
        block = blocks[which % len(blocks)]
        self._step(f"write({block})")
        self.books.write(block)

    @precondition(lambda self: self.requests)
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        """Let a request end."""
        blocks = self.requests.pop(pick % len(self.requests))
        self._step(f"release({blocks})")
        self.books.take_back(blocks)
        self.server.release(blocks)

    @precondition(lambda self: self.requests and self.has_free)
    @rule(pick=picks, which=picks)
    def fork(self, pick: int, which: int) -> None:
        """Copy a block that is computed for a request of its own."""
        blocks = self.requests[pick % len(self.requests)]
        source = blocks[which % len(blocks)]
        self._step(f"fork({source})")
        self.books.write(source)
        target = self.server.fork(source)
        self._own([target], to_load=True)
        self.books.loading.discard(target)
        self.books.expect_copy(source, target)
        self.requests.append([target])

    @precondition(lambda self: self.has_free)
    @rule(count=counts, arrive=st.integers(0, MAX_AT_ONCE))
    def begin_load(self, count: int, arrive: int) -> None:
        """Begin to load blocks from elsewhere; some of them arrive."""
        self._step(f"begin_load({count}, {arrive} arrive)")
        blocks = self.server.begin_load(self._at_most(count))
        self._own(blocks, to_load=True)
        for block in blocks[:arrive]:
            self.books.write(block)
        self.loads.append((blocks, min(arrive, len(blocks))))

    @precondition(lambda self: self.loads)
    @rule(pick=picks)
    def end_load(self, pick: int) -> None:
        """Let a load end: what has not arrived is computed."""
        blocks, loaded = self.loads.pop(pick % len(self.loads))
        self._step(f"end_load({blocks}, {loaded})")
        self.books.expect_zero(blocks[loaded:])
        self.server.end_load(list(blocks), loaded)
        self.requests.append(blocks)

    @rule(kind=upheavals)
    def upheave(self, kind: str) -> None:
        """Do what no request asks for, one rule for all: most steps are requests'."""
        self._step(kind)
        if kind == "dummy step":
            self.books.spoil_null_block()
            self.server.dummy_step_is_over()
            return
        self._end_all()
        if kind == "move":
            self.session.move()
            self.books.open_new_memory()
            self.server.moved()
        else:
            self.books.spoil_all()
            self.server.woken()

    @precondition(lambda self: self.session.can_capture)
    @rule()
    def capture(self) -> None:
        """Capture a graph, in a dummy step."""
        self._step("capture")
        self.server.capture()

    @invariant()
    def memory_is_as_it_should_be(self) -> None:
        """Compare every byte with the books."""
        reason = self.session.not_judged
        if reason is not None:
            self.trial.not_judged[reason] += 1
            return
        found = self.books.wrong()
        if found is not None:
            self.fail(*found)
        self.trial.checks[self.steps[-1].partition("(")[0]] += 1
        self.books.handed_out.clear()

    @property
    def has_free(self) -> bool:
        """Return whether a block is left, by the books."""
        return len(self.books.owned) < self.books.num_blocks - 1

    def fail(self, broken: str, claim: str) -> None:
        """Raise for a rule that is broken.

        Raises:
            PropertyFailure: Always.
        """
        layout = self.session.case.layout
        details = (
            ("history", "; ".join(self.steps)),
            ("pool", f"{layout.num_blocks} blocks, {len(layout.table)} segments"),
            ("ran", f"subject {self.trial.subject.name} on {self.trial.executor}"),
        )
        told = f"{claim} [after {self.steps[-1]}, step {len(self.steps)}]"
        violation = Violation(broken, "fault", broken, told, details=details)
        self.trial.note(violation, len(self.steps))
        raise _failure_class(broken)("\n".join(violation.lines()))

    def _step(self, text: str) -> None:
        self.steps.append(text)

    def _at_most(self, count: int) -> int:
        return min(count, self.books.num_blocks - 1 - len(self.books.owned))

    def _add_request(self, blocks: list[int], new: list[int]) -> None:
        self._own(new)
        self.requests.append(blocks + new)

    def _own(self, blocks: list[int], *, to_load: bool = False) -> None:
        """Enter blocks that were handed out; each must be free until now."""
        legal = set(range(NULL_BLOCK + 1, self.books.num_blocks)) - self.books.owned
        if not blocks or len(set(blocks)) < len(blocks) or not legal.issuperset(blocks):
            claim = f"{blocks} handed out, but must be distinct ones of {sorted(legal)}"
            self.fail(OWNED_ONCE, claim)
        self.books.hand_out(blocks, to_load=to_load)

    def _end_all(self) -> None:
        """End all requests and loads: their memory goes."""
        for blocks in (*self.requests, *(blocks for blocks, _ in self.loads)):
            self.books.take_back(blocks)
            self.server.release(blocks)
        self.requests, self.loads = [], []


@dataclass(frozen=True)
class Life:
    """What became of a trial.

    Attributes:
        trial: What was on trial, with its counts.
        seed: The seed.
        violation: The rule that was broken, with its shortest history, if one was.
    """

    trial: Trial
    seed: int
    violation: Violation | None = None

    @property
    def exit_code(self) -> int:
        """Return 1 for a broken rule, 5 where no byte was compared, else 0."""
        if self.violation is not None:
            return EXIT_FAULT
        return EXIT_OK if self.trial.checks else EXIT_NOTHING_JUDGED

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return it as plain data."""
        found = self.violation
        return {
            "subject": self.trial.subject.name,
            "executor": self.trial.executor,
            "seed": self.seed,
            "exit_code": self.exit_code,
            "broken": found.property if found else None,
            "text": "\n".join(found.lines()) if found else None,
            "checks": dict(sorted(self.trial.checks.items())),
            "not_judged": dict(self.trial.not_judged),
        }


def live(
    trial: Trial,
    *,
    seed: int = 0,
    max_examples: int = MAX_EXAMPLES,
    max_steps: int = MAX_STEPS,
) -> Life:
    """Return what random histories show.

    Args:
        trial: What is on trial.
        seed: Every random choice follows from it.
        max_examples: Histories.
        max_steps: Steps of a history.
    """
    machine = hypothesis.seed(seed)(type("Life", (BlockLife,), {"trial": trial}))
    settings = hypothesis.settings(
        max_examples=max_examples,
        stateful_step_count=max_steps,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(machine, settings=settings)
    except (PropertyFailure, Flaky, _TimeIsUpError):
        # What did not repeat, or was cut short, was still seen once.
        if trial.shortest is None:
            raise
    return Life(trial, seed, trial.shortest[1] if trial.shortest else None)
