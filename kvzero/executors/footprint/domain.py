"""The programs that are evaluated together, and how some of them are picked.

Programs stand in a rectangle of rows and columns: rows are pairs of (y, z), columns
are x. A value is an array that broadcasts over the rectangle, so what depends on y
alone costs one number a row, and what is the same for all programs one number. A branch
whose condition depends on rows only keeps rows, and so on; any other condition leaves
single programs, which then stand in one column.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzero.errors import InternalError
from kvzero.limits import Grid

Array = NDArray[Any]  # Any: bool or a signed integer of any width
Scalar = Any  # np.generic where all programs agree, else an Array of shape [1|A, 1|B]
Index = NDArray[np.intp]


def some(mark: Any) -> bool:  # Any: a Scalar, or lanes
    """Return whether a mark is set anywhere; to count them costs less than `any`."""
    return bool(np.count_nonzero(mark) if isinstance(mark, np.ndarray) else mark)


def agreed(condition: Scalar) -> bool | None:
    """Return what all programs make of a condition, or None where they differ."""
    if not isinstance(condition, np.ndarray):
        return bool(condition)
    count = int(np.count_nonzero(condition))
    return None if 0 < count < condition.size else count > 0


def at_program(value: Scalar, row: int, col: int) -> int:
    """Return the number that one program holds of a scalar."""
    if not isinstance(value, np.ndarray):
        return int(value)
    rows, cols = value.shape[:2]
    return int(value[row if rows > 1 else 0, col if cols > 1 else 0].reshape(-1)[0])


class Pick:
    """Some programs of a rectangle: whole rows, whole columns, or single programs."""

    __slots__ = ("cols", "rows")

    def __init__(self, rows: Index | None, cols: Index | None) -> None:
        """Pick rows, columns, or the programs at both."""
        self.rows = rows
        self.cols = cols

    def shape(self, whole: tuple[int, int]) -> tuple[int, int]:
        """Return the shape of what is picked out of a rectangle."""
        if self.rows is None:
            return whole[0], whole[1] if self.cols is None else len(self.cols)
        return len(self.rows), whole[1] if self.cols is None else 1

    def take(self, array: Array) -> Array:
        """Return the picked part of an array that broadcasts over the rectangle."""
        rows, cols = self.rows, self.cols
        if cols is None or rows is None:
            if rows is not None and array.shape[0] != 1:
                return array[rows]
            if cols is not None and array.shape[1] != 1:
                return array[:, cols]
            return array
        if array.shape[0] == 1:
            return array if array.shape[1] == 1 else array[0, cols][:, None]
        if array.shape[1] == 1:
            return array[rows]
        return array[rows, cols][:, None]

    def put(self, target: Array, value: Any) -> None:  # Any: an Array or a number
        """Write a value over the picked part into one over the whole rectangle."""
        if self.rows is None:
            target[:, slice(None) if self.cols is None else self.cols] = value
        elif self.cols is None:
            target[self.rows] = value
        else:
            column = value[:, 0] if isinstance(value, np.ndarray) else value
            target[self.rows, self.cols] = column


def pick_where(condition: Array) -> Pick:
    """Return the programs where a condition holds; it must differ between programs."""
    rows, cols = condition.shape[:2]
    if cols == 1:
        return Pick(condition.nonzero()[0], None)
    if rows == 1:
        return Pick(None, condition.nonzero()[1])
    return Pick(*np.nonzero(condition))


class Domain:
    """The programs of a frame.

    Attributes:
        shape: Rows and columns.
        grid: Programs of the whole launch in x, y and z.
    """

    __slots__ = ("_ids", "_parent", "_pick", "grid", "shape")

    def __init__(
        self,
        shape: tuple[int, int],
        ids: tuple[Scalar, Scalar, Scalar] | None = None,
        parent: "Domain | None" = None,
        pick: Pick | None = None,
        grid: Grid = (1, 1, 1),
    ) -> None:
        """Hold program ids, or find them in a parent when they are asked for."""
        self.shape = shape
        self.grid: Grid = grid if parent is None else parent.grid
        self._ids = ids
        self._parent = parent
        self._pick = pick

    @property
    def programs(self) -> int:
        """Return the number of programs."""
        return self.shape[0] * self.shape[1]

    @property
    def ids(self) -> tuple[Scalar, Scalar, Scalar]:
        """Return the program ids in x, y and z, int32."""
        if self._ids is None:
            if self._parent is None or self._pick is None:
                raise InternalError("a domain has neither program ids nor a parent")
            pick = self._pick
            x, y, z = (
                pick.take(axis) if isinstance(axis, np.ndarray) else axis
                for axis in self._parent.ids
            )
            self._ids = (x, y, z)
        return self._ids

    @property
    def origin(self) -> "tuple[Domain, Pick] | None":
        """Return the domain that the programs were picked from, if any."""
        if self._parent is None or self._pick is None:
            return None
        return self._parent, self._pick

    def picked(self, pick: Pick) -> "Domain":
        """Return the domain of the picked programs."""
        return Domain(pick.shape(self.shape), None, self, pick)

    def program(self, row: int, col: int) -> Grid:
        """Return the id of one program."""
        x, y, z = (at_program(axis, row, col) for axis in self.ids)
        return x, y, z

    def halves(self) -> tuple["Domain", "Domain"]:
        """Return the domain in two parts."""
        rows, cols = self.shape
        if rows > 1:
            parts = np.split(np.arange(rows), [rows // 2])
            picks = [Pick(part, None) for part in parts]
        else:
            parts = np.split(np.arange(cols), [cols // 2])
            picks = [Pick(None, part) for part in parts]
        return self.picked(picks[0]), self.picked(picks[1])


def grid_domains(grid: Grid, programs: int) -> list[Domain]:
    """Return a grid in parts of at most about `programs` programs, z fastest in rows.

    Neighbouring z are mostly neighbouring chunks of one page, so that their stores join
    without sorting.
    """
    x, y, z = grid
    if x == y == z == 1:
        return [Domain((1, 1), (_FIRST, _FIRST, _FIRST))]
    width = min(x, programs)
    height = max(programs // width, 1)
    domains = []
    for row in range(0, y * z, height):
        rows = range(row, min(row + height, y * z))
        in_y, in_z = _row_ids(rows, z)
        for col in range(0, x, width):
            end = min(col + width, x)
            in_x = np.arange(col, end, dtype=np.int32)[None, :]
            ids = (_uniform(in_x), in_y, in_z)
            domains.append(Domain((len(rows), end - col), ids, grid=grid))
    return domains


_FIRST = np.int32(0)


def _row_ids(rows: range, z: int) -> tuple[Scalar, Scalar]:
    """Return the ids in y and z of some rows, which are pairs of them, z fastest."""
    if z == 1:
        in_y = np.arange(rows.start, rows.stop, dtype=np.int32)
        return _uniform(in_y[:, None]), _FIRST
    pairs = np.divmod(np.arange(rows.start, rows.stop, dtype=np.int64), z)
    in_y, in_z = (_uniform(part.astype(np.int32)[:, None]) for part in pairs)
    return in_y, in_z


def _uniform(array: Array) -> Scalar:
    return array[0, 0] if array.size == 1 else array
