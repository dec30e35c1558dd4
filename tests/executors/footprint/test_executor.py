"""The footprint executor: from a subject and a case to an observation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Call, Case, IdRun, Placement, id_runs
from kvzero.errors import InternalError
from kvzero.executors.footprint import FootprintExecutor
from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.observation import WARMUP_CALL, Observation
from kvzero.subjects.protocol import Contract, MadeSubject
from kvzero.subjects.registry import find_subject
from tests.executors.footprint import subjects

LAYOUT = Layout(8, (Allocation(4096),), (Run(100, 512),))
CASE = Case(LAYOUT, (Call(id_runs([3, 5])), Call(id_runs([7, 0]))))
EXECUTOR = FootprintExecutor()


def run(zeroer: type, case: Case = CASE) -> Observation:
    return EXECUTOR.run(MadeSubject("test", Contract(), zeroer), case)


def test_correct_zeroer_leaves_nothing_to_report() -> None:
    seen = run(subjects.PageZeroer)
    assert seen.not_judged == ()
    assert seen.semantics == "TTIR"
    assert seen.environment.startswith("cuda:90, triton ")
    assert not seen.has_warmup
    for call in seen.calls:
        assert (call.missed.count, call.touched.count) == (0, 0)
        assert (call.stored_bytes, call.programs) == (200, 2)
        assert call.bytes_judged
    assert [launch.call for launch in seen.launches] == [0, 1]


@pytest.mark.parametrize(
    "subject",
    ["kvzero", "masked-3d", "flat-1d", "narrow-z", "torch-loop", "index-fill"],
)
def test_built_in_subject_is_exact_on_a_mixed_layout(subject: str) -> None:
    layout = Layout(
        6,
        (Allocation(40_000), Allocation(20_000)),
        (
            Run(300, 1000, 16, 0, (Axis(3, 304),)),
            Run(4, 8, 0, 1),
            Run(2000, 2000, 64, 1),
        ),
    )
    case = Case(layout, (Call(id_runs([5, 1, 1])),), placement=Placement(0, 2**34))
    seen = EXECUTOR.run(find_subject(subject), case)
    assert seen.not_judged == ()
    call = seen.calls[0]
    assert (call.missed.count, call.touched.count, call.missteps) == (0, 0, ())
    assert call.stored_bytes == 2 * (3 * 300 + 4 + 2000)


def test_missed_bytes_are_found_where_they_lie() -> None:
    wrong = replace(CASE, layout=Layout(8, (Allocation(4096),), (Run(130, 512),)))

    class Short(subjects.PageZeroer):
        def __init__(self, pool: object) -> None:
            super().__init__(pool)
            self.page = 100

    call = run(Short, wrong).calls[0]
    assert call.missed.count == 60
    assert [(s.offset_bytes, s.length_bytes) for s in call.missed.spans] == [
        (3 * 512 + 100, 30),
        (5 * 512 + 100, 30),
    ]
    assert len(call.missed.spans[0].seen) == 16


def test_touched_bytes_name_the_program_and_the_line() -> None:
    class Long(subjects.PageZeroer):
        def __init__(self, pool: object) -> None:
            super().__init__(pool)
            self.page = 600

    first, second = run(Long).calls
    assert first.touched.count == 2 * 500
    span = first.touched.spans[1]
    assert (span.allocation, span.offset_bytes) == (0, 5 * 512 + 100)
    assert span.writer is not None
    assert span.writer.program == (1, 0, 0)
    assert span.writer.place.startswith("subjects.py:")
    # The page of the last block runs into the guard, told apart from the allocation.
    ends = {(s.offset_bytes, s.length_bytes) for s in second.touched.spans}
    assert (7 * 512 + 100, 412) in ends
    assert (4096, 88) in ends


@pytest.mark.parametrize("touchable", [False, True])
def test_value_other_than_zero_is_foreign_even_in_padding(touchable: bool) -> None:
    layout = replace(LAYOUT, tiles=(Tile(512, 8),))
    case = replace(CASE, layout=layout, padding_may_be_touched=touchable)
    call = run(subjects.MarkingZeroer, case).calls[0]
    assert (call.missed.count, call.touched.count) == (0, 2)
    span = call.touched.spans[0]
    assert (span.offset_bytes, span.length_bytes) == (3 * 512 + 102, 1)
    assert span.seen == b"\x01"


def test_bytes_stored_before_the_first_call_are_foreign() -> None:
    seen = run(subjects.EagerZeroer)
    assert seen.has_warmup
    assert seen.launches[0].call == WARMUP_CALL
    assert seen.calls[0].touched.count == 100
    assert seen.calls[1].touched.count == 0
    listed = run(subjects.EagerZeroer, replace(CASE, calls=(Call(id_runs([1])),)))
    assert listed.calls[0].touched.count == 100


def test_exception_of_a_call_is_kept() -> None:
    raised = run(subjects.ShyZeroer).calls[0].raised
    assert raised is not None
    assert (raised.type_name, raised.is_value_error) == ("ValueError", True)
    assert raised.message == "no 2 blocks today"


def test_a_bug_of_the_evaluator_is_an_error_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    executor = FootprintExecutor()
    monkeypatch.setattr(executor._evaluator, "evaluate", broken)
    with pytest.raises(InternalError, match="failed with ZeroDivisionError: of ours"):
        executor.run(find_subject("kvzero"), CASE)


def test_exception_of_the_constructor_is_kept() -> None:
    seen = run(subjects.UnbuildableZeroer)
    assert seen.built is not None
    assert seen.built.message == "8 blocks are too many"
    assert seen.calls == ()


def test_torch_that_fills_the_memory_is_judged() -> None:
    seen = run(subjects.TorchZeroer)
    assert seen.not_judged == ()
    for call in seen.calls:
        assert (call.missed.count, call.touched.count) == (0, 0)
        assert (call.stored_bytes, call.again_bytes, call.programs) == (200, 0, 0)


def test_torch_that_reads_the_memory_is_not_judged_by_name() -> None:
    seen = run(subjects.ScalingZeroer)
    assert not seen.calls[0].bytes_judged
    reasons = dict(seen.not_judged)
    assert "aten::mul_.Tensor" in reasons["listed_pages_are_zero"]
    assert "promises_hold" not in reasons


def test_torch_and_kernels_act_in_the_order_of_their_calls() -> None:
    seen = run(subjects.MixedZeroer)
    assert seen.not_judged == ()
    for call, first in zip(seen.calls, (3, 7)):
        assert (call.missed.count, call.touched.count) == (0, 1)
        span = call.touched.spans[0]
        assert (span.offset_bytes, span.seen) == (first * 512 + 102, b"\x01")
        assert span.writer is not None
        assert span.writer.place.startswith("subjects.py:")


def test_table_that_nothing_names_is_not_judged() -> None:
    seen = run(subjects.HiddenTableZeroer)
    assert "load from unregistered memory at subjects.py:" in seen.not_judged[0][1]
    assert seen.calls[0].missed.count == 0


def test_table_that_the_protocol_names_is_read() -> None:
    seen = run(subjects.NamedTableZeroer)
    assert seen.not_judged == ()
    assert [call.missed.count for call in seen.calls] == [0, 0]


def test_programs_beyond_the_cap_are_counted_and_not_judged() -> None:
    subject = MadeSubject("test", Contract(), subjects.PageZeroer)
    seen = FootprintExecutor(max_programs=3).run(subject, CASE)
    assert [call.bytes_judged for call in seen.calls] == [True, False]
    assert [call.programs for call in seen.calls] == [2, 2]
    assert seen.not_judged[0][1] == "a call's programs exceed the cap of 3 a case"


@pytest.mark.parametrize(("cap", "is_judged"), [(402, True), (401, False)])
def test_turns_of_a_loop_count_against_the_cap(cap: int, is_judged: bool) -> None:
    case = replace(CASE, calls=(Call(id_runs([3, 5, 1, 6, 0, 7, 2, 4])),))
    subject = MadeSubject("test", Contract(), subjects.LoopingZeroer)
    seen = FootprintExecutor(max_programs=cap).run(subject, case)
    assert seen.calls[0].bytes_judged is is_judged
    assert seen.calls[0].programs == 2
    if is_judged:
        assert (seen.calls[0].missed.count, seen.calls[0].touched.count) == (0, 0)
        assert seen.not_judged == ()


def test_a_loop_without_end_is_not_judged_by_reason() -> None:
    subject = MadeSubject("test", Contract(), subjects.EndlessZeroer)
    seen = FootprintExecutor(max_programs=5_000).run(subject, CASE)
    reasons = {reason for _, reason in seen.not_judged}
    assert any(
        reason.startswith("a loop at subjects.py:")
        and reason.endswith("more turns than the cap of 5,000 programs a case allows")
        for reason in reasons
    )
    assert [call.bytes_judged for call in seen.calls] == [False, False]


def test_launch_that_is_skipped_stores_nothing() -> None:
    layout = Layout(1, (Allocation(2**22 + 8),), (Run(2**22, 2**22), Run(4, 4, 2**22)))
    case = Case(layout, (Call((IdRun(0, 1024, 0),)),))
    seen = EXECUTOR.run(find_subject("narrow-z"), case)
    assert [launch.fate for launch in seen.launches] == ["skipped"]
    assert seen.calls[0].missed.count == 2**22 + 4
    assert seen.calls[0].programs == 0


@pytest.mark.parametrize("arrival", ["list", "array", "tensor", "pinned", "device"])
def test_ids_reach_the_subject_however_they_arrive(arrival: str) -> None:
    call = Call(id_runs([2, 6]), arrival, "int32", 3, 2)  # type: ignore[arg-type]  # parametrised
    seen = EXECUTOR.run(find_subject("kvzero"), Case(LAYOUT, (call,)))
    assert seen.not_judged == ()
    assert (seen.calls[0].missed.count, seen.calls[0].touched.count) == (0, 0)


@given(
    st.sampled_from((0, 1, 7, 16, 511)),
    st.sampled_from((0, 2**31, 2**40)),
    st.booleans(),
)
def test_placement_changes_addresses_and_nothing_else(
    shift: int, gap: int, descending: bool
) -> None:
    layout = Layout(4, (Allocation(999, 3),), (Run(77, 200, 5, 0, (Axis(3, 0, 1),)),))
    placement = Placement(0, gap, (shift, 0), descending)
    case = Case(layout, (Call(id_runs([3, 0])),), placement=placement)
    seen = EXECUTOR.run(find_subject("kvzero"), case)
    assert seen.not_judged == ()
    assert (seen.calls[0].missed.count, seen.calls[0].touched.count) == (0, 0)
    assert seen.calls[0].stored_bytes == 2 * 3 * 77


@pytest.mark.slow
def test_launch_of_twelve_million_programs_is_judged_exactly() -> None:
    blocks = 6870
    big, small = 9344 * 4, 292 * 4
    layout = Layout(
        blocks,
        (Allocation(big * blocks, 121), Allocation(small * blocks, 60)),
        (
            Run(big, big, 0, 0, (Axis(121, 0, 1),)),
            Run(small, small, 0, 121, (Axis(60, 0, 1),)),
        ),
    )
    case = Case(layout, (Call((IdRun(0, blocks),), "tensor"),))
    seen = EXECUTOR.run(find_subject("masked-3d"), case)
    call = seen.calls[0]
    assert seen.launches[-1].shape.grid == (6870, 181, 10)
    assert (call.programs, call.stored_bytes) == (12_434_700, 31_550_997_120)
    assert (call.missed.count, call.touched.count, seen.not_judged) == (0, 0, ())
