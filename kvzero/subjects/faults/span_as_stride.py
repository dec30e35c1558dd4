"""The planner takes the distance between kernel blocks for the page.

What lies between the blocks, padding or other layers, is cleared with them, and the
last block reaches past the end of the tensor.

Kind: known-faults A1. Source: public reports, vLLM pull requests 50276 and 52709.
Breaks: `unlisted_bytes_are_untouched`.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import Reading, ViewTableZeroer


class SpanAsStrideZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def understood(self, reading: Reading) -> Reading:
        """Return a tensor whose kernel blocks seem to fill their distance."""
        return reading._replace(span_bytes=reading.step_bytes)


FAULT = Fault(
    "span-as-stride",
    TRUSTS_IDS,
    SpanAsStrideZeroer,
    kind="span-equals-stride",
    area="planner",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
