"""How ids reach a subject."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import ID_DTYPES, Arrival, Call, IdRun, id_runs
from kvzero.executors.arrival import block_ids_for, reuse_ids

ARRIVALS: tuple[Arrival, ...] = ("list", "array", "tensor", "pinned", "device")


def values(block_ids: Any) -> list[int]:
    return [int(i) for i in block_ids]


@given(
    ids=st.lists(st.integers(0, 127), max_size=9),
    arrival=st.sampled_from(ARRIVALS),
    dtype=st.sampled_from(ID_DTYPES),
    offset=st.integers(0, 5),
    step=st.integers(1, 4),
)
def test_ids_arrive_as_listed(
    ids: list[int], arrival: Arrival, dtype: str, offset: int, step: int
) -> None:
    call = Call(id_runs(ids), arrival, dtype, offset, step)
    assert values(block_ids_for(call, "cpu", num_blocks=128)) == ids


@pytest.mark.parametrize("arrival", ["array", "tensor", "device"])
def test_ids_arrive_at_their_offset_and_step(arrival: Arrival) -> None:
    call = Call(id_runs([3, 1, 2]), arrival, "int32", offset_el=2, step_el=3)
    block_ids = block_ids_for(call, "cpu", num_blocks=8)
    if arrival == "array":
        assert block_ids.strides == (12,)
        block_ids = torch.from_numpy(block_ids)
    assert block_ids.stride() == (3,)
    assert block_ids.dtype == torch.int32
    around = torch.as_strided(block_ids, (12,), (1,), 0) if arrival != "array" else None
    if around is not None:
        assert around.tolist() == [0, 0, 3, 0, 0, 1, 0, 0, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "expected"), [("bool", [True, False]), ("float64", [2.0, 0.0])]
)
def test_a_list_of_a_refused_dtype_holds_its_python_type(
    dtype: str, expected: list[object]
) -> None:
    block_ids = block_ids_for(Call(id_runs([2, 0]), dtype=dtype), "cpu")
    assert block_ids == expected
    assert {type(i) for i in block_ids} == {type(expected[0])}


@pytest.mark.parametrize("arrival", ["array", "tensor"])
def test_float16_ids_beyond_its_range_become_infinity(arrival: Arrival) -> None:
    call = Call(id_runs([70_000]), arrival, "float16")
    assert float(block_ids_for(call, "cpu")[0]) == float("inf")


def test_a_list_holds_numbers_of_any_size() -> None:
    assert block_ids_for(Call((IdRun(2**70),)), "cpu") == [2**70]


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_reused_ids_hold_an_id_that_was_not_listed(arrival: Arrival) -> None:
    block_ids = block_ids_for(Call(id_runs([0, 1, 3]), arrival), "cpu", 4)
    reuse_ids(block_ids, 4)
    assert values(block_ids) == [2, 2, 2]


def test_reused_ids_of_an_empty_list_stay_empty() -> None:
    block_ids = np.zeros(0, np.int64)
    reuse_ids(block_ids, 4)
    assert not len(block_ids)


@pytest.mark.parametrize("arrival", ["list", "array", "tensor"])
@pytest.mark.parametrize(
    ("dtype", "first"), [("uint64", 2**63 + 5), ("float16", 70_000), ("bool", 1)]
)
def test_ids_of_any_value_can_be_reused(
    arrival: Arrival, dtype: str, first: int
) -> None:
    given = block_ids_for(Call((IdRun(first),), arrival, dtype), "cpu")
    reuse_ids(given, 4)
    assert [*map(int, given)] == [0]
