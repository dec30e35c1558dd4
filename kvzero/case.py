"""A case: a layout, the calls made on it, and where its memory lies.

A case is plain data: the same case runs on every executor, is saved as a file and
replays anywhere. Addresses are part of it, because faults of 32-bit arithmetic neither
shrink nor replay without them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from kvzero.errors import CaseError
from kvzero.layout import Int64Array, Layout

Arrival = Literal["list", "array", "tensor", "pinned", "device"]
"""How ids reach the subject: a list, a NumPy array, or a torch tensor in pageable
memory, in pinned memory (pageable where there is no GPU) or on the layout's device."""

ID_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
REFUSED_DTYPES = ("bool", "float16", "float32", "float64")
MAX_IDS = 2**24
MAX_BUFFER_EL = 2**27
"""Elements of the buffer that a call's ids stand in: 1 GiB of int64."""
MAX_MISALIGNMENT_BYTES = 511


@dataclass(frozen=True, slots=True)
class IdRun:
    """`count` block ids from `start`, `step` apart; step 0 repeats one id."""

    start: int
    count: int = 1
    step: int = 1


@dataclass(frozen=True)
class Call:
    """One call of the zeroer.

    Attributes:
        ids: The block list, run-length encoded, in order.
        arrival: How the ids reach the subject.
        dtype: Element type of an array or a tensor of ids; a list has Python ints
            (``"bool"`` and ``"float64"``: Python bools and floats).
        offset_el: Elements between the buffer's begin and the first id.
        step_el: Elements from one id to the next in the buffer.
    """

    ids: tuple[IdRun, ...]
    arrival: Arrival = "list"
    dtype: str = "int64"
    offset_el: int = 0
    step_el: int = 1

    @cached_property
    def num_ids(self) -> int:
        """Return the length of the block list."""
        return sum(run.count for run in self.ids)

    def expand(self) -> list[int]:
        """Return the block list as Python ints, of any size."""
        ids: list[int] = []
        for run in self.ids:
            if run.step:
                end = run.start + run.count * run.step
                ids.extend(range(run.start, end, run.step))
            else:
                ids.extend([run.start] * run.count)
        return ids

    def first_bad_id(self, num_blocks: int) -> tuple[int, int] | None:
        """Return position and value of the first id outside the cache, if any."""
        position = 0
        for run in self.ids:
            last = run.start + (run.count - 1) * run.step
            if run.count and not (
                0 <= run.start < num_blocks and 0 <= last < num_blocks
            ):
                for i in range(run.count):
                    value = run.start + i * run.step
                    if not 0 <= value < num_blocks:
                        return position + i, value
            position += run.count
        return None

    def must_be_refused(self, num_blocks: int) -> bool:
        """Return whether a zeroer that checks ids must raise on this call."""
        if self.dtype in REFUSED_DTYPES:
            return self.num_ids > 0
        return self.first_bad_id(num_blocks) is not None

    def blocks(self, num_blocks: int) -> Int64Array:
        """Return the distinct ids of the list that lie in the cache, sorted."""
        if len(self.ids) == 1:
            return _ids_in_range(self.ids[0], num_blocks)
        parts = [np.zeros(0, np.int64)]
        parts += [_ids_in_range(run, num_blocks) for run in self.ids]
        ids = np.concatenate(parts)
        ascends = ids[1:] > ids[:-1]
        if np.count_nonzero(ascends) == len(ascends):
            return ids
        # Not `np.unique`, which hashes: on long lists ten times slower than sorting.
        ids.sort()
        first = np.ones(len(ids), bool)
        np.not_equal(ids[1:], ids[:-1], out=first[1:])
        return ids[first]


def _ids_in_range(run: IdRun, num_blocks: int) -> Int64Array:
    """Return the ids of a run that lie in the cache, ascending.

    Python's ints pick them, because a run may lead far beyond int64 and back.
    """
    start, step, count = run.start, run.step, run.count
    if step < 0:
        start, step = start + (count - 1) * step, -step
    step = step or 1
    count = count if run.step else min(count, 1)
    first = max(0, -(start // step))
    last = min(count, -((start - num_blocks) // step))
    if last <= first:
        return np.zeros(0, np.int64)
    # More than one id in the cache: the step is less than the number of blocks.
    step, begin = min(step, num_blocks), start + first * step
    return begin + step * np.arange(last - first, dtype=np.int64)


def id_runs(ids: Iterable[int]) -> tuple[IdRun, ...]:
    """Return a block list as runs: equal steps of at least three ids become one run."""
    runs: list[IdRun] = []
    pending = list(ids)
    index = 0
    while index < len(pending):
        end = index + 1
        if end < len(pending):
            step = pending[end] - pending[index]
            while end < len(pending) and pending[end] - pending[end - 1] == step:
                end += 1
        if end - index >= 3:
            runs.append(IdRun(pending[index], end - index, step))
        else:
            end = index + 1
            runs.append(IdRun(pending[index]))
        index = end
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the allocations lie in memory.

    Attributes:
        base_bytes: Distance of the first allocation from the executor's arena, a
            multiple of 512 B.
        gap_bytes: Bytes between two allocations beyond the guards: few megabytes or
            terabytes apart. An executor on real memory shortens what does not fit.
        misalignments_bytes: Bytes past a 512-byte boundary at which each allocation
            begins, taken in turn.
        descending: Later allocations lie at lower addresses.
    """

    base_bytes: int = 0
    gap_bytes: int = 0
    misalignments_bytes: tuple[int, ...] = (0,)
    descending: bool = False


@dataclass(frozen=True)
class Case:
    """A layout with calls, a platform and a placement.

    Attributes:
        layout: The memory and its segments.
        calls: Calls of the zeroer, in order; memory carries over.
        platform: Target that kernels are compiled for where there is no GPU, such as
            ``"cuda:90"`` or ``"hip:gfx942"``.
        placement: Where the allocations lie.
        seed: Seed of the poison that the memory holds before the first call.
        padding_may_be_touched: Padding of a listed block's tile may be zeroed too.

    Raises:
        CaseError: It contradicts itself.
    """

    layout: Layout
    calls: tuple[Call, ...]
    platform: str = "cuda:90"
    placement: Placement = Placement()
    seed: int = 0
    padding_may_be_touched: bool = False

    def __post_init__(self) -> None:
        """Refuse calls that no engine could make."""
        for index, call in enumerate(self.calls):
            _check_call(f"calls[{index}]", call)
        _check_placement(self.placement)
        backend, _, arch = self.platform.partition(":")
        if backend not in ("cuda", "hip") or not arch:
            raise CaseError(
                f"platform={self.platform!r}, but must be cuda:CAPABILITY or hip:ARCH, "
                f"such as cuda:90 or hip:gfx942"
            )


def _check_call(name: str, call: Call) -> None:
    if call.num_ids > MAX_IDS or any(run.count < 0 for run in call.ids):
        raise CaseError(f"{name}.ids: {call.num_ids} ids, but must be 0 to {MAX_IDS}")
    if call.dtype not in (*ID_DTYPES, *REFUSED_DTYPES):
        known = ", ".join((*ID_DTYPES, *REFUSED_DTYPES))
        raise CaseError(f"{name}.dtype={call.dtype!r}, but must be one of {known}")
    if call.offset_el < 0 or call.step_el < 1:
        raise CaseError(
            f"{name}: offset_el={call.offset_el}, step_el={call.step_el}, but must be "
            f"at least 0 and 1"
        )
    buffer_el = call.offset_el + call.num_ids * call.step_el
    if buffer_el > MAX_BUFFER_EL:
        raise CaseError(
            f"{name}: its ids need a buffer of {buffer_el} elements, but must fit "
            f"{MAX_BUFFER_EL}"
        )
    if call.arrival != "list" and call.dtype in ID_DTYPES:
        _check_range(name, call)


def _check_range(name: str, call: Call) -> None:
    info = np.iinfo(call.dtype)
    for run in call.ids:
        for value in (run.start, run.start + (run.count - 1) * run.step):
            if run.count and not info.min <= value <= info.max:
                raise CaseError(
                    f"{name}.ids: {value}, but must fit its dtype {call.dtype}, "
                    f"{info.min} to {info.max}"
                )


def _check_placement(placement: Placement) -> None:
    bad = [
        m for m in placement.misalignments_bytes if not 0 <= m <= MAX_MISALIGNMENT_BYTES
    ]
    if bad or not placement.misalignments_bytes:
        raise CaseError(
            f"placement.misalignments_bytes={placement.misalignments_bytes}, but must "
            f"be at least one number from 0 to {MAX_MISALIGNMENT_BYTES}"
        )
    if (
        placement.base_bytes < 0
        or placement.base_bytes % 512
        or placement.gap_bytes < 0
    ):
        raise CaseError(
            f"placement: base_bytes={placement.base_bytes}, "
            f"gap_bytes={placement.gap_bytes}, but must be a multiple of 512 and at "
            f"least 0"
        )
