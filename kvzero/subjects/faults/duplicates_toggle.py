"""Pending blocks are a bit map that each id flips, so an id that comes twice is lost.

Kind: known-faults D, duplicates toggle. Source: a mutant; duplicates are legal because
groups share ids (public report, vLLM issue 52187).
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class DuplicatesToggleZeroer(WithinLimits):
    """The upstream shape on ids that came an odd number of times."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on the bits that are set in the end."""
        distinct, counts = ids.unique(return_counts=True)
        pending = distinct[counts % 2 == 1]
        if len(pending):
            super().launch(pending)


FAULT = Fault(
    "duplicates-toggle",
    TRUSTS_IDS,
    DuplicatesToggleZeroer,
    kind="duplicates-toggle",
    area="ids",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
