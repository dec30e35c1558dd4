import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.strategies import pages, strides
from kvzero.strategies.features import near_chunk_boundary, near_power
from kvzero.strategies.reaches import CHUNK_BYTES
from kvzero.strategies.sampling import drawn, minimal


@given(st.data(), st.sampled_from([1, 2, 4, 16, 512]), st.integers(512, 2**30))
def test_pages_are_aligned_and_within_their_bounds(
    data: st.DataObject, alignment: int, most: int
) -> None:
    page = data.draw(pages(min_bytes=100, max_bytes=most, alignment_bytes=alignment))
    assert 100 <= page <= most
    assert page % alignment == 0


@pytest.mark.parametrize("threshold", [1, 33, CHUNK_BYTES + 1, 1_000_003])
def test_pages_shrink_exactly_to_a_threshold(threshold: int) -> None:
    assert minimal(pages(), lambda page: page >= threshold) == threshold


@pytest.mark.slow
def test_pages_are_often_odd_or_around_a_power_of_two_or_a_chunk_boundary() -> None:
    found = drawn(pages(), 1000)
    for special in (lambda page: page % 2, near_power, near_chunk_boundary):
        assert sum(bool(special(page)) for page in found) > len(found) // 20


@given(st.data(), st.sampled_from([1, 4, 16]), st.integers(1, 2**20))
def test_strides_hold_their_page(
    data: st.DataObject, alignment: int, words: int
) -> None:
    page = words * alignment
    stride = data.draw(strides(page_bytes=page, alignment_bytes=alignment))
    assert stride >= page
    assert stride % alignment == 0


def test_strides_shrink_to_their_page_or_to_a_threshold() -> None:
    assert minimal(strides(page_bytes=24), lambda _: True) == 24
    assert minimal(strides(page_bytes=24), lambda stride: stride >= 2**31) == 2**31
