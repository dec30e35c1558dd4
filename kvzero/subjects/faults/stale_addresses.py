"""The table holds addresses of a profiling run, when allocations lay in one piece.

The pool was allocated again since, each allocation where it found room; the first is
where it was.

Kind: known-faults C12. Source: public reports, vLLM issues 53774 and 53508.
Breaks: `listed_pages_are_zero`.
"""

import numpy as np

from kvzero.layout import Int64Array
from kvzero.memory import ALIGNMENT_BYTES, Pool
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class StaleAddressesZeroer(WithinLimits):
    """The upstream shape over addresses of another time."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the segments where they lay in one piece of memory."""
        _, strides, pages = super().segments(pool)
        sizes = pool.layout.allocation_sizes
        slots = -(-sizes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        bases = pool.base_addresses[:1] + np.cumsum(slots) - slots
        table = pool.layout.table
        return bases[table.allocation] + table.offset_bytes, strides, pages


FAULT = Fault(
    "stale-addresses",
    TRUSTS_IDS,
    StaleAddressesZeroer,
    kind="stale-raw-pointers",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
