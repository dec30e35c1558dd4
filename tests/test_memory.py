"""Memory: where allocations lie, guards around each, and how far they may spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Case, Placement
from kvzero.errors import CaseError
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import ALIGNMENT_BYTES, MIN_GUARD_BYTES, place

placements = st.builds(
    Placement,
    st.integers(0, 9).map(lambda n: n * 512),
    st.sampled_from([0, 1, 513, 2**40]),
    st.lists(st.integers(0, 511), min_size=1, max_size=3).map(tuple),
    st.booleans(),
)


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=5),
    st.integers(1, 9000),
    placements,
)
def test_allocations_lie_apart_with_a_guard_on_either_side(
    sizes: list[int], stride: int, placement: Placement
) -> None:
    layout = Layout(1, tuple(Allocation(n) for n in sizes), (Run(1, stride),))
    addresses = place(Case(layout, (), placement=placement))
    guard, bases = addresses.guard_bytes, addresses.base_bytes
    assert guard >= max(stride, MIN_GUARD_BYTES)
    shifts = np.resize(placement.misalignments_bytes, len(sizes))
    assert (bases % ALIGNMENT_BYTES == shifts).all()
    order = np.argsort(bases)
    assert (order[::-1] if placement.descending else order).tolist() == list(
        range(len(sizes))
    )
    begin, end = (bases - guard)[order], (bases + sizes + guard)[order]
    assert begin[0] >= placement.base_bytes
    assert (begin[1:] - end[:-1] >= placement.gap_bytes).all()
    assert end[-1] <= addresses.total_bytes


def test_a_real_arena_shortens_what_does_not_fit() -> None:
    layout = Layout(1, (Allocation(8), Allocation(8)), (Run(8, 8),))
    case = Case(layout, (), placement=Placement(2**40, 2**44))
    assert place(case).total_bytes > 2**44
    assert place(case, most_gap_bytes=4096).total_bytes < 2**16


def test_an_arena_beyond_all_addresses_is_refused() -> None:
    layout = Layout(1, (Allocation(1, 2**20),), (Run(1, 2**46),))
    with pytest.raises(
        CaseError, match="placement: 1048576 allocations with guards of"
    ):
        place(Case(layout, ()))
