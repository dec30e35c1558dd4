"""Overlaps: against brute force over bytes, and fast on tables of real size."""

from collections.abc import Sequence
from time import perf_counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero import overlaps
from kvzero.errors import LayoutError
from kvzero.overlaps import BlockOverlap, block_overlap

Row = tuple[int, int, int, int]
"""Allocation, offset, stride, page."""


def find(rows: Sequence[Row], num_blocks: int) -> BlockOverlap | None:
    where, offset, stride, page = np.array(rows, np.int64).reshape(-1, 4).T
    return block_overlap(where, offset, stride, page, num_blocks)


def shares_a_byte(rows: Sequence[Row], num_blocks: int) -> bool:
    owner: dict[tuple[int, int], int] = {}
    for where, offset, stride, page in rows:
        for block in range(num_blocks):
            begin = offset + block * stride
            for byte in range(begin, begin + page):
                if owner.setdefault((where, byte), block) != block:
                    return True
    return False


def assert_true_finding(rows: Sequence[Row], num_blocks: int, f: BlockOverlap) -> None:
    assert f.block != f.other_block
    for segment, block in ((f.segment, f.block), (f.other_segment, f.other_block)):
        where, offset, stride, page = rows[segment]
        assert 0 <= block < num_blocks
        assert where == f.allocation
        assert 0 <= f.byte - offset - block * stride < page


def assert_agrees(rows: Sequence[Row], num_blocks: int) -> None:
    found = find(rows, num_blocks)
    assert (found is not None) == shares_a_byte(rows, num_blocks)
    if found is not None:
        assert_true_finding(rows, num_blocks, found)


def rows(strides: st.SearchStrategy[int]) -> st.SearchStrategy[list[Row]]:
    row = st.tuples(st.integers(0, 1), st.integers(0, 80), strides, st.integers(1, 8))
    return st.lists(row, min_size=1, max_size=6)


one_stride = st.integers(1, 24).flatmap(lambda stride: rows(st.just(stride)))


@given(one_stride, st.integers(0, 6))
@example([(0, 0, 16, 8), (0, 8, 16, 8)], 2)  # packed: neighbours touch
@example([(0, 0, 16, 9), (0, 8, 16, 8)], 2)  # one byte too many inside a block
@example([(0, 0, 16, 17)], 2)  # page longer than its stride
@example([(0, 0, 8, 8), (0, 12, 8, 4)], 2)  # the other's block 0 in block 1
def test_one_stride_agrees_with_brute_force(table: list[Row], num_blocks: int) -> None:
    assert_agrees(table, num_blocks)


@given(rows(st.integers(1, 24)), st.integers(0, 6))
@example([(0, 0, 8, 4), (0, 4, 24, 4)], 4)
def test_many_strides_agree_with_brute_force(table: list[Row], num_blocks: int) -> None:
    assert_agrees(table, num_blocks)


@given(rows(st.integers(1, 24)), st.integers(2, 6))
def test_windows_hide_nothing(table: list[Row], num_blocks: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlaps, "WINDOW_PAGES", 3)
        assert_agrees(table, num_blocks)


@pytest.mark.parametrize("num_blocks", [0, 1])
def test_one_block_overlaps_with_no_other(num_blocks: int) -> None:
    assert find([(0, 0, 1, 8), (0, 4, 2, 8)], num_blocks) is None


def test_a_finding_names_both_pages_and_the_byte() -> None:
    found = find([(0, 0, 64, 16), (0, 100, 64, 40)], 4)
    assert found == BlockOverlap(0, 128, 1, 0, 0, 2)


def test_segments_of_two_allocations_never_meet() -> None:
    assert find([(0, 0, 16, 16), (1, 8, 16, 16)], 9) is None


@pytest.mark.parametrize("step", [16, 4096 * 2**20, 4096 * 2**20 + 16])
def test_many_segments_are_sorted_not_paired(step: int) -> None:
    index = np.arange(65_536, dtype=np.int64)
    stride, page = np.full_like(index, 2**20), np.full_like(index, 16)
    seconds = []
    for _ in range(2):
        start = perf_counter()
        assert block_overlap(index * 0, index * step, stride, page, 4096) is None
        seconds.append(perf_counter() - start)
    assert min(seconds) < 1


def test_pages_beyond_counting_are_refused() -> None:
    with pytest.raises(LayoutError, match="8589934592 pages, but must have at most"):
        find([(0, 0, 8, 1), (0, 49, 16, 1)], 2**32)
