"""Addresses, strides and pages are divided by the store unit; remainders are lost.

The contract allows multiples of 2 B, and the kernel stores 4 B.

Kind: known-faults D, unit truncation. Source: public review of the truncating division
in local-inference-lab/vllm pull request 525.
Breaks: `listed_pages_are_zero`.
"""

from dataclasses import replace

from kvzero.layout import Int64Array
from kvzero.memory import Pool
from kvzero.subjects.element_table import ELEMENT_BYTES, TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class UnitTruncationZeroer(WithinLimits):
    """The upstream shape over truncated columns."""

    def segments(self, pool: Pool) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the columns in whole units."""
        addresses, strides, pages = super().segments(pool)
        return (
            addresses // ELEMENT_BYTES * ELEMENT_BYTES,
            strides // ELEMENT_BYTES * ELEMENT_BYTES,
            pages // ELEMENT_BYTES * ELEMENT_BYTES,
        )


FAULT = Fault(
    "unit-truncation",
    replace(TRUSTS_IDS, alignment_bytes=2),
    UnitTruncationZeroer,
    kind="unit-truncation",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
