"""Each grid dimension is kept legal by splitting, but their product is not looked at.

NVIDIA's launcher multiplies the dimensions in a signed 32-bit int and skips the launch,
with no error, unless the product is above 0.

Kind: known-faults B1. Source: Triton issue 7260; run on an H200 (design, section 7).
Breaks: `launches_fit_the_platform`.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class ProductSkippedZeroer(WithinLimits):
    """Every dimension is split, and the product may be anything."""

    max_programs = 2**63


FAULT = Fault(
    "product-skipped",
    TRUSTS_IDS,
    ProductSkippedZeroer,
    kind="grid-product-wraps",
    area="planner",
    breaks="launches_fit_the_platform",
    what="nvidia-product",
)
