"""Pools for histories: small, with a few blocks, inside the contract."""

from hypothesis import given

from kvzero.case import Case
from kvzero.memory import place
from kvzero.strategies.block_pools import MAX_BLOCKS, MAX_BYTES, block_pools
from kvzero.strategies.sampling import drawn, minimal
from kvzero.subjects.protocol import Contract


@given(block_pools())
def test_block_pools_are_small_and_have_pages(case: Case) -> None:
    layout = case.layout
    assert 2 <= layout.num_blocks <= MAX_BLOCKS
    assert len(layout.table)
    assert case.calls == ()
    assert layout.allocation_sizes.sum() <= 16 * MAX_BYTES
    assert place(case).total_bytes <= 2**21


@given(block_pools(contract=Contract(alignment_bytes=16, one_page_size=True)))
def test_block_pools_stay_inside_a_contract(case: Case) -> None:
    table = case.layout.table
    for column in (table.offset_bytes, table.stride_bytes, table.page_bytes):
        assert not (column % 16).any()
    assert len(set(table.page_bytes.tolist())) == 1


def test_block_pools_shrink_to_the_fewest_blocks_of_one_byte() -> None:
    case = minimal(block_pools(min_blocks=3), lambda _case: True)
    assert case.layout.num_blocks == 3
    assert case.layout.table.page_bytes.tolist() == [1]


def test_block_pools_have_several_segments_and_allocations() -> None:
    layouts = [case.layout for case in drawn(block_pools(), 100)]
    assert any(len(layout.table) > 3 for layout in layouts)
    assert any(layout.num_allocations > 1 for layout in layouts)
    assert any(len(set(layout.table.page_bytes.tolist())) > 1 for layout in layouts)
