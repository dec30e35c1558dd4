"""The sentinel -1 is sent to the last row, which the allocator also hands out.

Ids arrive on the device, so nobody can raise: a bad id must write nothing. Ids past the
end are dropped, as they should be.

Kind: known-faults C3. Source: public report, sglang issue 36885.
Breaks: `unlisted_bytes_are_untouched`.
"""

from dataclasses import replace

import torch

from kvzero.errors import BlockIdError
from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits


class SentinelZeroer(WithinLimits):
    """The upstream shape behind a mapping of ids."""

    def zero(self, block_ids: torch.Tensor) -> None:
        """Zero the pages of the given blocks, ids on the device.

        Raises:
            BlockIdError: They are no integers.
        """
        if block_ids.dtype.is_floating_point or block_ids.dtype == torch.bool:
            raise BlockIdError(f"block_ids.dtype={block_ids.dtype}, but must be ints")
        ids = torch.where(block_ids < 0, self.num_blocks - 1, block_ids)
        super().zero(ids[(ids >= 0) & (ids < self.num_blocks)])


FAULT = Fault(
    "sentinel-on-a-live-block",
    replace(
        TRUSTS_IDS, checks_ids=True, arrivals=("device",), id_dtypes=("int64", "int32")
    ),
    SentinelZeroer,
    kind="sentinel-mapped-to-a-live-block",
    area="ids",
    breaks="unlisted_bytes_are_untouched",
    what="unlisted-byte-stored",
)
