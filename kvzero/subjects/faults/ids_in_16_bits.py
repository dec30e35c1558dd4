"""Ids are kept in 16 bits, as in tables of small pools; from 32,768 on they wrap.

Kind: known-faults D, id type truncated; C1 for ids. Source: public reports of narrow
block arithmetic, vLLM issue 1486.
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class IdsIn16BitsZeroer(WithinLimits):
    """The upstream shape on narrow ids."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on what 16 bits leave of the ids."""
        super().launch(ids.to(torch.int16).long())


FAULT = Fault(
    "ids-in-16-bits",
    TRUSTS_IDS,
    IdsIn16BitsZeroer,
    kind="ids-kept-in-16-bits",
    area="ids",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
