"""The planner takes the address of a tensor's storage for that of its first element.

Right for tensors that begin where their allocation does.

Kind: known-faults D, base drops view offset. Source: the packed layer views of the
public report in vLLM pull request 50276.
Breaks: `listed_pages_are_zero`.
"""

from dataclasses import replace

from kvzero.layout import View
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import ViewTableZeroer


class BaseDropsViewOffsetZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def recorded(self, views: tuple[View, ...]) -> tuple[View, ...]:
        """Return the tensors as if each began its storage."""
        return tuple(replace(view, offset_bytes=0) for view in views)


FAULT = Fault(
    "base-drops-view-offset",
    TRUSTS_IDS,
    BaseDropsViewOffsetZeroer,
    kind="base-drops-view-offset",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
