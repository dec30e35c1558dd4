import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.report.folding import Fold, folded

ROWS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 3), st.integers(1, 2)), max_size=60
)


def unfolded(rows: np.ndarray, folds: list[Fold]) -> list[tuple[int, ...]]:
    """Return the rows that patterns stand for."""
    pattern_rows = [
        tuple(np.array(rows[fold.start + i]) + np.array(fold.step) * time)
        for fold in folds
        for time in range(fold.times)
        for i in range(fold.length)
    ]
    return [tuple(int(value) for value in row) for row in pattern_rows]


@given(rows=ROWS)
@example(rows=[(0, 0, 1), (4, 0, 1), (8, 0, 1)])
def test_folded_rows_stand_for_exactly_the_rows(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, np.int64).reshape(-1, 3)
    assert unfolded(table, folded(table, 2)) == rows


@given(period=st.integers(1, 5), times=st.integers(3, 300), step=st.integers(1, 10**9))
def test_folded_regular_rows_are_one_pattern(
    period: int, times: int, step: int
) -> None:
    rows = [(i * step + j, j, 10 + j) for i in range(times) for j in range(period)]
    folds = folded(np.array(rows, np.int64), 1)
    assert [(f.start, f.length, f.times) for f in folds] == [(0, period, times)]
    assert folds[0].step == (step, 0, 0)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_folded_stops_after_the_patterns_asked_for(most: int) -> None:
    rows = np.array([(0, 1), (1, 2), (2, 2), (3, 2), (9, 1)], np.int64)
    assert len(folded(rows, 1, most=most)) == most
