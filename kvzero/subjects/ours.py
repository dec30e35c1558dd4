"""kvzero's own zeroer as a subject, under the same test as everyone's."""

from kvzero.memory import Pool
from kvzero.subjects.protocol import Contract, MadeSubject
from kvzero.zeroer import KVBlockZeroer


def build(pool: Pool) -> KVBlockZeroer:
    """Return the zeroer over the segments of a pool."""
    table = pool.layout.table
    return KVBlockZeroer.from_segments(
        pool.segment_addresses,
        table.stride_bytes,
        table.page_bytes,
        pool.layout.num_blocks,
        pool.device,
    )


KVZERO = MadeSubject("kvzero", Contract(allows_capture=True), build)
