"""Segments stand on the grid's y axis, which ends at 65,535, and nobody splits them.

The ids are split so that no product wraps: the y axis is the only fault.

Kind: a grid dimension beyond the platform's. Source: public reports, vLLM issue 52381.
Breaks: `launches_fit_the_platform`.
"""

from kvzero.limits import INT32_MAX
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class SegmentsBeyondYZeroer(WithinLimits):
    """Everything is split but the segments."""

    max_segments = INT32_MAX


FAULT = Fault(
    "segments-beyond-y",
    TRUSTS_IDS,
    SegmentsBeyondYZeroer,
    kind="grid-y-exceeded",
    area="planner",
    breaks="launches_fit_the_platform",
    what="cuda-y",
)
