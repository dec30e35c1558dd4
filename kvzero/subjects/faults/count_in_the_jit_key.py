"""The number of ids is an integer argument of the kernel, so in its compile key.

Triton compiles one variant for 1, one for multiples of 16 and one for the rest, each in
the first call that has such a number.

Kind: known-faults A16. Source: public reports, vLLM pull requests 47546 and 49903.
Breaks: `warm_calls_compile_nothing`.
"""

import torch
import triton
import triton.language as tl

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits, zero_chunk


@triton.jit(do_not_specialize=["first_chunk"])
def zero_count_in_the_jit_key(
    table_ptr, ids_ptr, n_ids, first_chunk, BLOCK_SIZE: tl.constexpr
):
    """Zero one chunk of one page, if the program stands for an id."""
    if tl.program_id(0) < n_ids:
        zero_chunk(table_ptr, ids_ptr, first_chunk, BLOCK_SIZE)


class CountInTheJitKeyZeroer(WithinLimits):
    """The upstream shape with one argument more."""

    def run(
        self, grid: tuple[int, ...], rows: torch.Tensor, ids: torch.Tensor, first: int
    ) -> None:
        """Launch the kernel with the number of ids."""
        zero_count_in_the_jit_key[grid](
            rows, ids, len(ids), first, self.meta.block_size
        )


FAULT = Fault(
    "count-in-the-jit-key",
    TRUSTS_IDS,
    CountInTheJitKeyZeroer,
    kind="geometry-in-the-jit-key",
    area="kernel",
    breaks="warm_calls_compile_nothing",
    what="compiled-in-a-call",
)
