"""A flat grid is kept below CUDA's limit, beyond which HIP's is forgotten.

HIP counts work items, not programs: with 4 warps of 64 lanes it takes 16,777,215
programs on one axis.

Kind: known-faults A5. Source: public report, vLLM issue 50485.
Breaks: `launches_fit_the_platform`, the row of HIP's work items.
"""

from kvzero.limits import INT32_MAX
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.flat_grid import FlatGrid


class FlatBeyondHipZeroer(FlatGrid):
    """One axis, cut where CUDA's ends."""

    max_programs = INT32_MAX


FAULT = Fault(
    "flat-grid-beyond-hip",
    TRUSTS_IDS,
    FlatBeyondHipZeroer,
    kind="flat-grid-exceeds-hip-work-items",
    area="planner",
    breaks="launches_fit_the_platform",
    what="hip-work-items",
)
