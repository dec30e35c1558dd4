"""The host half of the upstream family of kernels: a segment table and device ids.

These kernels count in int32 elements: one table of shape [segments, 3] holds each
segment's address in bytes and its block stride and page in elements. Whoever builds on
`ElementTableZeroer` only adds the launch, so subjects differ in their kernel alone.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import triton
import triton.language as tl

from kvzero.errors import SubjectError
from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.protocol import Contract

ELEMENT_BYTES = 4
MAX_CHUNK_EL = 1024
"""Widest chunk of one program in the upstream kernels, in elements."""

TRUSTS_IDS = Contract(
    alignment_bytes=ELEMENT_BYTES,
    arrivals=("list", "array", "tensor", "pinned"),
    checks_ids=False,
)


def power_of_two_divisor(value: int) -> int:
    """Return the largest power of two that divides `value`."""
    return value & -value


def next_power_of_two(value: int) -> int:
    """Return the smallest power of two that is not below `value`."""
    return 1 << max(value - 1, 0).bit_length()


@triton.jit
def segment_row(table_ptr, segment):
    """Return address in bytes, block stride and page in elements of a segment."""
    row_ptr = table_ptr + segment * 3
    return tl.load(row_ptr), tl.load(row_ptr + 1), tl.load(row_ptr + 2)


@dataclass
class ElementTableZeroer:
    """Tables of one pool, in elements; a subclass adds `launch`.

    Attributes:
        element_bytes: What the kernel stores at once.
        table: Device table, int64, shape [segments, 3]: address in bytes, block stride
            and page in elements.
        pages_el: Page of each segment, in elements, on the host.
    """

    element_bytes: ClassVar[int] = ELEMENT_BYTES
    table: torch.Tensor
    pages_el: list[int]
    num_blocks: int

    def __init__(self, pool: Pool) -> None:
        """Build the table.

        Raises:
            SubjectError: An address, stride or page is no multiple of an element.
        """
        columns = self.segments(pool)
        element = self.element_bytes
        if any((column % element).any() for column in columns):
            raise SubjectError(
                f"addresses, strides and pages must be multiples of {element} B: the "
                f"kernel stores int{8 * element}"
            )
        stride_el, page_el = (column // element for column in columns[1:])
        table = np.stack([columns[0], stride_el, page_el], axis=1)
        self.table = torch.from_numpy(table).to(pool.device)
        self.pages_el = page_el.tolist()
        self.num_blocks = pool.layout.num_blocks

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return addresses, block strides and pages of all segments, in bytes."""
        table = pool.layout.table
        return pool.segment_addresses, table.stride_bytes, table.page_bytes

    @property
    def num_segments(self) -> int:
        """Return the number of segments."""
        return len(self.pages_el)

    @property
    def widest_el(self) -> int:
        """Return the widest page, in elements."""
        return max(self.pages_el, default=0)

    def zero(self, block_ids: Any) -> None:  # Any: whatever the call's ids are
        """Zero the pages of the given blocks, with one kernel launch."""
        if len(block_ids) and self.num_segments:
            self.launch(self.uploaded(block_ids))

    def uploaded(self, block_ids: Any) -> torch.Tensor:  # Any: as for `zero`
        """Return ids of the host on the device, without waiting for the copy."""
        return self.staged(block_ids).to(self.table.device, non_blocking=True)

    def staged(self, block_ids: Any) -> torch.Tensor:  # Any: as for `zero`
        """Return ids of the host, int64, in fresh memory, pinned where there is a GPU.

        As upstream stages them; nobody changes them before the copy is done.
        """
        is_pinned = self.table.is_cuda
        if isinstance(block_ids, list):
            return torch.tensor(block_ids, dtype=torch.int64, pin_memory=is_pinned)
        size = len(block_ids)
        ids = torch.empty(size, dtype=torch.int64, pin_memory=is_pinned)
        return ids.copy_(torch.as_tensor(block_ids))

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on device ids, int64, shape [n], n > 0."""
        raise NotImplementedError
