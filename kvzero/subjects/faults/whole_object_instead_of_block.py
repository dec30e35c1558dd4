"""A flat tensor has no dimension that is recognised as its blocks, and is filled whole.

A dense segment, whose pages touch, passes for one flat object.

Kind: known-faults C6. Source: public reports, vLLM issues 57751 and 45080.
Breaks: `unlisted_bytes_are_untouched`.
"""

import numpy as np

from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class WholeObjectZeroer(WithinLimits):
    """The upstream shape, with objects for pages where blocks touch."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the segments; a flat object is one page that all blocks share."""
        addresses, strides, pages = super().segments(pool)
        flat = strides == pages
        return (
            addresses,
            np.where(flat, 0, strides),
            np.where(flat, pages * pool.layout.num_blocks, pages),
        )


FAULT = Fault(
    "whole-object-instead-of-block",
    TRUSTS_IDS,
    WholeObjectZeroer,
    kind="whole-object-instead-of-block",
    area="planner",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
