"""Of tensors that begin at one address the first is kept, not the widest.

Right while the first group's page is the widest; overlaid groups come in any order.

Kind: known-faults C4. Source: public reports, vLLM issue 55112 and DingoCache issue 46.
"""

from collections.abc import Iterable

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.view_table import Planned, ViewTableZeroer


class FirstViewWinsZeroer(ViewTableZeroer):
    """The view-table subject with the faulty step."""

    def merged(self, planned: Iterable[Planned]) -> list[Planned]:
        """Return one segment for each address: the first."""
        first: dict[int, Planned] = {}
        for segment in planned:
            first.setdefault(segment.address, segment)
        return list(first.values())


FAULT = Fault(
    "first-view-wins",
    TRUSTS_IDS,
    FirstViewWinsZeroer,
    kind="first-view-at-an-address-wins",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
