"""An engine's live layout as a case file, which `kvzero verify` takes.

A layout that broke a zeroer once is worth keeping. It is taken from KV tensors, or from
the table of segments that an engine has already made, and written as runs, so that a
table of 65,536 rows is a few lines.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzero.case import Call, Case, IdRun, Placement
from kvzero.casefile import read_json_file, write_case_file
from kvzero.codec import shown
from kvzero.errors import LayoutError
from kvzero.layout import (
    MAX_BLOCKS,
    MAX_BYTES,
    Allocation,
    Int64Array,
    Layout,
    SegmentTable,
    check_int,
)
from kvzero.run_search import runs_of_table
from kvzero.views import Tensors, storages_of

BOUNDARY_BYTES = 512
"""What allocators align to: how far an allocation lies past it is kept."""
MAX_VIEWS = 4096
"""Views that are kept beside the runs; a file of more would be too large to read."""
MAX_TABLE_BYTES = 2**26
"""Bytes of a file that holds a segment table."""
MAX_ADDRESS = 2**63 - 1
SPREAD_IDS = 64
"""Ids of the last call: a typical step of a busy server."""

Segments = Iterable[Sequence[int]] | NDArray[np.int64]
"""Rows of address of block 0, block stride and page, in bytes."""
Ranges = Iterable[Sequence[int]]
"""Rows of address and size, in bytes."""
Row = tuple[int, ...]


class Captured(NamedTuple):
    """A live layout and where its allocations lie."""

    layout: Layout
    addresses: Int64Array


def capture_layout(
    tensors_or_segments: Tensors | Segments,
    path: Path | str,
    *,
    num_blocks: int | None = None,
    block_dim: int | Sequence[int] = 0,
    kernel_blocks_per_block: int | Sequence[int] = 1,
    allocations: Ranges | None = None,
    platform: str = "cuda:90",
) -> Case:
    """Write the layout of an engine's KV cache as a case file.

    Its calls list block 1, the last block, and 64 blocks spread over the cache.

    Args:
        tensors_or_segments: KV tensors as `Layout.from_tensors` takes them, or rows of
            (address, block stride, page) in bytes.
        path: The file; one of that name is replaced.
        num_blocks: Blocks of the cache; needed with segments.
        block_dim: Of tensors, the dimension that counts blocks.
        kernel_blocks_per_block: Of tensors, the kernel blocks of one block.
        allocations: Of segments, rows of (address, size) of the memory that they lie
            in; by default one allocation that spans them all.
        platform: Target that the case is for, such as ``"hip:gfx942"``.

    Returns:
        The case that was written.

    Raises:
        LayoutError: They are no layout that a zeroer could be given.
        CaseError: The case does not fit a file.
    """
    entries = list(tensors_or_segments)
    if entries and _is_row(entries[0]):
        if num_blocks is None:
            raise LayoutError(
                "num_blocks=None, but must be given with segments: they do not say how "
                "many blocks there are"
            )
        captured = capture_segments(entries, num_blocks, allocations)
    else:
        captured = capture_tensors(
            entries,
            block_dim=block_dim,
            kernel_blocks_per_block=kernel_blocks_per_block,
            num_blocks=num_blocks,
        )
    case = case_of(captured, platform)
    write_case_file(path, case)
    return case


def capture_tensors(
    tensors: Tensors,
    *,
    block_dim: int | Sequence[int] = 0,
    kernel_blocks_per_block: int | Sequence[int] = 1,
    num_blocks: int | None = None,
) -> Captured:
    """Return the layout of KV tensors, its segments as runs, its views kept.

    Args:
        tensors: KV tensors as `Layout.from_tensors` takes them.
        block_dim: The dimension that counts blocks.
        kernel_blocks_per_block: Kernel blocks of one block.
        num_blocks: Blocks of the cache.
    """
    entries = list(tensors)
    found = Layout.from_tensors(
        entries,
        block_dim=block_dim,
        kernel_blocks_per_block=kernel_blocks_per_block,
        num_blocks=num_blocks,
    )
    layout = Layout(
        found.num_blocks,
        _in_pieces(found.allocation_sizes.tolist()),
        runs_of_table(found.table),
        views=found.views if len(found.views) <= MAX_VIEWS else (),
    )
    return Captured(layout, np.array(storages_of(entries), np.int64))


def capture_segments(
    segments: Segments, num_blocks: int, allocations: Ranges | None = None
) -> Captured:
    """Return the layout of a segment table, its segments as runs.

    Args:
        segments: Rows of (address, block stride, page) in bytes.
        num_blocks: Blocks of the cache.
        allocations: Rows of (address, size); by default one that spans the segments.

    Raises:
        LayoutError: A row is wrong, or a segment lies in no allocation.
    """
    check_int("num_blocks", num_blocks, 0, MAX_BLOCKS)
    rows = _rows("segments", segments, ("address", "stride", "page"))
    if allocations is None:
        ranges = _spanning(rows, num_blocks)
    else:
        ranges = _rows("allocations", allocations, ("address", "size"))
    owner = _owners(rows, ranges)
    # In order of first use, so that runs lead from one allocation to the next.
    order = list(dict.fromkeys([*owner, *range(len(ranges))]))
    index = {old: new for new, old in enumerate(order)}
    addresses = np.array([ranges[old][0] for old in order], np.int64)
    where = np.array([index[old] for old in owner], np.int64)
    columns = np.array(rows, np.int64).reshape(-1, 3)
    table = SegmentTable(
        where, columns[:, 0] - addresses[where], columns[:, 1], columns[:, 2]
    )
    layout = Layout(
        num_blocks, _in_pieces([ranges[old][1] for old in order]), runs_of_table(table)
    )
    return Captured(layout, addresses)


def read_segment_table(path: Path | str) -> Captured:
    """Return the layout of a JSON file with a segment table.

    The file holds one object: ``num_blocks``, ``segments`` as rows of [address, block
    stride, page], and, if known, ``allocations`` as rows of [address, size].

    Raises:
        CaseError: The file cannot be read.
        LayoutError: It holds no segment table.
    """
    value = read_json_file(path, max_bytes=MAX_TABLE_BYTES)
    try:
        return _captured(value)
    except LayoutError as error:
        raise LayoutError(f"{path}: {error}") from error


def case_of(captured: Captured, platform: str = "cuda:90") -> Case:
    """Return the case of a captured layout: block 1, the last, and some spread ones."""
    layout, addresses = captured
    last = max(layout.num_blocks - 1, 0)
    spread = min(SPREAD_IDS, layout.num_blocks)
    # The last id first: a served cache hands out scattered ids, in no order.
    lists = (
        IdRun(min(1, last)),
        IdRun(last),
        IdRun(last, spread, -max(last // max(spread, 1), 1)),
    )
    calls = tuple(Call((run,), "array") for run in lists) if layout.num_blocks else ()
    shifts = (addresses % BOUNDARY_BYTES).tolist() or [0]
    placement = Placement(
        misalignments_bytes=tuple(shifts if len(set(shifts)) > 1 else shifts[:1]),
        descending=len(addresses) > 1 and bool((np.diff(addresses) < 0).all()),
    )
    return Case(layout, calls, platform, placement)


def _captured(value: Any) -> Captured:  # Any: parsed JSON
    known = ("num_blocks", "segments", "allocations")
    if not isinstance(value, dict):
        raise LayoutError(f"the table is {shown(value)}, but must be a JSON object")
    for key in value:
        if key not in known:
            raise LayoutError(f"{shown(key)}: unknown, but must be one of {known}")
    for key in known[:2]:
        if key not in value:
            raise LayoutError(f"{key} is missing, but must be given")
    num_blocks = value["num_blocks"]
    if type(num_blocks) is not int:
        raise LayoutError(f"num_blocks={shown(num_blocks)}, but must be an int")
    return capture_segments(value["segments"], num_blocks, value.get("allocations"))


def _rows(
    name: str,
    rows: Any,
    fields: tuple[str, ...],  # Any: anybody's table
) -> list[Row]:
    """Return rows of numbers as ints, each checked."""
    if isinstance(rows, np.ndarray):
        rows = rows.tolist()
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes, dict)):
        raise LayoutError(f"{name}={shown(rows)}, but must be a list of rows")
    found = []
    for index, row in enumerate(rows):
        if not isinstance(row, (list, tuple)) or len(row) != len(fields):
            raise LayoutError(
                f"{name}[{index}]={shown(row)}, but must be {len(fields)} numbers: "
                f"{', '.join(fields)}"
            )
        for field, number in zip(fields, row):
            most, least = (MAX_ADDRESS, 0) if field == "address" else (MAX_BYTES, 1)
            if type(number) is not int or not least <= number <= most:
                raise LayoutError(
                    f"{name}[{index}].{field}={shown(number)}, but must be an int from "
                    f"{least} to {most}"
                )
        found.append(tuple(row))
    return found


def _spanning(rows: Sequence[Row], num_blocks: int) -> list[Row]:
    """Return the one range that all blocks of some segments span, if there are any."""
    if not rows:
        return []
    last = max(num_blocks - 1, 0)
    begin = min(address for address, _, _ in rows)
    size = max(address + last * stride + page for address, stride, page in rows) - begin
    if size > MAX_BYTES:
        raise LayoutError(
            f"segments span {size} B, but must fit {MAX_BYTES} B: say which "
            f"allocations they lie in"
        )
    return [(begin, size)]


def _owners(segments: Sequence[Row], ranges: Sequence[Row]) -> list[int]:
    """Return which range each segment begins in."""
    order = sorted(range(len(ranges)), key=lambda index: ranges[index])
    begins = [ranges[index][0] for index in order]
    for one, other in pairwise(order):
        if sum(ranges[one]) > ranges[other][0]:
            raise LayoutError(
                f"allocations[{one}] and allocations[{other}] overlap, but must lie "
                f"apart"
            )
    owners = []
    for index, (address, _, _) in enumerate(segments):
        at = bisect_right(begins, address) - 1
        if at < 0 or address >= sum(ranges[order[at]]):
            raise LayoutError(
                f"segments[{index}].address={address:#x}, but must lie in one of the "
                f"{len(ranges)} allocations"
            )
        owners.append(order[at])
    return owners


def _in_pieces(sizes: Sequence[int]) -> tuple[Allocation, ...]:
    """Return allocations, equal neighbours as one entry."""
    return tuple(Allocation(size, len(list(group))) for size, group in groupby(sizes))


def _is_row(entry: object) -> bool:
    """Return whether an entry is a row of numbers, and no tensor or tuple of them."""
    if isinstance(entry, np.ndarray):
        return True
    return (
        isinstance(entry, (list, tuple)) and bool(entry) and isinstance(entry[0], int)
    )
