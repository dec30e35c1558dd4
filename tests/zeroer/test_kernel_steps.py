"""The kernel's own statements, run on NumPy: which stores each program makes, and why.

Executors judge which bytes a launch leaves. Here a program is followed store by store,
for chunks of any size that the kernel takes: none is made that has no lane to store,
none is wider than the kernel says, and no block is taken twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvzero.zeroer import chunks, kernels
from kvzero.zeroer.chunks import LINE_BYTES, ROW_FIELDS, checked_segments, chunk_table
from kvzero.zeroer.plan import Launch, plan_launches

BASE = 2**40
ROWS_PTR = 2**20
"""Where the table's numbers begin, counted as the ids are; these begin at 0."""


class Value(np.ndarray[Any, Any]):
    """A Triton value: an array that can be asked for another type."""

    def to(self, dtype: Any) -> Any:  # Any: a NumPy type, or makes a pointer
        return dtype(self) if isinstance(dtype, PointerType) else self.astype(dtype)


def value(of: Any) -> Value:  # Any: whatever NumPy takes
    return np.asarray(of).view(Value)


class Pointer(NamedTuple):
    """An address with the size of its elements, and lanes of it once they are added."""

    address: int
    size: int
    lanes: Any = 0

    def __add__(self, lanes: Any) -> "Pointer":
        return self._replace(lanes=self.lanes + lanes)


class PointerType:
    """What makes pointers to elements of a size."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.size = np.dtype(dtype).itemsize

    def __call__(self, address: Any) -> Pointer:
        return Pointer(int(address), self.size)


class Store(NamedTuple):
    """One store of a program: the bytes of all its lanes, and which it leaves zero."""

    lanes_bytes: int
    begin: int
    end: int


class Language:
    """What the kernel asks of `triton.language`, for one program at a time."""

    int8, int32, int64, uint64 = np.int8, np.int32, np.int64, np.uint64
    pointer_type = PointerType

    def __init__(self, rows: NDArray[np.int64], ids: list[int]) -> None:
        self.memory = dict(enumerate(ids))
        numbers = rows.reshape(-1).tolist()
        self.memory |= {ROWS_PTR + at: n for at, n in enumerate(numbers)}
        self.program = (0, 0, 0)
        self.stores: list[Store] = []

    def program_id(self, axis: int) -> Value:
        return value(np.int32(self.program[axis]))

    def load(self, at: Value, mask: Any = True, other: int = 0) -> Value:
        return value(np.int64(self.memory[int(at)] if mask else other))

    def where(self, which: Any, one: Any, other: Any) -> Value:
        return value(np.where(which, one, other))

    def minimum(self, one: Any, other: Any) -> Value:
        return value(np.minimum(one, other))

    def maximum(self, one: Any, other: Any) -> Value:
        return value(np.maximum(one, other))

    def arange(self, begin: int, end: int) -> Value:
        return value(np.arange(begin, end, dtype=np.int32))

    def multiple_of(self, pointer: Pointer, of: int) -> Pointer:
        assert pointer.address % of == 0
        return pointer

    def store(
        self, at: Pointer, what: int, mask: Any, eviction_policy: str = ""
    ) -> None:
        assert what == 0
        assert eviction_policy in ("", "evict_first")
        mine = np.unique(np.asarray(at.lanes)[np.asarray(mask)])
        assert len(mine) == np.count_nonzero(mask), "no lane stores what another does"
        begin = at.address + at.size * int(mine[0] if len(mine) else 0)
        end = begin + at.size * len(mine)
        assert not len(mine) or mine[-1] - mine[0] + 1 == len(mine)
        self.stores.append(Store(at.size * len(at.lanes), begin, end))


@contextmanager
def small_chunks(chunk_bytes: int, more_bytes: int) -> Iterator[None]:
    with (
        mock.patch.object(chunks, "CHUNK_BYTES", chunk_bytes),
        mock.patch.object(chunks, "MORE_BYTES", more_bytes),
    ):
        yield


def stores_of(
    language: Language, launch: Launch, num_blocks: int, sizes: tuple[int, int]
) -> dict[tuple[int, int, int], list[Store]]:
    """Return the stores of each program of a launch."""
    found = {}
    first_row = value(np.int64(ROWS_PTR + launch.first_row * ROW_FIELDS))
    with (
        mock.patch.object(kernels, "tl", language),
        mock.patch.object(kernels, "zero_window", kernels.zero_window.fn),
    ):
        for program in np.ndindex(launch.grid):
            language.program, language.stores = program, []
            kernels.zero_chunks.fn(
                first_row,
                value(np.int64(launch.blocks.start)),
                value(np.int64(num_blocks)),
                value(np.int32(len(launch.blocks))),
                value(np.int32(launch.blocks_each)),
                value(np.int32(launch.row_chunks == 1)),
                value(np.int32(launch.rows_inside)),
                launch.blocks_each > 1,
                *sizes,
                LINE_BYTES,
                ROW_FIELDS,
            )
            found[program] = language.stores
    return found


@st.composite
def pages_beside(draw: st.DrawFn, sizes: tuple[int, int]) -> int:
    """Draw a page whose end is near that of the first or a later window."""
    edge = draw(st.sampled_from([0, sizes[0], sum(sizes), sum(sizes), 5 * sizes[0]]))
    return max(1, edge + draw(st.integers(-40, 40) | st.integers(-280, 0)))


SIZES = [(4096, 2048), (256, 256), (512, 512), (1024, 512), (256, 1024)]


@given(st.sampled_from(SIZES), st.data())
def test_a_program_makes_no_store_that_it_could_leave_out(
    sizes: tuple[int, int], data: st.DataObject
) -> None:
    page = data.draw(pages_beside(sizes), label="page")
    shift = data.draw(st.integers(0, 300), label="offset")
    gap = data.draw(st.sampled_from([0, 1, 8, 16, 240, 1024]), label="gap")
    num_blocks = data.draw(st.integers(1, 4), label="blocks")
    ids = data.draw(
        st.lists(st.integers(-2, num_blocks + 1), min_size=1, max_size=7), label="ids"
    )
    each = data.draw(st.sampled_from([1, 2, 3, 8]), label="blocks of a program")
    rows_inside = data.draw(st.booleans(), label="rows inside")
    begin, stride = BASE + shift, page + gap
    if data.draw(st.booleans(), label="whole lines"):  # then windows may be full
        page = data.draw(st.sampled_from([page, sum(sizes)]), label="page")
        begin, stride = BASE, -(-(page + gap) // LINE_BYTES) * LINE_BYTES
    with small_chunks(*sizes):
        table = chunk_table(checked_segments([begin], [stride], [page], num_blocks))
    launches = plan_launches(
        len(ids), table.groups, rows_inside=rows_inside, blocks_each=each
    )
    language = Language(table.rows, ids)
    stores = [
        store
        for launch in launches
        for mine in stores_of(language, launch, num_blocks, sizes).values()
        for store in mine
    ]
    zeroed = sorted((s.begin, s.end) for s in stores if s.begin < s.end)
    pages = sorted(begin + i * stride for i in ids if 0 <= i < num_blocks)
    assert sum(end - first for first, end in zeroed) == page * len(pages)
    assert covered(zeroed) == covered([(at, at + page) for at in pages])
    kinds = [store.lanes_bytes for store in stores]
    assert set(kinds) <= {*sizes, 16}
    assert expected_kinds(table, ids, num_blocks, sizes) == {
        kind: kinds.count(kind) for kind in {*sizes, 16}
    }


def covered(stretches: list[tuple[int, int]]) -> set[int]:
    return {byte for begin, end in stretches for byte in range(begin, end)}


def expected_kinds(
    table: chunks.ChunkTable, ids: list[int], num_blocks: int, sizes: tuple[int, int]
) -> dict[int, int]:
    """Return how often stores of each width are made, from each chunk's two ends."""
    ((address, stride, page, windows),) = table.rows[:1].tolist()
    step = windows % LINE_BYTES * LINE_BYTES
    found = dict.fromkeys((*sizes, 16), 0)
    for block in ids:
        at = address + block * stride
        line = at // LINE_BYTES * LINE_BYTES
        listed = page if 0 <= block < num_blocks else -LINE_BYTES
        for chunk in range(table.num_chunks):
            window = line + chunk * step
            begin = max(at, window)
            end = max(min(at + listed, window + step), begin)
            found[sizes[0]] += 1
            found[sizes[1]] += end // 16 * 16 > window + sizes[0]
            found[16] += 2 * bool(begin % 16 or end % 16)
    return found
