"""The block dimension is guessed: the first one that is as long as there are blocks.

With two blocks, the axis of K and V is as long.

Kind: known-faults C8. Source: public reports, vLLM issue 17362 and LMCache issue 4467.
Breaks: `listed_pages_are_zero`.
"""

from dataclasses import replace

from kvzero.layout import View
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import ViewTableZeroer


class AxisMisreadZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def recorded(self, views: tuple[View, ...]) -> tuple[View, ...]:
        """Return the tensors with the block dimension that their shape suggests."""
        return tuple(
            replace(view, block_dim=view.shape.index(view.shape[view.block_dim]))
            for view in views
        )


FAULT = Fault(
    "axis-misread",
    TRUSTS_IDS,
    AxisMisreadZeroer,
    kind="axis-misread",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
