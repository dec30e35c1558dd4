"""Arena, poison and comparison on CPU memory: the code that the device runs too."""

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvzero.case import Call, Case, IdRun, Placement, id_runs
from kvzero.executors.arena import Arena
from kvzero.executors.comparing import KEPT_PIECES, Comparison
from kvzero.executors.real_memory import Bench, run_on_memory
from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.memory import Pool
from kvzero.observation import EVERY_PROPERTY, MAX_SPANS, Observation
from kvzero.oracle import may_be_zero, must_be_zero
from kvzero.poison import poison_at
from kvzero.subjects.protocol import Contract, MadeSubject, Subject, Zeroer

CPU = torch.device("cpu")
SUBJECTS = ("PLAIN", "LONG_PAGES", "SHORT_PAGES", "REFUSES_ALL")
ANY_FIXTURE = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def arena(piece_bytes: int = 2**20) -> Arena:
    return Arena(CPU, most_gap_bytes=2**16, piece_bytes=piece_bytes)


def bench(piece_bytes: int = 2**20) -> Bench:
    return Bench("host", "interpreter", "cpu", arena(piece_bytes), lambda: None)


def observe(subject: Subject, case: Case, piece_bytes: int = 2**20) -> Observation:
    return run_on_memory(bench(piece_bytes), subject, case)


@st.composite
def small_cases(draw: st.DrawFn) -> Case:
    """Draw packed or separate layouts, block lists and placements."""
    num_blocks = draw(st.integers(1, 6), label="num_blocks")
    pages = draw(st.lists(st.integers(1, 40), min_size=1, max_size=7), label="pages")
    separate = draw(st.booleans(), label="separate")
    stride = (max(pages) if separate else sum(pages)) + draw(st.integers(0, 9))
    offsets = [0] * len(pages) if separate else np.cumsum([0, *pages])[:-1].tolist()
    runs = tuple(
        Run(page, stride, offset, i if separate else 0)
        for i, (page, offset) in enumerate(zip(pages, offsets))
    )
    count = len(pages) if separate else 1
    layout = Layout(
        num_blocks,
        (Allocation(stride * num_blocks, count),),
        runs,
        (Tile(stride, num_blocks, axes=(Axis(count, 0, 1),)),),
    )
    ids = st.lists(st.integers(-1, num_blocks), max_size=5)
    calls = tuple(
        Call(id_runs(each)) for each in draw(st.lists(ids, min_size=1, max_size=3))
    )
    placement = Placement(
        gap_bytes=draw(st.sampled_from([0, 5000])),
        misalignments_bytes=tuple(draw(st.lists(st.integers(0, 511), min_size=1))),
        descending=draw(st.booleans()),
    )
    return Case(
        layout,
        calls,
        placement=placement,
        seed=draw(st.integers(0, 9)),
        padding_may_be_touched=draw(st.booleans()),
    )


@ANY_FIXTURE
@given(small_cases(), st.sampled_from([997, 4096, 2**20]))
def test_memory_holds_the_poison_of_its_allocations(case: Case, piece: int) -> None:
    memory = arena(piece).lay_out(case)
    guard = memory.addresses.guard_bytes
    for allocation, base in enumerate(memory.addresses.base_bytes.tolist()):
        size = int(case.layout.allocation_sizes[allocation])
        around = memory.content[base - guard : base + size + guard].numpy()
        offsets = np.arange(-guard, size + guard)
        assert (around == poison_at(case.seed, allocation, offsets)).all()
        assert memory.owner(base - 1) == (allocation, -1)
        assert memory.owner(base + size) == (allocation, size)
        assert memory.pool().base_addresses[allocation] % 512 == base % 512


@ANY_FIXTURE
@given(case=small_cases())
def test_a_correct_subject_leaves_no_wrong_byte(
    cpu_subjects: ModuleType, case: Case
) -> None:
    seen = observe(cpu_subjects.PLAIN, case)
    for index, call in enumerate(seen.calls):
        refused = case.calls[index].must_be_refused(case.layout.num_blocks)
        assert (call.raised is not None) == refused
        assert call.missed.count == call.touched.count == 0
        assert call.bytes_judged


@ANY_FIXTURE
@given(case=small_cases(), name=st.sampled_from(SUBJECTS), piece=st.integers(700, 9000))
def test_pieces_of_any_size_see_the_same(
    cpu_subjects: ModuleType, case: Case, name: str, piece: int
) -> None:
    subject = getattr(cpu_subjects, name)
    whole = observe(subject, case)
    pieces = observe(subject, case, piece)
    lost = False
    for one, other in zip(whole.calls, pieces.calls):
        lost |= not other.bytes_judged
        if not lost and not case.padding_may_be_touched:
            assert one == other


@ANY_FIXTURE
@given(case=small_cases())
def test_short_pages_miss_their_last_byte(cpu_subjects: ModuleType, case: Case) -> None:
    seen = observe(cpu_subjects.SHORT_PAGES, case)
    first, table = case.calls[0], case.layout.table
    if not first.must_be_refused(case.layout.num_blocks):
        blocks = first.blocks(case.layout.num_blocks)
        expected = len(blocks) * len(table)
        zeros = sum(
            int(poison_at(case.seed, s.allocation, np.array([last]))[0] == 0)
            for s in map(table.segment, range(len(table)))
            for last in [
                s.offset_bytes + int(b) * s.stride_bytes + s.page_bytes - 1
                for b in blocks
            ]
        )
        assert seen.calls[0].missed.count == expected - zeros
        assert len(seen.calls[0].missed.spans) <= MAX_SPANS


def packed_case(*ids: list[int], padding: bool = False, seed: int = 0) -> Case:
    layout = Layout(
        4, (Allocation(2048),), (Run(272, 512), Run(128, 512, 272)), (Tile(512, 4),)
    )
    calls = tuple(Call(id_runs(each)) for each in ids)
    return Case(layout, calls, seed=seed, padding_may_be_touched=padding)


def test_a_byte_beyond_the_last_page_is_located(cpu_subjects: ModuleType) -> None:
    seen = observe(cpu_subjects.LONG_PAGES, packed_case([1]))
    (span,) = seen.calls[0].touched.spans
    assert (span.allocation, span.offset_bytes, span.length_bytes) == (0, 912, 1)
    assert span.seen == b"\0"


def test_a_byte_in_the_guard_is_located(cpu_subjects: ModuleType) -> None:
    layout = Layout(2, (Allocation(64),), (Run(32, 32),))
    case = Case(layout, (Call(id_runs([1])),), placement=Placement(0, 0, (3,)))
    seen = observe(cpu_subjects.LONG_PAGES, case)
    (span,) = seen.calls[0].touched.spans
    assert (span.allocation, span.offset_bytes) == (0, 64)


def test_padding_may_be_zeroed_where_the_case_says_so(
    cpu_subjects: ModuleType,
) -> None:
    touched = observe(cpu_subjects.LONG_PAGES, packed_case([1], padding=True))
    assert touched.calls[0].touched.count == 0


def test_padding_that_may_be_zeroed_may_hold_nothing_else() -> None:
    case = packed_case([1], padding=True)
    memory = arena().lay_out(case)
    comparison = Comparison(memory)
    base = int(memory.addresses.base_bytes[0])
    memory.content[base + 512 : base + 912] = 0
    memory.content[base + 912] = 0x55
    bases = memory.addresses.base_bytes
    seen = comparison.after_call(
        must_be_zero(case, 0, bases), may_be_zero(case, 0, bases)
    )
    assert seen.touched.count == 1


def test_state_carries_over_the_calls(cpu_subjects: ModuleType) -> None:
    seen = observe(cpu_subjects.LONG_PAGES, packed_case([1], [1], [2]))
    assert [call.touched.count for call in seen.calls] == [1, 0, 1]
    assert [call.stored_bytes > 0 for call in seen.calls] == [True, False, True]


@pytest.mark.parametrize("piece", [600, 2**20])
def test_padding_that_was_zeroed_stays_known_to_later_calls(
    cpu_subjects: ModuleType, piece: int
) -> None:
    case = packed_case([1], [], [2], padding=True)
    seen = observe(cpu_subjects.LONG_PAGES, case, piece)
    assert [call.touched.count for call in seen.calls] == [0, 0, 0]
    assert [call.stored_bytes > 0 for call in seen.calls] == [True, False, True]


@pytest.mark.parametrize("piece", [600, 2**20])
def test_a_zeroer_by_multiplication_fails(cpu_subjects: ModuleType, piece: int) -> None:
    seen = observe(cpu_subjects.MULTIPLIES, packed_case([0, 1, 2, 3]), piece)
    assert seen.calls[0].missed.count > 100


def test_a_large_case_with_wrong_bytes_everywhere_is_judged_once() -> None:
    case = packed_case([1], [2])
    memory = arena(256).lay_out(case)
    comparison = Comparison(memory)
    memory.content.fill_(0xFF)
    bases = memory.addresses.base_bytes
    nothing = may_be_zero(case, 0, bases)
    seen = comparison.after_call(must_be_zero(case, 0, bases), nothing)
    assert seen.missed.count == 400
    assert seen.touched.spans[0].offset_bytes == -4096
    assert len(seen.touched.spans) <= MAX_SPANS
    assert len(memory.pieces) > KEPT_PIECES
    assert comparison.lost


def test_a_subject_that_cannot_be_built_is_observed(cpu_subjects: ModuleType) -> None:
    seen = observe(cpu_subjects.REFUSES_TO_BUILD, packed_case([1]))
    assert seen.built is not None
    assert seen.built.message == "odd layout"
    assert not seen.calls


def test_many_small_allocations_are_poisoned_as_each_alone() -> None:
    layout = Layout(1, (Allocation(8, 40),), (Run(8, 8, axes=(Axis(40, 0, 1),)),))
    case = Case(layout, (Call((IdRun(0),)),), placement=Placement(0, 0, (1, 0, 7)))
    memory = arena().lay_out(case)
    for allocation in (0, 17, 39):
        tensor = memory.pool().tensors[allocation]
        expected = poison_at(0, allocation, np.arange(8))
        assert tensor.tolist() == expected.tolist()


@pytest.mark.parametrize("is_short", [False, True])
def test_memory_that_others_hold_is_not_held_against_a_subject(
    *, is_short: bool
) -> None:
    def run_out(_pool: Pool) -> Zeroer:
        raise torch.OutOfMemoryError("out of it")

    layout = Layout(1, (Allocation(8),), (Run(8, 8),))
    case = Case(layout, (Call(id_runs([0])),))
    where = replace(bench(), is_short=lambda: is_short)
    seen = run_on_memory(where, MadeSubject("hungry", Contract(), run_out), case)
    assert (seen.built is None) is is_short
    told = ((EVERY_PROPERTY, "out of memory: out of it"),) if is_short else ()
    assert seen.not_judged == told
