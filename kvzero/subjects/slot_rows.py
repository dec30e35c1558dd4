"""The kind of zeroer whose ids name slots: rows of 8-byte words, one row a token.

Engines that page by tokens keep K and V of every layer in tensors of their own, and
move rows of 64-bit words by lists of slots. A block is here a run of slots: the host
turns block ids into slot ids, and each program zeroes a piece of one slot's row in one
tensor. Launches stay inside the limits, which are not what is looked at here.

Source: public descriptions of SGLang's token pools; written anew.
"""

from typing import Any, ClassVar

import torch
import triton
import triton.language as tl

from kvzero.memory import Pool
from kvzero.subjects.element_table import (
    MAX_CHUNK_EL,
    next_power_of_two,
    power_of_two_divisor,
    segment_row,
)
from kvzero.subjects.faults.within_limits import WithinLimits
from kvzero.subjects.masked_3d import Meta
from kvzero.subjects.protocol import Contract, MadeSubject

WORD_BYTES = 8
MAX_SLOTS = 4
"""Most slots of a block: each is a program of its own, whatever its row's size."""


@triton.jit(do_not_specialize=["first_piece", "slots_per_block"])
def zero_slot_row(
    table_ptr, slots_ptr, first_piece, slots_per_block, WORDS: tl.constexpr
):
    """Zero one piece of one slot's row in one tensor."""
    address, stride, page = segment_row(table_ptr, tl.program_id(1))
    slot = tl.load(slots_ptr + tl.program_id(0))
    row_words = page // slots_per_block
    row = slot // slots_per_block * stride + slot % slots_per_block * row_words
    words = (first_piece + tl.program_id(2)).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    row_ptr = address.to(tl.pointer_type(tl.int64)) + row
    tl.store(row_ptr + words, 0, mask=words < row_words)


class SlotRowsZeroer(WithinLimits):
    """Launches over slots, tensors and pieces of a row.

    Attributes:
        slots_per_block: Slots of one block, the same in every tensor.
    """

    element_bytes: ClassVar[int] = WORD_BYTES
    kernel: Any = zero_slot_row  # Any: Triton ships no types
    slots_per_block: int

    def __init__(self, pool: Pool) -> None:
        """Build the table, and divide blocks into slots."""
        super().__init__(pool)
        divisors = [power_of_two_divisor(page) for page in self.pages_el]
        self.slots_per_block = min([*divisors, MAX_SLOTS])
        widest_row = self.widest_el // self.slots_per_block
        words = min(next_power_of_two(widest_row), MAX_CHUNK_EL)
        self.meta = Meta(-(-widest_row // words), words, self.num_segments)

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on the slots of some blocks."""
        inside = torch.arange(self.slots_per_block, device=ids.device)
        slots = ids[:, None] * self.slots_per_block + inside
        super().launch(slots.reshape(-1))

    def run(
        self, grid: tuple[int, ...], rows: torch.Tensor, ids: torch.Tensor, first: int
    ) -> None:
        """Launch the kernel once."""
        block_size = self.meta.block_size
        self.kernel[grid](rows, ids, first, self.slots_per_block, block_size)


SLOT_ROWS = MadeSubject(
    "slot-rows",
    Contract(
        alignment_bytes=WORD_BYTES,
        arrivals=("list", "array", "tensor", "pinned"),
        checks_ids=False,
    ),
    SlotRowsZeroer,
)
