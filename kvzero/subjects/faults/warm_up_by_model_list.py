"""The warm-up knows a list of models, and compiles for their widest chunk alone.

Models with small pages compile another chunk width in their first request.

Kind: known-faults A18. Source: public reports, vLLM pull requests 49903 and 47546.
Breaks: `warm_calls_compile_nothing`.
"""

from kvzero.subjects.element_table import MAX_CHUNK_EL, TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.warmed_up import WarmedUp


class WarmUpByModelListZeroer(WarmedUp):
    """A warm-up for models that are on the list."""

    def warmup(self) -> None:
        """Warm up models with pages of a whole chunk."""
        if self.meta.block_size == MAX_CHUNK_EL:
            super().warmup()


FAULT = Fault(
    "warm-up-by-model-list",
    TRUSTS_IDS,
    WarmUpByModelListZeroer,
    kind="warm-up-by-model-list",
    area="cache",
    breaks="warm_calls_compile_nothing",
    what="compiled-in-a-call",
)
