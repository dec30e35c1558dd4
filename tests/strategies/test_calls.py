import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Call, IdRun, Placement
from kvzero.strategies import block_lists, calls, placements
from kvzero.strategies.sampling import drawn, minimal
from kvzero.subjects.protocol import Contract

TRUSTS = Contract(checks_ids=False, arrivals=("array",), id_dtypes=("int8", "uint32"))


@given(st.data(), st.integers(0, 2**40), st.integers(1, 50))
def test_block_lists_hold_ids_of_the_cache(
    data: st.DataObject, num_blocks: int, most: int
) -> None:
    call = Call(data.draw(block_lists(num_blocks=num_blocks, max_ids=most)))
    assert call.first_bad_id(num_blocks) is None
    assert call.num_ids == 0 or num_blocks


@given(st.data(), st.integers(1, 40))
def test_block_lists_are_as_long_as_asked(data: st.DataObject, length: int) -> None:
    lists = block_lists(num_blocks=7, min_ids=length, max_ids=length)
    assert sum(run.count for run in data.draw(lists)) == length


def test_block_lists_shrink_to_id_0() -> None:
    lists = block_lists(num_blocks=1000)
    assert minimal(lists, bool) == (IdRun(0),)
    assert minimal(lists, lambda ids: bool(ids) and ids[0].start > 4) == (IdRun(999),)


@given(st.data(), st.integers(0, 2**35))
def test_calls_keep_to_the_contract(data: st.DataObject, num_blocks: int) -> None:
    call = data.draw(calls(num_blocks=num_blocks, contract=TRUSTS))
    assert call.arrival == "array"
    assert call.dtype in TRUSTS.id_dtypes
    assert not call.must_be_refused(num_blocks)


def test_calls_of_a_contract_without_lists_hold_ids_that_fit_their_dtype() -> None:
    contract = Contract(arrivals=("device",), id_dtypes=("int8",))
    for call in drawn(calls(num_blocks=300, contract=contract), 500):
        assert call.dtype == "int8" or call.must_be_refused(300)
        if call.dtype == "int8":
            assert all(-128 <= i <= 127 for i in call.expand())


@pytest.mark.slow
@pytest.mark.parametrize("num_blocks", [0, 1, 2**33])
def test_calls_reach_every_kind_of_bad_id(num_blocks: int) -> None:
    bad = [
        call.first_bad_id(num_blocks)
        for call in drawn(calls(num_blocks=num_blocks), 2000)
    ]
    found = {where[1] for where in bad if where is not None}
    assert -1 in found
    assert num_blocks in found
    assert any(i >= 2**32 and i % 2**32 < 4 for i in found)
    assert any(i > 2**63 for i in found)
    assert any(i < -(2**63) for i in found)


@pytest.mark.slow
def test_ids_of_refused_dtypes_lie_in_the_cache_but_for_that() -> None:
    for call in drawn(calls(num_blocks=2), 2000):
        if call.dtype == "bool" or call.dtype.startswith("float"):
            assert set(np.array(call.expand()).tolist()) <= {0, 1}


def test_calls_shrink_to_a_list_with_id_0() -> None:
    assert minimal(calls(num_blocks=9), lambda call: call.num_ids > 0) == Call(
        (IdRun(0),)
    )


@given(st.data(), st.sampled_from([1, 16, 512]), st.integers(1, 100))
def test_placements_keep_to_the_alignment_and_the_address_space(
    data: st.DataObject, alignment: int, allocations: int
) -> None:
    drawn_one = placements(alignment_bytes=alignment, allocations=allocations)
    placement = data.draw(drawn_one)
    assert all(shift % alignment == 0 for shift in placement.misalignments_bytes)
    assert placement.base_bytes + allocations * placement.gap_bytes <= 2**43


def test_placements_shrink_to_the_plain_one() -> None:
    many = placements(allocations=3)
    assert minimal(many, lambda _: True) == Placement()
    odd = minimal(many, lambda placed: any(s % 2 for s in placed.misalignments_bytes))
    assert odd == Placement(misalignments_bytes=(1,))
