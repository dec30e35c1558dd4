"""A layer whose cache is a tuple of tensors is not recorded, so its blocks stay dirty.

Recurrent layers keep several states in one allocation; the planner takes a layer to be
one tensor.

Kind: known-faults B3. Source: public reports, vLLM issues 56524 and 54004.
Breaks: `listed_pages_are_zero`.
"""

from collections import Counter

from kvzero.layout import View
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import ViewTableZeroer


class StateTupleSkippedZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def recorded(self, views: tuple[View, ...]) -> tuple[View, ...]:
        """Return the tensors that are alone in their layer's allocation."""
        tensors = Counter(view.allocation for view in views)
        return tuple(view for view in views if tensors[view.allocation] == 1)


FAULT = Fault(
    "state-tuple-skipped",
    TRUSTS_IDS,
    StateTupleSkippedZeroer,
    kind="recurrent-state-blocks-skipped",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
