"""An engine that plans its segments from KV tensors, over a kernel of upstream's shape.

The table is not given but planned, as servers do: the dimensions of each tensor are
told apart into those outside and inside a block, the kernel blocks of a block become
segments of their own, and of tensors that begin at one address the widest page counts.
What a planner can get wrong is a method, so that a faulty one differs in that alone.
Launches stay inside the limits, which are not what is looked at here.

Source: public descriptions of vLLM pull requests 50276 and 51718; written anew.
"""

from typing import NamedTuple

import numpy as np

from kvzero.layout import Int64Array, View
from kvzero.memory import Pool
from kvzero.pages import ELEMENT_BYTES
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.within_limits import WithinLimits
from kvzero.subjects.protocol import MadeSubject


class Reading(NamedTuple):
    """A KV tensor as a planner reads it, in bytes.

    Attributes:
        step_bytes: From one kernel block to the next.
        span_bytes: From the first to the last byte of one kernel block.
        outer: (size, stride) of each dimension outside the blocks.
        kernel_blocks: Kernel blocks of one block.
    """

    step_bytes: int
    span_bytes: int
    outer: tuple[tuple[int, int], ...]
    kernel_blocks: int


def read_view(view: View) -> Reading:
    """Return what a KV tensor says by its shape and strides."""
    item = ELEMENT_BYTES[view.dtype]
    block_step = view.strides[view.block_dim] * item
    wide = [
        (size, stride * item)
        for dim, (size, stride) in enumerate(zip(view.shape, view.strides))
        if dim != view.block_dim and size > 1
    ]
    if block_step <= 0:
        # One block, whose stride may be any number: nothing lies outside it.
        block_step = item + sum((size - 1) * step for size, step in wide)
    outer = tuple(side for side in wide if side[1] > block_step)
    span = item + sum((n - 1) * step for n, step in wide if step <= block_step)
    return Reading(block_step, span, outer, view.kernel_blocks_per_block)


class ViewTableZeroer(WithinLimits):
    """Upstream's shape over a table that is planned from the pool's KV tensors."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return addresses, block strides and pages of the planned segments."""
        bases = pool.base_addresses.tolist()
        views = self.recorded(pool.kv_views)
        readings = [self.understood(read_view(view)) for view in views]
        starts = [
            planned_starts(bases[view.allocation] + view.offset_bytes, reading)
            for view, reading in zip(views, readings)
        ]
        # Where there is one block its stride means nothing, but must hold the page.
        steps = [max(r.step_bytes * r.kernel_blocks, r.span_bytes) for r in readings]
        spans = [reading.span_bytes for reading in readings]
        counts = [len(each) for each in starts]
        addresses = np.concatenate([np.zeros(0, np.int64), *starts])
        strides, pages = (
            np.repeat(np.array(column, np.int64), counts) for column in (steps, spans)
        )
        kept = self.kept(addresses, pages)
        return addresses[kept], strides[kept], pages[kept]

    def recorded(self, views: tuple[View, ...]) -> tuple[View, ...]:
        """Return the KV tensors that the planner knows of, as it knows them."""
        return views

    def understood(self, reading: Reading) -> Reading:
        """Return what the planner makes of a tensor."""
        return reading

    def kept(self, addresses: Int64Array, pages: Int64Array) -> Int64Array:
        """Return which planned segments are kept: at each address, the widest page."""
        widest_first = np.lexsort((-pages, addresses))
        _, first = np.unique(addresses[widest_first], return_index=True)
        return np.sort(widest_first[first])


def planned_starts(address: int, reading: Reading) -> Int64Array:
    """Return the address of each segment of a tensor: outer dimensions, kernel blocks.

    Args:
        address: Where the tensor begins.
        reading: What it says.
    """
    starts = np.array([address], np.int64)
    for size, step in (*reading.outer, (reading.kernel_blocks, reading.step_bytes)):
        if size > 1:
            starts = np.add.outer(starts, np.arange(size) * step).ravel()
    return starts


VIEW_TABLE = MadeSubject("view-table", TRUSTS_IDS, ViewTableZeroer)
