"""Facts of an observation against a dictionary of bytes, and launches that count."""

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.case import Call, Case, IdRun
from kvzero.executors.footprint import FootprintExecutor
from kvzero.executors.footprint.arena import arena
from kvzero.executors.footprint.facts import missed_bytes
from kvzero.executors.footprint.shadow import OtherBytes, Shadow
from kvzero.executors.footprint.stretches import stretches
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import Addresses
from kvzero.observation import MAX_SPANS, ByteSpan
from kvzero.oracle import Intervals
from kvzero.poison import poison_at
from kvzero.subjects.protocol import Contract, MadeSubject
from tests.executors.footprint import subjects

GUARD = 6
SEEN = 16


class Memory:
    """Allocations with guards of a few bytes, zeros and other bytes stored in them.

    Attributes:
        bases: Offset of each allocation from the arena.
        sizes: Of each.
        end: Offset behind all of them and a gap.
    """

    def __init__(self, data: st.DataObject) -> None:
        gaps = data.draw(
            st.lists(st.integers(2 * GUARD, 40), min_size=1, max_size=4), "gaps"
        )
        self.sizes = [data.draw(st.integers(1, 40), "size") for _ in gaps]
        self.bases = []
        self.end = 0
        for gap, size in zip(gaps, self.sizes):
            self.bases.append(self.end + gap)
            self.end += gap + size
        order = data.draw(st.permutations(range(len(gaps))), "order")
        self.bases, self.sizes = (
            [part[i] for i in order] for part in (self.bases, self.sizes)
        )
        self.end += 30
        addresses = Addresses(np.array(self.bases), GUARD, self.end)
        self.shadow = Shadow(7, addresses, np.array(self.sizes), arena().start)
        spots = st.integers(0, self.end - 1)
        self.zeros = data.draw(st.sets(spots, max_size=9), "zeros")
        drawn = data.draw(st.dictionaries(spots, st.integers(1, 255), max_size=5), "o")
        self.others = {at: v for at, v in drawn.items() if at not in self.zeros}
        zeros = np.array(sorted(self.zeros), np.int64) + arena().start
        at = np.array(sorted(self.others), np.int64)
        values = np.array([self.others[i] for i in at.tolist()], np.uint8)
        other = OtherBytes(at + arena().start, values)
        self.shadow.store(stretches(zeros, zeros + 1), other)

    def owner(self, at: int) -> int | None:
        """Return the allocation that a byte or its guard belongs to."""
        for index, (base, size) in enumerate(zip(self.bases, self.sizes)):
            if base - GUARD <= at < base + size + GUARD:
                return index
        return None

    def byte(self, at: int) -> int:
        """Return what a byte holds; below 0: nobody knows."""
        owner = self.owner(at)
        if at in self.zeros:
            return 0
        if owner is None:  # in no guard: whatever it holds
            return -1
        offset = np.array([at - self.bases[owner]])
        return self.others.get(at, int(poison_at(7, owner, offset)[0]))

    def assert_span(self, seen: ByteSpan, begin: int, end: int) -> None:
        owner = self.owner(begin)
        base = -arena().start if owner is None else self.bases[owner]
        assert (seen.allocation, seen.offset_bytes) == (owner, begin - base)
        assert (seen.length_bytes, seen.writer) == (end - begin, None)
        where = range(begin, min(end, begin + SEEN))
        expected = [] if owner is None else [*map(self.byte, where)]
        assert len(seen.seen) == len(expected)
        assert all(byte in (b, -1) for b, byte in zip(seen.seen, expected))


@settings(max_examples=40)
@given(data=st.data())
def test_missed_bytes_are_told_where_they_lie(data: st.DataObject) -> None:
    memory = Memory(data)
    edge = st.integers(0, memory.end)
    edges = sorted(data.draw(st.sets(edge, min_size=2, max_size=8), "bytes that must"))
    must = [*zip(edges[::2], edges[1::2])]
    begins, ends = (torch.tensor(part) + arena().start for part in zip(*must))
    found = missed_bytes(Intervals(begins, ends), memory.shadow)
    missed = [a for b, e in must for a in range(b, e) if a not in memory.zeros]
    borders = {edge for b, s in zip(memory.bases, memory.sizes) for edge in (b, b + s)}
    firsts = [a for a in missed if a - 1 not in missed or a in borders]
    spans = []
    for begin in firsts:
        end = begin + 1
        while end in missed and end not in borders:
            end += 1
        spans.append((begin, end))
    assert found.count == len(missed)
    assert len(found.spans) == min(len(spans), MAX_SPANS)
    for seen, (begin, end) in zip(found.spans, spans):
        memory.assert_span(seen, begin, end)


LAYOUT = Layout(4, (Allocation(256),), (Run(20, 64),))
CASE = Case(LAYOUT, (Call((IdRun(0, 4),)),))
sides = st.sampled_from((1, 2, 3, 256, 2**15, 2**16 - 1))


@given(x=sides, y=sides, z=sides)
@settings(max_examples=15)
@example(x=2**15, y=256, z=256)  # wraps to below 0
@example(x=2**15, y=2**15, z=4)  # wraps to 0
def test_launch_is_evaluated_only_where_the_platform_runs_it(
    x: int, y: int, z: int
) -> None:
    class Zeroer(subjects.PageZeroer):
        def zero(self, block_ids: object) -> None:
            ids = torch.as_tensor(block_ids)
            subjects.zero_page[x, y, z](self.base, ids, self.page, self.stride, 32)

    cap = 4
    executor = FootprintExecutor(max_programs=cap)
    seen = executor.run(MadeSubject("test", Contract(), Zeroer), CASE)
    (call,) = seen.calls
    programs = x * y * z
    runs = (programs + 2**31) % 2**32 - 2**31 > 0
    assert call.programs == programs * runs
    assert call.bytes_judged == (not runs or programs <= cap)
    if call.bytes_judged:
        assert call.missed.count == 20 * (4 - x * runs)
