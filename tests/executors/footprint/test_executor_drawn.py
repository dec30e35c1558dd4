"""Observations of zeroers that do a drawn script, against plain Python."""

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.case import Call, Case, IdRun, Placement
from kvzero.executors.footprint import FootprintExecutor
from kvzero.executors.footprint.executor import (
    BYTE_PROPERTIES,
    PROGRAM_PROPERTIES,
    addresses_in,
)
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import Pool, place
from kvzero.observation import WARMUP_CALL, CallObservation
from kvzero.subjects.protocol import Contract, MadeSubject
from tests.executors.footprint import subjects

BLOCKS, PAGE, STRIDE = 4, 20, 64
LAYOUT = Layout(BLOCKS, (Allocation(256),), (Run(PAGE, STRIDE),))
ACTIONS = ("launch", "launch", "torch", "beyond", "scale", "value", "exit")
EXECUTOR = FootprintExecutor()


class Scripted(subjects.PageZeroer):
    """Does what its script says, which every call goes on with."""

    script: tuple[tuple[str, ...], ...] = ()

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.done = 0
        self.act(self.script[0])

    def warmup(self) -> None:
        self.act(self.script[1])

    def zero(self, block_ids: object) -> None:  # noqa: ARG002 - the script tells what
        self.done += 1
        self.act(self.script[1 + self.done])

    def act(self, actions: tuple[str, ...]) -> None:
        for action in actions:
            if action == "launch":
                super().zero([1])
            elif action == "torch":
                self.base[: self.page] = 0
            elif action == "beyond":
                self.base[self.page : self.page + 3] = 1
            elif action == "scale":
                self.base[:8].mul_(2)
            elif action == "value":
                raise ValueError("value")
            elif action == "exit":
                raise SystemExit("exit")


@dataclass
class Expected:
    """What a script must be seen to do.

    Attributes:
        stored: Bytes that the call stored so far, and the value of each.
        zeroed: All bytes that hold zero.
        is_blind: Something was done that cannot be followed.
    """

    stored: dict[int, int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    programs: int = 0
    launches: int = 0
    again: int = 0
    is_blind: bool = False
    not_judged: set[str] = field(default_factory=set)

    def act(self, actions: tuple[str, ...]) -> str | None:
        """Do a part of the script; return what it raises."""
        for action in actions:
            if action in ("value", "exit"):
                return {"value": "ValueError", "exit": "SystemExit"}[action]
            if action == "scale":
                self.is_blind = True
                self.not_judged |= {*BYTE_PROPERTIES}
                continue
            if action == "launch":
                self.programs += 1
                self.launches += 1
            self.store(action)
        return None

    def store(self, action: str) -> None:
        begin = {"launch": STRIDE, "beyond": PAGE}.get(action, 0)
        size = 3 if action == "beyond" else PAGE
        wrote = dict.fromkeys(range(begin, begin + size), int(action == "beyond"))
        self.again += len(wrote.keys() & self.stored.keys())
        self.stored |= wrote
        self.held |= wrote


calls = st.lists(st.sampled_from(ACTIONS), max_size=3).map(tuple)


@settings(max_examples=40)
@given(script=st.lists(calls, min_size=2, max_size=5), blocks=st.integers(1, BLOCKS))
@example(script=[(), ("torch",), ("launch",), ("exit",)], blocks=2)
@example(script=[("value",), ()], blocks=1)
def test_script_of_a_zeroer_is_what_is_observed(
    script: list[tuple[str, ...]], blocks: int
) -> None:
    count = len(script) - 2
    case = Case(LAYOUT, (Call((IdRun(0, blocks),)),) * count)
    zeroer = type("Zeroer", (Scripted,), {"script": tuple(script)})
    seen = EXECUTOR.run(MadeSubject("test", Contract(), zeroer), case)
    expected = Expected()
    raised = expected.act(script[0])
    assert seen.has_warmup == (raised is None)
    raised = raised or expected.act(script[1])
    launched = [WARMUP_CALL] * expected.launches
    assert (seen.built and seen.built.type_name) == raised
    if raised:
        assert seen.calls == ()
        assert [launch.call for launch in seen.launches] == launched
        return
    foreign = len(expected.stored)
    for index, call in enumerate(seen.calls):
        expected.stored, expected.programs, expected.again = {}, 0, 0
        expected.launches = 0
        raised = expected.act(script[index + 2])
        launched += [index] * expected.launches
        assert (call.raised and call.raised.type_name) == raised
        assert call.raised is None or call.raised.is_value_error == (
            raised == "ValueError"
        )
        check_call(call, expected, blocks, foreign)
        foreign = 0
    assert len(seen.calls) == count
    assert {name for name, _ in seen.not_judged} == expected.not_judged
    assert [launch.call for launch in seen.launches] == launched


def check_call(
    call: CallObservation, expected: Expected, blocks: int, foreign: int
) -> None:
    must = {b * STRIDE + i for b in range(blocks) for i in range(PAGE)}
    assert call.bytes_judged == (not expected.is_blind)
    assert call.programs == expected.programs
    assert call.stored_bytes == len(expected.stored)
    assert call.touched.count == foreign + len(expected.stored.keys() - must)
    if expected.is_blind:
        assert (call.missed.count, call.again_bytes, call.again_by) == (0, None, None)
        return
    zeros = {at for at, value in expected.held.items() if not value}
    assert call.missed.count == len(must - zeros)
    assert call.again_bytes == expected.again
    assert (call.again_by is not None) == (expected.again > 0)
    assert call.narrowest_store_bytes == int(expected.launches > 0)


@settings(max_examples=30)
@given(
    gap=st.sampled_from((0, 512, 2**20, 2**22, 2**30)),
    allocations=st.integers(1, 3),
    spared=st.integers(-1, 1),
    is_short=st.booleans(),
)
def test_memory_lies_with_short_gaps_where_it_would_not_fit(
    gap: int, allocations: int, spared: int, is_short: bool
) -> None:
    layout = Layout(1, (Allocation(64),) * allocations, (Run(8, 8),))
    case = Case(layout, (), placement=Placement(0, gap))
    wide, short = place(case), place(case, most_gap_bytes=2**20)
    room = (short if is_short else wide).total_bytes + spared
    found = addresses_in(case, room)
    fitting = [each for each in (wide, short) if each.total_bytes <= room]
    assert (found is None) == (not fitting)
    if found is not None:
        assert found.base_bytes.tolist() == fitting[0].base_bytes.tolist()


@settings(max_examples=10)
@given(bits=st.sampled_from((20, 46)), spared=st.integers(0, 1))
def test_case_beyond_the_arena_is_not_judged(bits: int, spared: int) -> None:
    layout = Layout(1, (Allocation(2**bits - spared),), (Run(8, 8),))
    case = Case(layout, (Call((IdRun(0, 1),)),))
    fits = bits == 20
    assert EXECUTOR.fits(case) == fits
    subject = MadeSubject("test", Contract(), subjects.TorchZeroer)
    seen = EXECUTOR.run(subject, case)
    names = [] if fits else [*PROGRAM_PROPERTIES]
    assert [name for name, _ in seen.not_judged] == names
    assert [call.bytes_judged for call in seen.calls] == [True] * fits
