"""Each grid dimension is kept legal by splitting, but their product is not looked at.

NVIDIA's launcher multiplies the dimensions in a signed 32-bit int and skips the launch,
with no error, unless the product is above 0.

Kind: known-faults B1. Source: Triton issue 7260; run on an H200 (design, section 7).
"""

import torch

from kvzero.limits import CUDA_MAX_YZ
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.masked_3d import Masked3DZeroer, zero_masked_3d


class ProductSkippedZeroer(Masked3DZeroer):
    """Launches over (ids, at most 65,535 segments, chunks)."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel once for each part of the table that fits the y axis."""
        chunks, block_size, _ = self.meta
        for rows in self.table.split(CUDA_MAX_YZ):
            zero_masked_3d[len(ids), len(rows), chunks](rows.clone(), ids, block_size)


FAULT = Fault(
    "product-skipped",
    TRUSTS_IDS,
    ProductSkippedZeroer,
    kind="grid-product-wraps",
    breaks="launches_fit_the_platform",
    what="nvidia-product",
)
