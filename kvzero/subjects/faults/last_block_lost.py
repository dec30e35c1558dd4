"""A bound check is off by one, so the last block of the cache is never zeroed.

Kind: a mutant of the bound check. Source: the request for a test of the last block in
the public review of vLLM pull request 50276.
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class LastBlockLostZeroer(WithinLimits):
    """Drops ids that it takes to be outside the cache."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on the ids that the check lets through."""
        kept = ids[ids < self.num_blocks - 1]
        if len(kept):
            super().launch(kept)


FAULT = Fault(
    "last-block-lost",
    TRUSTS_IDS,
    LastBlockLostZeroer,
    kind="last-block-lost",
    area="ids",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
