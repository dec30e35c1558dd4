"""Duplicates are dropped as in a sorted list: whatever is not above the id before it.

In an unsorted list that loses blocks which come once.

Kind: unsorted ids assumed sorted. Source: a mutant; known-faults, section 7: public
tests use sorted ids only.
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class IdsAssumedSortedZeroer(WithinLimits):
    """The upstream shape on ids that rise."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on each id that is above the one before it."""
        rises = ids[1:] > ids[:-1]
        super().launch(torch.cat([ids[:1], ids[1:][rises]]))


FAULT = Fault(
    "ids-assumed-sorted",
    TRUSTS_IDS,
    IdsAssumedSortedZeroer,
    kind="ids-assumed-sorted",
    area="ids",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
