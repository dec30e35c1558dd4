"""As many blocks as are new are taken from the front of the table, not from its end.

With one block of a cached prefix, the list begins one entry too early: the last new
block is missed (and a shared one lost, which the mapping to ids hides here).

Kind: known-faults C7. Source: public reports, vLLM pull requests 54878 and 35219.
Breaks: `listed_pages_are_zero`.
"""

import torch

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class PrefixTakenForNewZeroer(WithinLimits):
    """The upstream shape on the wrong interval."""

    def launch(self, ids: torch.Tensor) -> None:
        """Launch the kernel on the interval that begins too early."""
        super().launch(ids[:-1] if len(ids) > 1 else ids)


FAULT = Fault(
    "prefix-taken-for-new",
    TRUSTS_IDS,
    PrefixTakenForNewZeroer,
    kind="wrong-interval-after-prefix-hit",
    area="ids",
    breaks="listed_pages_are_zero",
    what="listed-byte-not-zero",
)
