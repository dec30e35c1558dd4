"""The planner takes a tensor's page for the distance between its kernel blocks.

Right for dense tensors only: with padding, or other layers, between the blocks, every
block but the first is looked for too near.

Kind: known-faults A2 and C9. Source: public reports, vLLM pull request 50276 and issue
54877.
Breaks: `listed_pages_are_zero`.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import Reading, ViewTableZeroer


class ViewPageAsStrideZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def understood(self, reading: Reading) -> Reading:
        """Return a tensor whose kernel blocks seem to touch."""
        return reading._replace(step_bytes=reading.span_bytes)


FAULT = Fault(
    "view-page-as-stride",
    TRUSTS_IDS,
    ViewPageAsStrideZeroer,
    kind="page-as-stride",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
