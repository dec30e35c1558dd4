"""The warm-up zeroes block 0 for real, whether or not the cache has a block.

A warm-up must launch without writing: with an empty cache its stores lie outside.

Kind: known-faults A19. Source: vLLM's public test of the warm-up with few blocks.
Breaks: `unlisted_bytes_are_untouched`.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class WarmUpWritesZeroer(WithinLimits):
    """The upstream shape, warmed up by a real call."""

    def warmup(self) -> None:
        """Zero block 0."""
        self.zero([0])


FAULT = Fault(
    "warm-up-writes",
    TRUSTS_IDS,
    WarmUpWritesZeroer,
    kind="warm-up-writes-outside-an-empty-cache",
    area="cache",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
