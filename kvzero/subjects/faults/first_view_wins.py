"""Of tensors that begin at one address the first is kept, not the widest.

Right while the first group's page is the widest; overlaid groups come in any order.

Kind: known-faults C4. Source: public reports, vLLM issue 55112 and DingoCache issue 46.
Breaks: `listed_pages_are_zero`.
"""

import numpy as np

from kvzero.layout import Int64Array
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import ViewTableZeroer


class FirstViewWinsZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def kept(self, addresses: Int64Array, pages: Int64Array) -> Int64Array:
        """Return which planned segments are kept: at each address, the first."""
        del pages
        _, first = np.unique(addresses, return_index=True)
        return np.sort(first)


FAULT = Fault(
    "first-view-wins",
    TRUSTS_IDS,
    FirstViewWinsZeroer,
    kind="first-view-at-an-address-wins",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
