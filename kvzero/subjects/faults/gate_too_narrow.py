"""Zeroing is switched on for models with pages of several sizes only.

A plain model recycles blocks as well, and its stale bytes reach the next request.

Kind: known-faults A13. Source: public reports, vLLM issues 39283 and 39146.
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class GateTooNarrowZeroer(WithinLimits):
    """The upstream shape behind a gate."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel where pages differ."""
        if len(set(self.pages_el)) > 1:
            super().launch(ids)


FAULT = Fault(
    "gate-too-narrow",
    TRUSTS_IDS,
    GateTooNarrowZeroer,
    kind="gate-too-narrow",
    area="planner",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
