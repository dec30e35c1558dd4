"""The memory of a case: where each allocation lies, and what a subject gets of it.

`place` is plain arithmetic: guards around every allocation, at least one largest block
stride wide, then the case's own gaps, order and misalignments. A `Pool` is the result
with live tensors, which executors hand to `Subject.build`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvzero.case import Case
from kvzero.errors import CaseError
from kvzero.layout import Int64Array, Layout, View
from kvzero.plain_views import views_of_runs

if TYPE_CHECKING:
    import torch

ALIGNMENT_BYTES = 512
"""Boundary that an allocation would have on a device (CUDA gives at least 256 B)."""
MIN_GUARD_BYTES = 4096
MAX_SPREAD_BYTES = 2**62
"""Guards, gaps and base together; sizes add at most `MAX_TOTAL_BYTES`."""


class Addresses(NamedTuple):
    """Where a case's memory lies, from the begin of an arena.

    Attributes:
        base_bytes: Offset of each allocation, shape [allocations].
        guard_bytes: Width of the guard on either side of every allocation.
        total_bytes: Bytes of the arena, guards and gaps included.
    """

    base_bytes: Int64Array
    guard_bytes: int
    total_bytes: int


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple that is not below `value`."""
    return -(-value // multiple) * multiple


def place(case: Case, *, most_gap_bytes: int | None = None) -> Addresses:
    """Return where the allocations of a case lie in an arena.

    Args:
        case: The case.
        most_gap_bytes: Shorten `Placement.gap_bytes` so that all gaps together, and
            `Placement.base_bytes` so that it, are no longer, for executors on real
            memory.

    Raises:
        CaseError: The arena would leave the 64-bit address space.
    """
    layout, placement = case.layout, case.placement
    widest = int(layout.table.stride_bytes.max()) if len(layout.table) else 0
    guard = round_up(max(widest, MIN_GUARD_BYTES), ALIGNMENT_BYTES)
    gap, base = placement.gap_bytes, placement.base_bytes
    sizes = layout.allocation_sizes
    if most_gap_bytes is not None:
        gap = min(gap, most_gap_bytes // max(len(sizes), 1))
        base = min(base, most_gap_bytes)
    # Python's ints: the sum may leave int64.
    spread = base + len(sizes) * (2 * guard + gap + 2 * ALIGNMENT_BYTES)
    if spread > MAX_SPREAD_BYTES:
        raise CaseError(
            f"placement: {len(sizes)} allocations with guards of {guard} B and gaps of "
            f"{gap} B spread over {spread} B, but must fit {MAX_SPREAD_BYTES} B"
        )
    shifts = np.array(placement.misalignments_bytes, np.int64)
    shifts = shifts[np.arange(len(sizes)) % len(shifts)]
    slots = -(-(sizes + shifts) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    slots += 2 * guard + round_up(gap, ALIGNMENT_BYTES)
    if placement.descending:
        starts = np.cumsum(slots[::-1])[::-1] - slots
    else:
        starts = np.cumsum(slots) - slots
    start = round_up(base, ALIGNMENT_BYTES)
    total = start + int(slots.sum())
    return Addresses(start + guard + starts + shifts, guard, total)


@dataclass(frozen=True)
class Pool:
    """The live memory of one case.

    Attributes:
        layout: What lies where.
        tensors: One uint8 tensor an allocation, shape [size_bytes], one storage each or
            one shared.
        device: Their device; the CPU where there is no GPU.
    """

    layout: Layout
    tensors: tuple["torch.Tensor", ...]
    device: "torch.device"

    @cached_property
    def base_addresses(self) -> Int64Array:
        """Return the address of each allocation, shape [allocations]."""
        return np.array([t.data_ptr() for t in self.tensors], np.int64)

    @cached_property
    def segment_addresses(self) -> Int64Array:
        """Return the address of block 0 of each segment, shape [segments]."""
        table = self.layout.table
        return self.base_addresses[table.allocation] + table.offset_bytes

    @cached_property
    def views(self) -> tuple["torch.Tensor", ...]:
        """Return the live tensor of each of `Layout.views`, as `live_view` makes it."""
        return tuple(self.tensor_of(view) for view in self.layout.views)

    @cached_property
    def kv_views(self) -> tuple[View, ...]:
        """Return `Layout.views`, or plain views of the runs where there are none."""
        return self.layout.views or views_of_runs(self.layout)

    @cached_property
    def kv_tensors(self) -> tuple["torch.Tensor", ...]:
        """Return the live KV tensors of a server: one for each of `kv_views`.

        What no shape tells, a tensor's block dimension and its kernel blocks per block,
        its view says.
        """
        return tuple(self.tensor_of(view) for view in self.kv_views)

    def tensor_of(self, view: View) -> "torch.Tensor":
        """Return the live tensor of a view over this memory."""
        return live_view(self.tensors[view.allocation], view)


def live_view(memory: "torch.Tensor", view: View) -> "torch.Tensor":
    """Return a view of an allocation as a tensor that shares its memory.

    Where the memory lies at no multiple of the element size, no tensor of that type can
    exist: then the bytes of each element are one more dimension, the last, of uint8.

    Args:
        memory: The allocation, uint8, shape [size_bytes].
        view: A view of it; its allocation index is not looked at.
    """
    import torch

    dtype: torch.dtype = getattr(torch, view.dtype)
    item, at = dtype.itemsize, memory.storage_offset() + view.offset_bytes
    if at % item or (memory.data_ptr() + view.offset_bytes) % item:
        steps = *(stride * item for stride in view.strides), 1
        return memory.as_strided((*view.shape, item), steps, at)
    typed = torch.empty(0, dtype=dtype, device=memory.device)
    return typed.set_(memory.untyped_storage(), at // item, view.shape, view.strides)
