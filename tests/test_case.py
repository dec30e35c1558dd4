"""Cases: block lists as runs, what must be refused, what a case itself refuses."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.case import MAX_IDS, Call, Case, IdRun, Placement, id_runs
from kvzero.errors import CaseError
from kvzero.layout import Allocation, Layout, Run

LAYOUT = Layout(4, (Allocation(64),), (Run(8, 16),))

ids = st.one_of(st.integers(-3, 12), st.integers(-(2**70), 2**70))
stretches = st.lists(
    st.builds(
        lambda start, count, step: [start + i * step for i in range(count)],
        ids,
        st.integers(0, 6),
        st.integers(-3, 3),
    ),
    max_size=5,
).map(lambda parts: [i for part in parts for i in part])
id_run = st.builds(
    IdRun,
    st.one_of(st.integers(-20, 20), st.integers(-(2**70), 2**70)),
    st.integers(0, 12),
    st.one_of(st.integers(-5, 5), st.integers(-(2**70), 2**70)),
)


@given(stretches)
@example([3, 7, *range(100, 1124)])
@example([0, 1])
@example([5, 5, 5])
def test_a_block_list_survives_its_runs(block_list: list[int]) -> None:
    call = Call(id_runs(block_list))
    assert call.expand() == block_list
    assert call.num_ids == len(block_list)


def test_equal_steps_of_three_ids_are_one_run() -> None:
    assert id_runs([3, 7, *range(1024)])[-1] == IdRun(0, 1024)
    assert id_runs([9, 9, 9]) == (IdRun(9, 3, 0),)
    assert id_runs([4, 2]) == (IdRun(4), IdRun(2))
    assert id_runs([]) == ()


@given(st.lists(id_run, max_size=4), st.integers(0, 9))
@example([IdRun(0, 5, 2**62)], 9)  # wraps to 0 in int64
@example([IdRun(0, 4, 6148914691236517206)], 9)  # wraps to 2 in int64
@example([IdRun(3, 1, 2**70)], 9)
@example([IdRun(-(2**70), 2, 2**70)], 9)
def test_blocks_are_the_distinct_ids_in_the_cache(
    runs: list[IdRun], num_blocks: int
) -> None:
    call = Call(tuple(runs))
    expected = sorted({i for i in call.expand() if 0 <= i < num_blocks})
    found = call.blocks(num_blocks)
    assert found.dtype == np.int64
    assert found.tolist() == expected


@given(st.lists(id_run, max_size=4), st.integers(0, 9))
def test_the_first_bad_id_is_found_at_its_position(
    runs: list[IdRun], num_blocks: int
) -> None:
    call = Call(tuple(runs))
    bad = [(p, i) for p, i in enumerate(call.expand()) if not 0 <= i < num_blocks]
    assert call.first_bad_id(num_blocks) == (bad[0] if bad else None)
    assert call.must_be_refused(num_blocks) == bool(bad)


@pytest.mark.parametrize("dtype", ["bool", "float64"])
def test_bools_and_floats_must_be_refused_unless_there_are_none(dtype: str) -> None:
    assert Call((IdRun(1),), dtype=dtype).must_be_refused(4)
    assert not Call((), dtype=dtype).must_be_refused(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call((IdRun(0, MAX_IDS + 1, 0),)), r"calls\[0\].ids: 16777217 ids, but must"),
        (Call((IdRun(0, -1),)), r"calls\[0\].ids: -1 ids, but must be 0 to"),
        (Call((), dtype="int7"), r"calls\[0\].dtype='int7', but must be one of int8"),
        (Call((), offset_el=-1), "offset_el=-1, step_el=1, but must be at least"),
        (Call((), step_el=0), "offset_el=0, step_el=0, but must be at least"),
        (Call((IdRun(0, 9),), step_el=2**40), "a buffer of 9895604649984 elements"),
        (Call((IdRun(-1),), "array", "uint8"), "-1, but must fit its dtype uint8"),
        (Call((IdRun(0, 9, 32),), "tensor", "int8"), "256, but must fit its dtype"),
    ],
)
def test_a_call_that_no_engine_could_make_is_refused(call: Call, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        Case(LAYOUT, (call,))


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        (Placement(base_bytes=100), "base_bytes=100, gap_bytes=0, but must be a mul"),
        (Placement(base_bytes=-512), "base_bytes=-512"),
        (Placement(gap_bytes=-1), "gap_bytes=-1, but must"),
        (Placement(misalignments_bytes=()), "at least one number from 0 to 511"),
        (Placement(misalignments_bytes=(0, 512)), "from 0 to 511"),
    ],
)
def test_a_placement_that_memory_cannot_have_is_refused(
    placement: Placement, message: str
) -> None:
    with pytest.raises(CaseError, match=message):
        Case(LAYOUT, (), placement=placement)


@pytest.mark.parametrize("platform", ["", "cuda", "cuda:", "metal:1", ":90"])
def test_an_unknown_platform_is_refused(platform: str) -> None:
    with pytest.raises(CaseError, match="but must be cuda:CAPABILITY or hip:ARCH"):
        Case(LAYOUT, (), platform=platform)


def test_ids_beyond_int64_are_a_legal_list() -> None:
    case = Case(LAYOUT, (Call((IdRun(2**64),)),))
    assert case.calls[0].first_bad_id(4) == (0, 2**64)
