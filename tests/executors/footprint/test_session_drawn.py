"""Sessions of drawn steps against one dictionary of bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.case import Case, Placement
from kvzero.errors import InternalError
from kvzero.executors.footprint.session import FootprintSession
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import ALIGNMENT_BYTES, place
from kvzero.poison import poison_at
from kvzero.subjects.protocol import Contract, MadeSubject
from kvzero.subjects.registry import find_subject
from tests.executors.footprint import subjects

BLOCKS = 3
SIZES = (700, 33)
RUNS = (Run(8, 230, 1), Run(5, 11, 0, 1))
LAYOUT = Layout(BLOCKS, tuple(Allocation(size) for size in SIZES), RUNS)
AROUND = 24
"""Bytes of a guard that are looked at, too."""
SUBJECT = find_subject("torch-loop")


class Model:
    """What a session must hold: one byte an address.

    Attributes:
        built: Where the memory lay when the zeroer was built.
    """

    def __init__(self, case: Case) -> None:
        self.session = FootprintSession(SUBJECT, case)
        self.built: list[int] | None = None
        self.lay_out()

    def lay_out(self) -> None:
        self.bases = self.session.base_addresses.tolist()
        self.bytes: dict[int, int] = {}
        for index, (base, size) in enumerate(zip(self.bases, SIZES)):
            where = np.arange(-AROUND, size + AROUND)
            values = poison_at(self.session.case.seed, index, where).tolist()
            self.bytes |= dict(zip(range(base - AROUND, base + size + AROUND), values))

    def zero(self, blocks: list[int]) -> None:
        raised = self.session.zero(blocks)
        assert (raised is None) == (self.built is not None)
        for run in RUNS if self.built else ():
            for block in blocks:
                begin = self.built[run.allocation] if self.built else 0
                begin += run.offset_bytes + block * run.stride_bytes
                for at in range(begin, begin + run.page_bytes):
                    if at in self.bytes:
                        self.bytes[at] = 0

    def write(self, data: st.DataObject) -> None:
        spots = st.sampled_from(sorted(self.bytes))
        drawn = data.draw(
            st.dictionaries(spots, st.integers(0, 3), min_size=1, max_size=5)
        )
        order = data.draw(st.permutations(sorted(drawn)), "order")
        values = np.array([drawn[at] for at in order], np.uint8)
        self.session.write(np.array(order, np.int64), values)
        self.bytes |= drawn

    def move(self) -> None:
        before = {*self.bytes}
        self.session.move()
        self.lay_out()
        assert before.isdisjoint(self.bytes)

    def check(self) -> None:
        where = np.array(sorted(self.bytes), np.int64)
        seen = self.session.read(where).tolist()
        assert seen == [self.bytes[at] for at in where.tolist()]
        assert self.session.not_judged is None


@settings(max_examples=40)
@given(data=st.data())
def test_session_holds_what_its_steps_left(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from((0, 512, 2**20)), "base")
    placement = Placement(base, 0, (data.draw(st.integers(0, 7), "shift"),))
    model = Model(Case(LAYOUT, (), placement=placement, seed=5))
    steps = st.sampled_from(("zero", "write", "write", "move", "build"))
    for step in ["build", *data.draw(st.lists(steps, min_size=2, max_size=7), "steps")]:
        if step == "build":
            assert model.session.build() is None
            model.built = model.bases
        elif step == "zero":
            blocks = st.lists(st.integers(0, BLOCKS - 1), max_size=4)
            model.zero(data.draw(blocks, "blocks"))
        elif step == "write":
            model.write(data)
        else:
            model.move()
        model.check()


@settings(max_examples=10)
@given(moves=st.integers(0, 2), block=st.integers(0, BLOCKS - 1))
def test_session_that_lost_sight_of_bytes_says_so_until_its_end(
    moves: int, block: int
) -> None:
    subject = MadeSubject("test", Contract(), subjects.ScalingZeroer)
    session = FootprintSession(subject, Case(LAYOUT, ()))
    assert session.build() is None
    assert session.not_judged is None
    session.zero([block])
    for _ in range(moves):
        session.move()
    assert "aten::mul_" in (session.not_judged or "")
    assert not session.can_capture
    for graph in (session.capture, lambda: session.replay(block)):
        with pytest.raises(InternalError, match="no graphs"):
            graph()


@settings(max_examples=30)
@given(more=st.integers(-35, 35))
def test_memory_moves_before_where_it_lay_if_there_is_room_else_behind(
    more: int,
) -> None:
    # From no room at all, through just enough, to twice as much.
    length = place(Case(LAYOUT, ())).total_bytes
    base = max(length + more * ALIGNMENT_BYTES, 0)
    session = FootprintSession(SUBJECT, Case(LAYOUT, (), placement=Placement(base)))
    end = place(session.case).total_bytes
    session.move()
    moved = session.case.placement.base_bytes
    assert moved == (0 if end - base <= base else end)
