"""Finding runs: a table of single segments as the few runs that it repeats.

Real tables are regular: a segment follows the one before at a fixed distance, whole
stretches repeat, and two or more kinds alternate. From the front, the stretch that one
run covers best is taken, be it a run with two axes or one of several interleaved runs;
then stretches of one shape at a fixed distance become another axis. The runs expand to
exactly the given table, in its order.
"""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.layout import Axis, Int64Array, Run, SegmentTable

MAX_PERIOD = 64
"""Runs that are looked for side by side."""

Group = tuple[Run, ...]
"""A run with the runs that are interleaved with it."""


def runs_of_table(table: SegmentTable) -> tuple[Run, ...]:
    """Return runs that expand to a table.

    Args:
        table: Segments; their order is kept.
    """
    search, groups, at = _Search(table), list[Group](), 0
    while at < len(table):
        group, rows = search.group_at(at)
        groups.append(group)
        at += rows
    before = len(groups) + 1
    while len(groups) < before:
        before, groups = len(groups), _with_outer_axes(groups)
    return tuple(chain.from_iterable(groups))


class _Steps(NamedTuple):
    """How a table goes on after `period` rows.

    Attributes:
        same_until: For each row, the first from it on that is not followed by one of
            its kind (stride and page), in no earlier allocation.
        even_until: The first from it on whose step is not taken again, `period` rows
            later.
        level_until: The first from it on whose step is not that of the next row.
    """

    same_until: Int64Array
    even_until: Int64Array
    level_until: Int64Array


class _Search:
    """One table, and what was found out about it."""

    def __init__(self, table: SegmentTable) -> None:
        self._table = table
        self._rows = list(zip(*(column.tolist() for column in table)))
        self._steps: dict[int, _Steps] = {}

    def group_at(self, at: int) -> tuple[Group, int]:
        """Return the group that begins at a row, and the rows that it covers."""
        rows, axes = self._nested(at)
        best, period = rows, 1
        for candidate in range(2, MAX_PERIOD + 1):
            if self._may_alternate(at, candidate):
                covered = self._alternating(at, candidate)
                if covered // candidate > best:
                    best, period = covered // candidate, candidate
        if period == 1:
            return (self._run(at, axes),), rows
        rows = self._alternating(at, period)
        return self._interleaved(at, period, rows), rows

    def _nested(self, at: int) -> tuple[int, tuple[Axis, ...]]:
        """Return the rows from `at` on that one run covers, and its axes."""
        rows, axes = 1, tuple[Axis, ...]()
        while (repeats := self._repeats(at, rows)) > 1:
            axes = (*self._axis(at, rows, repeats), *axes)
            rows *= repeats
        return rows, axes

    def _alternating(self, at: int, period: int) -> int:
        """Return the rows from `at` on that `period` interleaved runs cover."""
        if period >= len(self._rows) - at:
            return min(period, len(self._rows) - at)
        steps = self._steps_of(period)
        same = int(steps.same_until[at]) - at + period
        even = int(steps.even_until[at]) - at + 2 * period
        return min(same, even, len(self._rows) - at)

    def _repeats(self, at: int, rows: int) -> int:
        """Return how often a stretch stands there, each time as far from the last."""
        if rows >= len(self._rows) - at:
            return 1
        steps = self._steps_of(rows)
        if steps.same_until[at] == at:
            return 1
        return 1 + (int(steps.level_until[at]) - at + 1) // rows

    def _may_alternate(self, at: int, period: int) -> bool:
        """Return whether the first three rows of a column make a run, cheaply."""
        if at + 2 * period >= len(self._rows):
            return False
        first, second, third = (self._rows[at + i * period] for i in range(3))
        if first[2:] != second[2:] or second[2:] != third[2:]:
            return False
        return all(b - a == c - b for a, b, c in zip(first[:2], second, third))

    def _steps_of(self, period: int) -> _Steps:
        if period not in self._steps:
            self._steps[period] = _steps(self._table, period)
        return self._steps[period]

    def _axis(self, at: int, period: int, count: int) -> tuple[Axis, ...]:
        """Return the axis of `count` rows that stand `period` rows apart."""
        if count == 1:
            return ()
        here, there = self._rows[at], self._rows[at + period]
        return (Axis(count, there[1] - here[1], there[0] - here[0]),)

    def _run(
        self, at: int, axes: tuple[Axis, ...], *, interleaved: bool = False
    ) -> Run:
        allocation, offset, stride, page = self._rows[at]
        return Run(page, stride, offset, allocation, axes, interleaved)

    def _interleaved(self, at: int, period: int, rows: int) -> Group:
        return tuple(
            self._run(
                at + column,
                self._axis(at + column, period, -(-(rows - column) // period)),
                interleaved=column > 0,
            )
            for column in range(period)
        )


def _steps(table: SegmentTable, period: int) -> _Steps:
    """Return how a table goes on; see `_Steps`."""
    allocation, offset, stride, page = (
        column[period:] - column[:-period] for column in table
    )
    same = (stride == 0) & (page == 0) & (allocation >= 0)
    size = len(table)
    even, level = np.zeros(size, bool), np.zeros(size, bool)
    for flags, ahead in ((even, period), (level, 1)):
        count = max(len(same) - ahead, 0)
        flags[:count] = (
            (allocation[ahead:] == allocation[:count])
            & (offset[ahead:] == offset[:count])
            & same[ahead:]
            & same[:count]
        )
    return _Steps(*(_first_false(flags, size) for flags in (same, even, level)))


def _first_false(flags: NDArray[np.bool_], size: int) -> Int64Array:
    """Return for each position the first from it on that is not set."""
    where = np.full(size, size, np.int64)
    where[: len(flags)] = np.where(flags, size, np.arange(len(flags)))
    where[len(flags) :] = np.arange(len(flags), size)
    return np.minimum.accumulate(where[::-1])[::-1]


def _with_outer_axes(groups: list[Group]) -> list[Group]:
    """Return groups in which neighbours of one shape are one, with one axis more."""
    merged: list[Group] = []
    at = 0
    while at < len(groups):
        count = _alike(groups, at)
        group = groups[at]
        merged.append(_repeated(group, groups[at + 1], count) if count > 1 else group)
        at += count
    return merged


def _alike(groups: list[Group], at: int) -> int:
    """Return how many groups from `at` on are one group at a fixed distance."""
    first = groups[at]
    if len({tuple(axis.count for axis in run.axes) for run in first}) > 1:
        # Interleaved runs of different lengths: an axis more would mix their order.
        return 1
    count, distance = 1, None
    while at + count < len(groups):
        found = _distance(groups[at + count - 1], groups[at + count])
        if found is None or (distance is not None and found != distance):
            break
        count, distance = count + 1, found
    return count


def _distance(one: Group, other: Group) -> list[tuple[int, int]] | None:
    """Return how far the runs of a group lie behind those of another, if at all."""
    if len(one) != len(other):
        return None
    distance = []
    for here, there in zip(one, other):
        moved = replace(
            here, offset_bytes=there.offset_bytes, allocation=there.allocation
        )
        if moved != there or there.allocation < here.allocation:
            return None
        distance.append(
            (there.offset_bytes - here.offset_bytes, there.allocation - here.allocation)
        )
    return distance


def _repeated(first: Group, second: Group, count: int) -> Group:
    distance = _distance(first, second) or []
    return tuple(
        replace(run, axes=(Axis(count, *step), *run.axes))
        for run, step in zip(first, distance)
    )
