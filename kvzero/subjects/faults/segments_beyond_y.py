"""Segments stand on the grid's y axis, which ends at 65,535, and nobody splits them.

The ids are split so that no product wraps: the y axis is the only fault.

Kind: a grid dimension beyond the platform's. Source: public reports, vLLM issue 52381.
"""

import torch

from kvzero.limits import INT32_MAX
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.masked_3d import Masked3DZeroer, zero_masked_3d


class SegmentsBeyondYZeroer(Masked3DZeroer):
    """Launches over (some ids, all segments, chunks)."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel once for as many ids as keep the product below 2**31."""
        chunks, block_size, segments = self.meta
        for part in ids.split(max(INT32_MAX // (segments * chunks), 1)):
            zero_masked_3d[len(part), segments, chunks](
                self.table, part.clone(), block_size
            )


FAULT = Fault(
    "segments-beyond-y",
    TRUSTS_IDS,
    SegmentsBeyondYZeroer,
    kind="grid-y-exceeded",
    breaks="launches_fit_the_platform",
    what="cuda-y",
)
