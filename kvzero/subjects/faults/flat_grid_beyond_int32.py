"""Ids, segments and chunks are folded on one grid axis, which passes 2**31 - 1.

The launcher cannot parse such a dimension and raises.

Kind: known-faults A4. Source: public reports, vLLM issues 52058 and 52062.
Breaks: `launches_fit_the_platform`, the row of the launcher's int.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.flat_grid import FlatGrid


class FlatBeyondInt32Zeroer(FlatGrid):
    """One axis, as long as it comes."""

    max_programs = 2**63


FAULT = Fault(
    "flat-grid-beyond-int32",
    TRUSTS_IDS,
    FlatBeyondInt32Zeroer,
    kind="flat-grid-exceeds-int32",
    area="planner",
    breaks="launches_fit_the_platform",
    what="launcher-int32",
)
