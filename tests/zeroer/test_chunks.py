"""Chunks cover exactly the pages, whatever the sizes, addresses and overlaps."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvzero.errors import LayoutError
from kvzero.layout import Int64Array
from kvzero.zeroer import chunks
from kvzero.zeroer.chunks import (
    CHUNK_BYTES,
    VECTOR_BYTES,
    ChunkTable,
    Segments,
    checked_segments,
    chunk_table,
    merged,
)

BASE = 2**40 + 5

page_sizes = st.integers(1, 40) | st.sampled_from([*range(1, 10), 22, 90]).flatmap(
    lambda n: st.integers(n * CHUNK_BYTES - 33, n * CHUNK_BYTES + 33)
)


@st.composite
def segment_lists(draw: st.DrawFn) -> Segments:
    """Draw segments of a few strides, close to each other."""
    count = draw(st.integers(1, 5))
    pages = [draw(page_sizes) for _ in range(count)]
    offsets = [draw(st.integers(0, sum(pages))) for _ in range(count)]
    stride = sum(pages) + max(pages) + draw(st.integers(0, 40))
    strides = [stride + draw(st.sampled_from([0, 0, 0, 16])) for _ in range(count)]
    return checked_segments([BASE + o for o in offsets], strides, pages, 1)


def covered(begin: Int64Array, size: Int64Array) -> NDArray[np.int64]:
    """Return how often each byte from BASE on lies in an interval."""
    steps = np.zeros(int((begin + size).max()) - BASE + 1, np.int64)
    np.add.at(steps, begin - BASE, 1)
    np.add.at(steps, begin + size - BASE, -1)
    return np.cumsum(steps)[:-1]


def chunks_of(table: ChunkTable) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return address, block stride and size of every chunk, row by row."""
    found: list[Int64Array] = []
    for group in table.groups:
        rows = table.rows[group.first_row :][: group.chunks >> group.shift]
        found.extend(
            rows[:, :3] + np.array([index * CHUNK_BYTES, 0, 0])
            for index in range(2**group.shift)
        )
    address, stride, size = np.concatenate(found).T
    return address, stride, size


@given(segment_lists(), st.sampled_from([0, 7, 2**20]))
def test_chunks_cover_the_pages_and_nothing_else(
    segments: Segments, max_single: int
) -> None:
    with mock.patch.object(chunks, "MAX_SINGLE_CHUNKS", max_single):
        table = chunk_table(merged(segments))
    for stride in np.unique(segments.stride_bytes):
        alike = segments.take(np.flatnonzero(segments.stride_bytes == stride))
        address, strides, size = chunks_of(table)
        here = strides == stride
        expected = covered(alike.address, alike.page_bytes) > 0
        seen = covered(address[here], size[here])
        # Each byte once: pages of one stride are merged before they are cut.
        assert seen.tolist() == expected.tolist()


@given(segment_lists(), st.integers(0, 15), st.sampled_from([0, 2**20]))
def test_vector_stores_of_a_chunk_reach_its_whole_middle(
    segments: Segments, shift: int, max_single: int
) -> None:
    with mock.patch.object(chunks, "MAX_SINGLE_CHUNKS", max_single):
        address, stride, size = chunks_of(chunk_table(merged(segments)))
    # Blocks whose stride is no multiple of 16 begin at every remainder in turn.
    begin = address + np.where(stride % VECTOR_BYTES, shift, 0)
    middle = (begin + size) // VECTOR_BYTES - -(-begin // VECTOR_BYTES)
    assert (size > 0).all()
    assert (middle * VECTOR_BYTES <= CHUNK_BYTES).all()


@pytest.mark.parametrize("stride", [2**14, 2**14 + 1])
@pytest.mark.parametrize("around", [CHUNK_BYTES, 2 * CHUNK_BYTES])
def test_chunks_hold_at_most_their_vectors_at_every_boundary(
    stride: int, around: int
) -> None:
    for page in range(around - 20, around + 50):
        for shift in range(16):
            segments = checked_segments([BASE + shift], [stride], [page], 2)
            address, _, size = chunks_of(chunk_table(segments))
            begin = np.add.outer(np.arange(16 if stride % 16 else 1), address)
            middle = (begin + size) // VECTOR_BYTES - -(-begin // VECTOR_BYTES)
            assert (middle * VECTOR_BYTES).max() <= CHUNK_BYTES
            assert size.min() > 0


@given(segment_lists(), st.sampled_from([0, 2**20]))
def test_chunks_are_no_more_than_pages_need(
    segments: Segments, max_single: int
) -> None:
    with mock.patch.object(chunks, "MAX_SINGLE_CHUNKS", max_single):
        table = chunk_table(merged(segments))
    assert table.num_chunks <= int((-(-segments.page_bytes // CHUNK_BYTES)).sum())
    assert sum(g.chunks >> g.shift for g in table.groups) == len(table.rows)


@given(segment_lists())
@example(checked_segments([BASE, BASE + 4], [8, 8], [4, 4], 2))
def test_merged_segments_of_one_stride_do_not_touch(segments: Segments) -> None:
    address, stride, page = merged(segments)
    assert len(address) <= len(segments.address)
    for value in np.unique(stride):
        here = stride == value
        assert (np.diff(address[here]) > page[here][:-1]).all()


@given(st.integers(0, 15), page_sizes)
def test_aligned_stride_leaves_odd_bytes_at_the_ends_of_a_page_only(
    shift: int, page: int
) -> None:
    stride = 16 * 100_000
    rows = chunk_table(checked_segments([BASE + shift], [stride], [page], 3)).rows
    assert (rows[1:, 0] % VECTOR_BYTES == 0).all()
    assert ((rows[:-1, 0] + rows[:-1, 2]) % VECTOR_BYTES == 0).all()


def test_table_of_huge_pages_stays_small() -> None:
    table = chunk_table(checked_segments([0], [2**46], [2**46], 1))
    assert table.num_chunks == 2**34
    assert len(table.rows) < 2**17


def test_virtual_splitting_is_one_segment_again() -> None:
    pages = 17
    segments = checked_segments(
        [BASE + i * 4096 for i in range(pages)],
        [pages * 4096] * pages,
        [4096] * pages,
        9,
    )
    joined = merged(segments)
    assert [column.tolist() for column in joined] == [
        [BASE],
        [pages * 4096],
        [pages * 4096],
    ]


def test_no_segments_are_no_chunks() -> None:
    table = chunk_table(merged(checked_segments([], [], [], 4)))
    assert table.num_chunks == 0
    assert table.groups == ()


REFUSED = {
    "a float": (([0], [16], [4.0]), "pages_bytes of dtype float64"),
    "two dimensions": (
        ([[0]], [16], [4]),
        r"addresses of dtype int64 and shape \(1, 1\)",
    ),
    "an address beyond int64": (
        ([2**63], [16], [4]),
        r"addresses\[0\]=9223372036854775808",
    ),
    "no page": (([0, 0], [16, 16], [4, 0]), r"pages_bytes\[1\]=0, but must be from 1"),
    "no stride": (([0], [0], [4]), r"strides_bytes\[0\]=0, but must be from 1"),
    "lengths": (([0], [16, 16], [4]), r"=\[1, 2, 1\], but must be equal"),
    "page over stride": (
        ([0], [16], [17]),
        r"pages_bytes\[0\]=17, but must be at most strides_bytes\[0\]=16",
    ),
    "end of memory": (
        ([2**63 - 20], [16], [4]),
        r"addresses\[0\]=0x7f.*room for 3 blocks",
    ),
}


@pytest.mark.parametrize(("columns", "message"), REFUSED.values(), ids=REFUSED)
def test_segments_that_cannot_be_are_refused(
    columns: tuple[list[int], list[int], list[int]], message: str
) -> None:
    with pytest.raises(LayoutError, match=message):
        checked_segments(*columns, num_blocks=3)
