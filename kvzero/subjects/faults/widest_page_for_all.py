"""Every segment is cleared up to the largest page, over whatever follows a small one.

Kind: known-faults D, mask by max page. Source: the two cache kinds of the public report
in vLLM issue 49696.
Breaks: `unlisted_bytes_are_untouched`.
"""

import numpy as np

from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class WidestPageZeroer(WithinLimits):
    """The upstream shape with one page."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the segments, all with the largest page."""
        addresses, strides, pages = super().segments(pool)
        return addresses, strides, np.full_like(pages, pages.max(initial=0))


FAULT = Fault(
    "widest-page-for-all",
    TRUSTS_IDS,
    WidestPageZeroer,
    kind="mask-by-max-page",
    area="planner",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
