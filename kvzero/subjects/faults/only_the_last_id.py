"""Only the last of the new blocks is cleared, as if a step could fill one block.

A prefill takes several at once; all but the last stay dirty.

Kind: known-faults B12. Source: by reading, alibaba/rtp-llm pull request 587.
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class OnlyTheLastIdZeroer(WithinLimits):
    """The upstream shape on one block."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on the last id."""
        super().launch(ids[-1:])


FAULT = Fault(
    "only-the-last-id",
    TRUSTS_IDS,
    OnlyTheLastIdZeroer,
    kind="new-block-heuristic-misses-prefill",
    area="ids",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
