"""The table's documented numbers, at their edges, and what is told of bad segments.

The numbers are written out here: a table of equal rows takes 32 MiB at most, a row is
at most a page of 1 GiB, a window 4 KiB or, where it is the only one, 6 KiB.
"""

from collections.abc import Callable
from itertools import pairwise
from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.errors import LayoutError
from kvzero.layout import MAX_BYTES
from kvzero.zeroer import chunks
from kvzero.zeroer.chunks import ChunkGroup, checked_segments, chunk_table, merged
from kvzero.zeroer.plan import Launch, plan_launches

KIB = 1024
EDGES = [1, 256, 4 * KIB, 6 * KIB, 8 * KIB, 12 * KIB, 16 * KIB, 64 * KIB]


@given(
    st.sampled_from(EDGES).flatmap(lambda e: st.integers(max(1, e - 260), e + 260)),
    st.sampled_from([0, 0, 255, 256, 257, 1000]),
    st.sampled_from([2**20, 2**20 + 16, 2**20 + 1]),
)
@example(6 * KIB, 0, 2**20)
@example(6 * KIB + 1, 0, 2**20)
@example(8 * KIB, 0, 2**20)
@example(8 * KIB + 1, 0, 2**20)
def test_a_page_is_one_window_of_6_kib_or_several_of_4(
    page: int, address: int, stride: int
) -> None:
    table = chunk_table(checked_segments([address], [stride], [page], 9))
    (group,) = table.groups
    apart = {2**20: 256, 2**20 + 16: 16, 2**20 + 1: 1}[stride]
    # The most that any block needs: the latest begin in a line, and the page.
    reach = max(range(address % apart, 256, apart)) + page
    several = -(-reach // (4 * KIB))
    lines = -(-reach // (256 * (1 if reach <= 6 * KIB else several)))
    assert group == ChunkGroup(0, 0, 1, -(-reach // (256 * lines)))
    assert table.rows.tolist() == [[address, stride, page, lines]]


factors = st.sampled_from([1, 2, 3, 2**17, 2**18 - 1, 2**18, 2**18 + 1, 2**19])
rows_of_pages = st.lists(
    st.integers(1, 70)
    | st.sampled_from([2**20, 2**20 - 1, 2**20 + 1, 2**19, 2**19 + 1]),
    min_size=1,
    max_size=3,
)


@given(rows_of_pages, factors)
@example([2**20], 1)
@example([2**20 - 1, 1], 2)
@example([2**20 + 1], 2)
@example([2**20, 1], 3)
@example([1], 2**18)
@example([1], 2**18 + 1)
@example([5, 4**9], 4**9)
def test_rows_are_equally_wide_within_a_page_of_a_gib_and_a_table_of_32_mib(
    rows: list[int], factor: int
) -> None:
    counts = np.array([n * factor for n in rows], np.int64)
    found = [(w, here.tolist()) for w, here in chunks._rows_by_width(counts)]
    common = int(np.gcd.reduce(counts))
    each = [int(n) // common for n in counts]
    if common * 4 * KIB <= 2**30 and sum(each) * 32 <= 2**25:
        assert found == [(common, each)]
        return
    digits = [[int(n) // 4**d % 4 for n in counts] for d in range(9)]
    digits.append([int(n) // 4**9 for n in counts])
    assert found == [(4**d, digit) for d, digit in enumerate(digits)]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from([1, 4, 5, 21, 70])), max_size=4
    )
)
def test_groups_follow_each_other_and_each_row_is_told_where_it_begins(
    pages: list[tuple[int, int]],
) -> None:
    sizes = [4 * KIB * n for _, n in pages]
    addresses = [2**20 * (1 + i) + 256 * shift for i, (shift, _) in enumerate(pages)]
    segments = checked_segments(addresses, [2**20] * len(sizes), sizes, 3)
    for most in (0, 2**20):
        with mock.patch.object(chunks, "MAX_ROWS", most):
            table = chunk_table(segments)
        groups = table.groups
        assert all(group.rows for group in groups)
        for one, other in pairwise((ChunkGroup(0, 0, 0, 1), *groups)):
            assert other.first_row == one.first_row + one.rows
            assert other.first_chunk == one.first_chunk + one.chunks
        assert sum(group.rows for group in groups) == len(table.rows)
        assert table.num_chunks == sum(n for _, n in pages)
        seen = {
            (address, window // 256 * 256 + 4 * KIB * i)
            for group in groups
            for address, _, _, window in table.rows[group.first_row :][
                : group.rows
            ].tolist()
            for i in range(group.width)
        }
        assert seen == {
            (address, 4 * KIB * i)
            for address, (_, n) in zip(addresses, pages)
            for i in range(n)
        }
        assert len(seen) == table.num_chunks


def outcome(call: Callable[[], object]) -> object:
    """Return what a call returns, or how it is refused."""
    try:
        return call()
    except LayoutError as error:
        return str(error)


def objection(columns: list[list[int]], num_blocks: int) -> str | None:
    """Return how the first thing wrong with segments is told."""
    names = ("addresses", "strides_bytes", "pages_bytes")
    for name, column, (least, most) in zip(
        names, columns, ((0, 2**63 - 1), (1, MAX_BYTES), (1, MAX_BYTES))
    ):
        for index, number in enumerate(column):
            if not least <= number <= most:
                return f"{name}[{index}]={number}, but must be from {least} to {most}"
    if len({len(column) for column in columns}) > 1:
        return (
            f"lengths of addresses, strides_bytes, pages_bytes="
            f"{[len(column) for column in columns]}, but must be equal"
        )
    for index, (_, stride, page) in enumerate(zip(*columns)):
        if num_blocks > 1 and page > stride:
            return (
                f"pages_bytes[{index}]={page}, but must be at most "
                f"strides_bytes[{index}]={stride}: pages of"
            )
    for index, (address, stride, page) in enumerate(zip(*columns)):
        if address + (num_blocks - 1) * stride + page > 2**63 - 1:
            return (
                f"addresses[{index}]={address:#x}, but must leave room for "
                f"{num_blocks} blocks of {stride} B below 2**63"
            )
    return None


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9)
            | st.sampled_from([-1, 2**63 - 25, 2**63 - 24, 2**63 - 9]),
            st.sampled_from([8, 8, 8, 9, 0, 1, MAX_BYTES, MAX_BYTES + 1]),
            st.sampled_from([8, 8, 8, 9, 0, 1, MAX_BYTES, MAX_BYTES + 1]),
        ),
        max_size=3,
    ),
    st.integers(0, 4),
    st.sampled_from([None, None, None, 0, 1, 2]),
    st.booleans(),
)
@example([(0, 8, 8), (0, 8, 9), (0, 8, 9)], 2, None, False)
@example([(2**63 - 25, 8, 8), (2**63 - 24, 8, 8), (2**63 - 24, 8, 8)], 3, None, False)
@example([(0, 8, 0), (0, 8, 0)], 3, None, True)
@example([(0, 8, 9)], 0, None, False)
@example([(2**63 - 17, 8, 8)], 2, None, False)
@example([(2**63 - 16, 8, 8)], 2, None, False)
@example([(0, MAX_BYTES, 1)], 2**17, None, False)
@example([(0, MAX_BYTES, 1)], 2**17 + 1, None, False)
def test_the_first_number_that_is_wrong_is_told(
    rows: list[tuple[int, int, int]], num_blocks: int, short: int | None, arrays: bool
) -> None:
    columns = [list(column) for column in zip(*rows)] or [[], [], []]
    if short is not None and rows:
        columns[short].pop()
    told = objection(columns, num_blocks)
    given_ = [np.array(column, np.int64) for column in columns] if arrays else columns
    a, s, p = given_
    seen = outcome(lambda: checked_segments(a, s, p, num_blocks))
    if told is None:
        assert [column.tolist() for column in seen] == columns  # type: ignore[attr-defined]  # Segments
        assert {column.dtype for column in seen} == {np.dtype(np.int64)}  # type: ignore[attr-defined]  # Segments
    else:
        assert str(seen).startswith(told)


@given(
    st.integers(0, 2),
    st.sampled_from([[[1]], [[1], [2]], [1.0], ["a"], [True], [2**64], np.int64(3)]),
)
def test_a_column_that_is_no_list_of_ints_is_told(which: int, odd: list[int]) -> None:
    columns: list[list[int]] = [[8], [8], [8]]
    columns[which] = odd
    name = ("addresses", "strides_bytes", "pages_bytes")[which]
    a, s, p = columns
    column = np.asarray(odd)
    assert str(outcome(lambda: checked_segments(a, s, p, 1))).startswith(
        f"{name} of dtype {column.dtype} and shape {column.shape}, but must be a list"
    )


@given(st.integers(1, 99), st.integers(1, 99))
def test_a_launch_is_of_single_chunks_and_blocks_unless_told(
    n_blocks: int, n_rows: int
) -> None:
    launch = Launch(range(n_blocks), range(n_rows), 0)
    assert launch.grid == (n_rows, n_blocks, 1)
    groups = (ChunkGroup(0, 0, n_rows, 1),)
    assert plan_launches(n_blocks, groups, rows_inside=True) == (launch,)
    assert plan_launches(n_blocks=n_blocks, groups=groups, rows_inside=True) == (
        launch,
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60), st.sampled_from([100, 150, 200]), st.integers(1, 12)
        ),
        max_size=6,
    )
)
@example([(0, 100, 8), (20, 150, 8)])
@example([(0, 100, 8), (8, 100, 1), (10, 100, 1)])
@example([(0, 100, 12), (1, 100, 2), (12, 100, 2)])
def test_segments_that_touch_are_one_for_each_stride(
    rows: list[tuple[int, int, int]],
) -> None:
    expected: list[tuple[int, int, int]] = []
    for stride in (100, 150, 200):
        end = -1
        for address, _, page in sorted(row for row in rows if row[1] == stride):
            if address > end:
                expected.append((address, stride, page))
            else:
                first = expected.pop()[0]
                expected.append((first, stride, max(end, address + page) - first))
            end = expected[-1][0] + expected[-1][2]
    columns = [list(column) for column in zip(*rows)] or [[], [], []]
    joined = merged(checked_segments(columns[0], columns[1], columns[2], 3))
    seen = list(zip(*(column.tolist() for column in joined)))
    assert seen == sorted(expected)
