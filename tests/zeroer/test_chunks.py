"""Chunks cover exactly the pages, whatever the sizes, addresses and overlaps."""

from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvzero.errors import LayoutError
from kvzero.layout import MAX_BYTES, Int64Array
from kvzero.zeroer import chunks
from kvzero.zeroer.chunks import (
    CHUNK_BYTES,
    LINE_BYTES,
    MORE_BYTES,
    WIDEST_ROW,
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


class Chunks(NamedTuple):
    """What the programs of one block zero, and the block stride of each."""

    begin: Int64Array
    size: Int64Array
    stride: Int64Array
    window: Int64Array
    window_bytes: Int64Array


def chunks_of(table: ChunkTable, block: int = 0) -> Chunks:
    """Return the chunks of a block as the kernel finds them, row by row."""
    found: list[Int64Array] = []
    for group in table.groups:
        rows = table.rows[group.first_row :][: group.rows]
        step = rows[:, 3] % LINE_BYTES * LINE_BYTES
        for index in range(group.width):
            found.append(rows.copy())
            found[-1][:, 3] += index * step
    address, stride, size, windows = np.concatenate(found).T
    page = address + block * stride
    window = page // LINE_BYTES * LINE_BYTES + windows // LINE_BYTES * LINE_BYTES
    window_bytes = windows % LINE_BYTES * LINE_BYTES
    begin = np.maximum(page, window)
    end = np.maximum(np.minimum(page + size, window + window_bytes), begin)
    return Chunks(begin, end - begin, stride, window, window_bytes)


@given(segment_lists(), st.integers(0, 300), st.sampled_from([0, 7, 2**20]))
def test_chunks_cover_the_pages_and_nothing_else(
    segments: Segments, block: int, max_rows: int
) -> None:
    with mock.patch.object(chunks, "MAX_ROWS", max_rows):
        table = chunk_table(merged(segments))
    here = chunks_of(table, block)
    for stride in np.unique(segments.stride_bytes):
        alike = segments.take(np.flatnonzero(segments.stride_bytes == stride))
        shift = block * stride
        expected = covered(alike.address, alike.page_bytes) > 0
        mine = here.stride == stride
        seen = covered(here.begin[mine] - shift, here.size[mine])
        # Each byte once: pages of one stride are merged before they are cut.
        assert seen[: len(expected)].tolist() == expected.tolist()
        assert not seen[len(expected) :].any()


@pytest.mark.parametrize("stride", [2**14, 2**14 + 128, 2**14 + 16, 2**14 + 1])
@pytest.mark.parametrize("around", [CHUNK_BYTES + MORE_BYTES, 2 * CHUNK_BYTES])
def test_every_block_has_its_chunks_and_some_block_needs_them_all(
    stride: int, around: int
) -> None:
    blocks = np.arange(LINE_BYTES)
    for page in range(around - 270, around + 20, 9):
        for shift in range(0, LINE_BYTES, 11):
            segments = checked_segments([BASE + shift], [stride], [page], LINE_BYTES)
            table = chunk_table(segments)
            in_block = chunks_of(table)
            last = int((in_block.window - in_block.window[0]).max())
            in_line = (BASE + shift + blocks * stride) % LINE_BYTES
            assert (in_line + page <= last + in_block.window_bytes[0]).all()
            assert (in_line + page > last).any()


@given(segment_lists(), st.integers(0, 300))
def test_programs_of_a_page_share_no_line(segments: Segments, block: int) -> None:
    found = chunks_of(chunk_table(merged(segments)), block)
    assert (found.window % LINE_BYTES == 0).all()
    inside = found.begin != found.window
    # Only the first chunk of a page begins inside a line: where the page does.
    assert inside.sum() <= len(segments.address)


@given(segment_lists(), st.sampled_from([0, 2**20]))
def test_chunks_are_no_more_than_lines_need(segments: Segments, max_rows: int) -> None:
    with mock.patch.object(chunks, "MAX_ROWS", max_rows):
        table = chunk_table(merged(segments))
    lines = -(-(segments.page_bytes + LINE_BYTES - 1) // LINE_BYTES)
    most = -(-lines * LINE_BYTES // CHUNK_BYTES)
    assert table.num_chunks <= int(most.sum())
    assert sum(group.rows for group in table.groups) == len(table.rows)


@given(segment_lists(), st.sampled_from([0, 2**20]))
def test_windows_are_whole_lines_that_a_program_can_store(
    segments: Segments, max_rows: int
) -> None:
    with mock.patch.object(chunks, "MAX_ROWS", max_rows):
        found = chunks_of(chunk_table(merged(segments)))
    assert (found.begin - found.window < LINE_BYTES).all()
    assert (found.window_bytes >= LINE_BYTES).all()
    assert (found.window_bytes <= CHUNK_BYTES + MORE_BYTES).all()


def test_rows_are_pages_where_all_pages_are_alike() -> None:
    many = checked_segments([BASE, BASE + 2**30], [2**20] * 2, [2**20] * 2, 9)
    (group,) = chunk_table(many).groups
    assert (group.rows, group.width) == (2, 257), "one more: they begin inside a line"


def test_rows_are_what_divides_the_pages() -> None:
    many = checked_segments([0, 2**30], [2**14, 2**17], [2**14, 2**17], 9)
    (group,) = chunk_table(many).groups
    assert (group.rows, group.width) == (1 + 8, 4)


@pytest.mark.parametrize(
    ("page_bytes", "window_bytes"),
    [
        (132, [256]),
        (4096, [4096]),
        (4224, [4352]),
        (6144, [6144]),
        (6145, [3328] * 2),
        (8448, [2816] * 3),
        (37_376, [3840] * 10),
    ],
)
def test_pages_are_cut_into_equal_windows(
    page_bytes: int, window_bytes: list[int]
) -> None:
    table = chunk_table(checked_segments([0], [2**16], [page_bytes], 9))
    assert chunks_of(table).window_bytes.tolist() == window_bytes


@given(segment_lists())
@example(checked_segments([BASE, BASE + 4], [8, 8], [4, 4], 2))
def test_merged_segments_of_one_stride_do_not_touch(segments: Segments) -> None:
    address, stride, page = merged(segments)
    assert len(address) <= len(segments.address)
    for value in np.unique(stride):
        here = stride == value
        assert (np.diff(address[here]) > page[here][:-1]).all()


def test_table_of_huge_pages_stays_small() -> None:
    table = chunk_table(checked_segments([0], [2**46], [2**46], 1))
    assert table.num_chunks == 2**34
    assert len(table.rows) < 2**17
    assert max(group.width for group in table.groups) == WIDEST_ROW


def test_small_pages_among_huge_ones_do_not_make_the_table_long() -> None:
    sizes = [2**34, 4096]
    table = chunk_table(checked_segments([0, 2**40], sizes, sizes, 1))
    assert table.num_chunks == 2**22 + 1
    assert len(table.rows) < 2**10


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


NUMBERS = st.one_of(
    st.integers(1, 40), st.sampled_from([2**60, 2**61, MAX_BYTES, MAX_BYTES + 1])
)
FAR = st.one_of(
    st.integers(-1, 9), st.integers(2**63 - 99, 2**63 - 1), st.just(2**63 - 2**61)
)


def may_be(address: int, stride: int, page: int, num_blocks: int) -> bool:
    """Return whether a segment is possible, in plain integers."""
    fits = address >= 0 and max(stride, page) <= MAX_BYTES
    apart = page <= stride or num_blocks < 2
    return fits and apart and address + (num_blocks - 1) * stride + page < 2**63


@given(
    st.lists(st.tuples(FAR, NUMBERS, NUMBERS), min_size=1, max_size=2),
    st.integers(1, 6),
    st.sampled_from(["", "", "a page", "a stride", "an address"]),
)
@example([(-1, 8, 8)], 3, "")
@example([(0, 8, 8)], 3, "")
@example([(2**63 - 25, 8, 8)], 3, "")
@example([(2**63 - 24, 8, 8)], 3, "")
@example([(0, 8, 9)], 1, "")
@example([(0, 8, 9)], 2, "")
@example([(0, MAX_BYTES, MAX_BYTES)], 1, "")
def test_segments_are_taken_if_and_only_if_memory_can_hold_them(
    rows: list[tuple[int, int, int]], num_blocks: int, left_out: str
) -> None:
    columns = [list(column) for column in zip(*rows)]
    for column, name in zip(columns, ("an address", "a stride", "a page")):
        if name == left_out:
            column.pop()
    is_legal = not left_out and all(may_be(*row, num_blocks) for row in rows)
    try:
        taken = checked_segments(columns[0], columns[1], columns[2], num_blocks)
    except LayoutError:
        assert not is_legal
        return
    assert is_legal
    assert [column.tolist() for column in taken] == columns


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


def test_narrow_pages_stay_among_the_wide_ones() -> None:
    addresses, strides = [0, 10_000, 20_000, 30_000], [8192, 1024, 8192, 1024]
    joined = merged(checked_segments(addresses, strides, strides, 1))
    assert joined.address.tolist() == addresses
