"""The upstream shape on one grid axis, as before its grid became three-dimensional.

Source: public descriptions of vLLM issues 52058 and 50485; written anew.
"""

import torch
import triton
import triton.language as tl

from kvzero.subjects.element_table import segment_row
from kvzero.subjects.faults.within_limits import WithinLimits


@triton.jit(do_not_specialize=["n_segments", "n_chunks"])
def zero_flat_grid(table_ptr, ids_ptr, n_segments, n_chunks, BLOCK_SIZE: tl.constexpr):
    """Zero one chunk; the program id folds id, segment and chunk."""
    program = tl.program_id(0)
    address, stride_el, page_el = segment_row(
        table_ptr, program // n_chunks % n_segments
    )
    block = tl.load(ids_ptr + program // n_chunks // n_segments)
    first_el = (program % n_chunks).to(tl.int64) * BLOCK_SIZE
    lanes = first_el + tl.arange(0, BLOCK_SIZE)
    page_ptr = address.to(tl.pointer_type(tl.int32)) + block * stride_el
    tl.store(page_ptr + lanes, 0, mask=lanes < page_el)


class FlatGrid(WithinLimits):
    """Launches one axis, for as many ids at once as `max_programs` allows."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel over the product of ids, segments and chunks."""
        chunks, block_size, _ = self.meta
        segments = max(self.max_programs // chunks, 1)
        for rows in self.table.split(min(segments, self.num_segments)):
            of_one_id = len(rows) * chunks
            most = max(min(self.max_programs // of_one_id, len(ids)), 1)
            for part in ids.split(most):
                zero_flat_grid[len(part) * of_one_id,](
                    rows.clone(), part.clone(), len(rows), chunks, block_size
                )
