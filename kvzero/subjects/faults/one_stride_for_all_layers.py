"""The block stride of the first layer is taken for that of all layers.

Kind: known-faults B13. Source: by reading, rtp-llm's clearing of incomplete blocks.
Breaks: `listed_pages_are_zero`.
"""

import numpy as np

from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class OneStrideZeroer(WithinLimits):
    """The upstream shape with one stride."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the segments, all with the stride of the first."""
        addresses, strides, pages = super().segments(pool)
        return addresses, np.resize(strides[:1], len(strides)), pages


FAULT = Fault(
    "one-stride-for-all-layers",
    TRUSTS_IDS,
    OneStrideZeroer,
    kind="one-stride-for-all-layers",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
