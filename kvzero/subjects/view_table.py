"""An engine that plans its segments from KV tensors, over the upstream kernel.

The table is not given but planned, as servers do: each tensor's dimensions are told
apart into those outside and inside a block, several kernel blocks of a block become
segments of their own, and of tensors that begin at one address the widest page counts.
Each step is a method of its own, so a faulty planner differs in one of them.

Source: public descriptions of vLLM pull requests 50276 and 51718; written anew.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from kvzero.layout import Int64Array, View
from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.masked_3d import Masked3DZeroer
from kvzero.subjects.protocol import MadeSubject


class Planned(NamedTuple):
    """One planned segment: address of block 0, bytes to the next block, page."""

    address: int
    stride_bytes: int
    page_bytes: int


class Dimensions(NamedTuple):
    """A KV tensor in bytes, its dimensions told apart.

    Attributes:
        address: Where it begins.
        step_bytes: From one kernel block to the next.
        span_bytes: From the first to the last byte of one kernel block.
        outer: (size, stride in bytes) of each dimension outside the blocks.
        kernel_blocks: Kernel blocks of one block.
    """

    address: int
    step_bytes: int
    span_bytes: int
    outer: tuple[tuple[int, int], ...]
    kernel_blocks: int


def read_dimensions(address: int, item_bytes: int, view: View) -> Dimensions:
    """Return the dimensions of a live tensor.

    Args:
        address: Its address.
        item_bytes: Bytes of one of its elements.
        view: Its shape and strides, and which dimension counts blocks.
    """
    sides = [
        (size, stride * item_bytes)
        for dim, (size, stride) in enumerate(zip(view.shape, view.strides))
        if dim != view.block_dim and size > 1
    ]
    blocks = view.shape[view.block_dim]
    step = view.strides[view.block_dim] * item_bytes
    if blocks == 1:
        # The only block: its stride may be any number, and nothing lies outside it.
        step = item_bytes + sum((size - 1) * stride for size, stride in sides)
    outer = tuple(side for side in sides if side[1] > step)
    span = item_bytes + sum((n - 1) * s for n, s in sides if s <= step)
    return Dimensions(address, step, span, outer, view.kernel_blocks_per_block)


class ViewTableZeroer(Masked3DZeroer):
    """The upstream kernel over a table that is planned from the pool's KV tensors."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return addresses, block strides and pages of the planned segments."""
        planned = [
            segment
            for view in pool.kv_views
            for segment in self.plan(
                read_dimensions(*self.address_and_item(pool, view), view)
            )
        ]
        rows = np.array(self.merged(planned), np.int64).reshape(-1, 3)
        return rows[:, 0], rows[:, 1], rows[:, 2]
