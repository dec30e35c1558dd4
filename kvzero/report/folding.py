"""Repeats in a table: what turns 65,536 rows into a line or two.

Rows repeat if a stretch of them comes again and again, each time moved by the same
amount in the columns that say where (offsets, allocations) and equal in all others.
"""

from typing import NamedTuple

import numpy as np

from kvzero.layout import Int64Array

MAX_PERIOD = 64
"""Rows of one pattern at most."""
_FIRST_LOOK = 64


class Fold(NamedTuple):
    """Rows that repeat.

    Attributes:
        start: First row.
        length: Rows of the pattern.
        times: How often it stands there, at least once.
        step: From one repeat to the next, by column; zeros where there is one.
    """

    start: int
    length: int
    times: int
    step: tuple[int, ...]


def folded(rows: Int64Array, moving: int, *, most: int | None = None) -> list[Fold]:
    """Return rows as patterns with their repeats, in order and without gaps.

    Args:
        rows: Shape [n, columns].
        moving: The first columns, which say where; they may move from one repeat to the
            next by a constant, while the others are the same in each.
        most: Stop after that many patterns.
    """
    folds: list[Fold] = []
    at = 0
    while at < len(rows) and (most is None or len(folds) < most):
        fold = _best(rows, at, moving)
        alone = folds[-1] if folds and folds[-1].times == 1 else None
        if fold.times == 1 and alone is not None:
            folds[-1] = alone._replace(length=alone.length + 1)
        else:
            folds.append(fold)
        at += fold.length * fold.times
    return folds


def _best(rows: Int64Array, at: int, moving: int) -> Fold:
    """Return the repeat from `at` that saves the most rows, or one row."""
    nothing = (0,) * rows.shape[1]
    best, saved = Fold(at, 1, 1, nothing), 0
    later = rows[at + 1 : at + 1 + MAX_PERIOD, moving:]
    for before in np.flatnonzero((later == rows[at, moving:]).all(axis=1)).tolist():
        period = before + 1
        times = 1 + _same_shift(rows, at, period) // period
        if period * (times - 1) - 1 > saved:
            saved = period * (times - 1) - 1
            step = tuple((rows[at + period] - rows[at]).tolist())
            best = Fold(at, period, times, step)
    return best


def _same_shift(rows: Int64Array, at: int, period: int) -> int:
    """Return how many rows from `at` come again `period` later, moved alike."""
    shift = rows[at + period] - rows[at]
    look = _FIRST_LOOK
    while True:
        end = min(at + period + look, len(rows))
        moved = rows[at + period : end] - rows[at : end - period]
        different = np.flatnonzero((moved != shift).any(axis=1))
        if len(different):
            return int(different[0])
        if end == len(rows):
            return end - period - at
        look *= 4
