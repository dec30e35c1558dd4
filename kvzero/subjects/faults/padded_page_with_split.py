"""Kernel blocks are counted as the padded block divided by a kernel block's page.

Right while the padding is smaller than a page. Blocks that are not split are not
counted, so a test with one kernel block a block proves nothing.

Kind: known-faults C9. Source: public reports, vLLM issues 54877 and 40899.
Breaks: `unlisted_bytes_are_untouched`.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import Reading, ViewTableZeroer


class PaddedPageWithSplitZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def understood(self, reading: Reading) -> Reading:
        """Return a tensor whose kernel blocks seem to touch, as many as fit."""
        if reading.kernel_blocks == 1:
            return reading
        block_bytes = reading.step_bytes * reading.kernel_blocks
        return reading._replace(
            step_bytes=reading.span_bytes,
            kernel_blocks=block_bytes // reading.span_bytes,
        )


FAULT = Fault(
    "padded-page-with-split",
    TRUSTS_IDS,
    PaddedPageWithSplitZeroer,
    kind="padded-page-with-split",
    area="planner",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
