"""The warm-up dry-runs the model with no block to zero, so it never reaches the kernel.

The first request compiles it, and with tensor parallelism may hang on that.

Kind: known-faults A17. Source: public reports, vLLM issues 43009, 45198 and 49349.
Breaks: `warm_calls_compile_nothing`.
"""

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class NeverWarmedZeroer(WithinLimits):
    """The upstream shape with an idle warm-up."""

    def warmup(self) -> None:
        """Run a step without new blocks."""
        self.zero([])


FAULT = Fault(
    "never-warmed",
    TRUSTS_IDS,
    NeverWarmedZeroer,
    kind="never-warmed",
    area="cache",
    breaks="warm_calls_compile_nothing",
    what="compiled-in-a-call",
)
