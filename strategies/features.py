"""What is special about a case, by name.

One table of names and predicates: tests see to it that `cases` reaches each of them,
campaigns report which ones they have met, and a corpus keeps one case of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np

from kvzero.case import REFUSED_DTYPES, Arrival, Call, Case
from kvzero.layout import SegmentTable
from kvzero.limits import CUDA_MAX_YZ, Grid, LaunchShape, broken_limits
from kvzero.memory import ALIGNMENT_BYTES
from kvzero.strategies.reaches import CHUNK_BYTES

NEAR_BYTES = 16
"""What is near a power of two or a chunk boundary: one vector store."""
MANY = 1000
FAR_BYTES = 2**32


@dataclass(frozen=True)
class Facts:
    """What the features are told from; computed once a case."""

    case: Case

    @cached_property
    def table(self) -> SegmentTable:
        """Return the segments."""
        return self.case.layout.table

    @cached_property
    def pages(self) -> list[int]:
        """Return the distinct page sizes, smallest first."""
        pages: list[int] = np.unique(self.table.page_bytes).tolist()
        return pages

    @cached_property
    def strides(self) -> list[int]:
        """Return the distinct block strides, smallest first."""
        strides: list[int] = np.unique(self.table.stride_bytes).tolist()
        return strides

    @property
    def num_blocks(self) -> int:
        """Return the blocks of the cache."""
        return self.case.layout.num_blocks

    @cached_property
    def good_calls(self) -> list[Call]:
        """Return the calls that a zeroer must accept."""
        calls = self.case.calls
        return [c for c in calls if not c.must_be_refused(self.num_blocks)]

    @cached_property
    def bad_ids(self) -> list[int]:
        """Return the first id of each call that must be refused for it."""
        found = (call.first_bad_id(self.num_blocks) for call in self.case.calls)
        return [bad[1] for bad in found if bad is not None]

    @cached_property
    def id_runs(self) -> list[tuple[int, int, int]]:
        """Return the runs of the accepted calls: first id, last id, count."""
        return [
            (run.start, run.start + (run.count - 1) * run.step, run.count)
            for call in self.good_calls
            for run in call.ids
            if run.count
        ]

    @cached_property
    def offset_bytes(self) -> int:
        """Return how far from block 0 the farthest listed block lies."""
        ends = (end for first, last, _ in self.id_runs for end in (first, last))
        return max(ends, default=0) * max(self.strides, default=0)

    @cached_property
    def grid(self) -> Grid:
        """Return ids, segments and chunks of the largest call."""
        ids = max((call.num_ids for call in self.good_calls), default=0)
        return ids, len(self.table), -(-max(self.pages, default=0) // CHUNK_BYTES)

    @property
    def product(self) -> int:
        """Return the programs of a launch with that grid."""
        x, y, z = self.grid
        return x * y * z

    @property
    def flat(self) -> int:
        """Return the programs of a launch that counts words on one axis."""
        return self.grid[0] * self.grid[1] * -(-max(self.pages, default=0) // 4)

    @cached_property
    def limits(self) -> set[str]:
        """Return the rows of the limits that such a launch breaks."""
        return {limit.name for limit in broken_limits(LaunchShape(self.grid))}

    @cached_property
    def flat_limits(self) -> set[str]:
        """Return the rows that the launch on one axis breaks."""
        shape = LaunchShape((self.flat, 1, 1))
        return {limit.name for limit in broken_limits(shape)}

    @cached_property
    def gaps(self) -> set[int]:
        """Return signs of the gaps between neighbouring pages of block 0."""
        order = np.lexsort((self.table.offset_bytes, self.table.allocation))
        begin = self.table.offset_bytes[order]
        end = begin + self.table.page_bytes[order]
        together = np.diff(self.table.allocation[order]) == 0
        return set(np.unique(np.sign(begin[1:] - end[:-1])[together]).tolist())

    @cached_property
    def shared_addresses(self) -> bool:
        """Return whether runs begin at one address."""
        runs = self.case.layout.runs
        return len({(r.allocation, r.offset_bytes) for r in runs}) < len(runs)


def near_power(value: int) -> bool:
    """Return whether a size lies around a power of two, well above one."""
    power = 1 << (value.bit_length() - 1)
    distance = min(value - power, 2 * power - value)
    return value > 4 * NEAR_BYTES and distance <= NEAR_BYTES


def near_chunk_boundary(value: int) -> bool:
    """Return whether a size lies around a multiple of the chunk."""
    distance = min(value % CHUNK_BYTES, -value % CHUNK_BYTES)
    return value > CHUNK_BYTES // 2 and distance <= NEAR_BYTES


Feature = Callable[[Facts], bool]


def _repeats(facts: Facts) -> bool:
    calls = facts.good_calls
    if any(run.step == 0 and run.count > 1 for call in calls for run in call.ids):
        return True
    several = (call for call in calls if len(call.ids) > 1)
    return any(len(call.blocks(facts.num_blocks)) < call.num_ids for call in several)


def _falls(facts: Facts) -> bool:
    for call in facts.good_calls:
        if any(run.step < 0 and run.count > 1 for run in call.ids):
            return True
        starts = [run.start for run in call.ids if run.count]
        if starts != sorted(starts):
            return True
    return False


def _arrives(arrival: str) -> Feature:
    return lambda facts: any(call.arrival == arrival for call in facts.case.calls)


LAYOUT_FEATURES: dict[str, Feature] = {
    "page of one byte": lambda f: 1 in f.pages,
    "odd page": lambda f: any(p % 2 for p in f.pages if p > 1),
    "page not a multiple of 4": lambda f: any(p % 4 for p in f.pages),
    "page not a multiple of 16": lambda f: any(p % 16 for p in f.pages),
    "page around a power of two": lambda f: any(map(near_power, f.pages)),
    "page around a chunk boundary": lambda f: any(map(near_chunk_boundary, f.pages)),
    "page of several chunks": lambda f: f.grid[2] > 1,
    "tiny page beside a huge one": lambda f: (
        len(f.pages) > 1 and f.pages[-1] >= MANY * f.pages[0]
    ),
    "pages of several sizes": lambda f: len(f.pages) > 1,
    "pages touch": lambda f: 0 in f.gaps,
    "pages lie apart": lambda f: 1 in f.gaps,
    "pages overlap inside a block": lambda f: -1 in f.gaps,
    "runs share an address": lambda f: f.shared_addresses,
    "widest page per address": lambda f: f.case.layout.widest_per_address,
    "interleaved runs": lambda f: any(r.interleaved for r in f.case.layout.runs),
    "one segment": lambda f: f.grid[1] == 1,
    "no segment": lambda f: f.grid[1] == 0,
    "several runs": lambda f: len(f.case.layout.runs) > 1,
    "many segments in one run": lambda f: any(
        r.segments >= MANY for r in f.case.layout.runs
    ),
    "segments beyond a grid dimension": lambda f: f.grid[1] > CUDA_MAX_YZ,
    "segments in falling order": lambda f: any(
        a.step_bytes < 0 for r in f.case.layout.runs for a in r.axes
    ),
    "planes or layers of segments": lambda f: any(
        len(r.axes) > 1 for r in f.case.layout.runs
    ),
    "stride equals page": lambda f: bool(
        (f.table.stride_bytes == f.table.page_bytes).any()
    ),
    "stride beyond page": lambda f: bool(
        (f.table.stride_bytes > f.table.page_bytes).any()
    ),
    "stride beyond 2**31 bytes": lambda f: max(f.strides, default=0) >= 2**31,
    "stride beyond 2**32 bytes": lambda f: max(f.strides, default=0) >= 2**32,
    "strides of several sizes": lambda f: len(f.strides) > 1,
    "segment at an odd offset": lambda f: bool((f.table.offset_bytes % 2).any()),
    "several allocations": lambda f: f.case.layout.num_allocations > 1,
    "views": lambda f: bool(f.case.layout.views),
    "kernel blocks": lambda f: any(
        r.axes and r.axes[-1].count * r.axes[-1].step_bytes == r.stride_bytes
        for r in f.case.layout.runs
    ),
    "tiles": lambda f: bool(f.case.layout.tiles),
    "padding may be touched": lambda f: (
        f.case.padding_may_be_touched and bool(f.case.layout.tiles)
    ),
    "no block": lambda f: f.num_blocks == 0,
    "one block": lambda f: f.num_blocks == 1,
    "15 to 17 blocks": lambda f: 15 <= f.num_blocks <= 17,
    "blocks beyond 2**16": lambda f: f.num_blocks > 2**16,
    "blocks beyond 2**31": lambda f: f.num_blocks > 2**31,
}

CALL_FEATURES: dict[str, Feature] = {
    "several calls": lambda f: len(f.case.calls) > 1,
    "empty list": lambda f: any(not call.num_ids for call in f.case.calls),
    "one id": lambda f: any(call.num_ids == 1 for call in f.good_calls),
    "two ids": lambda f: any(call.num_ids == 2 for call in f.good_calls),
    "15 ids": lambda f: any(call.num_ids == 15 for call in f.good_calls),
    "16 ids": lambda f: any(call.num_ids == 16 for call in f.good_calls),
    "17 ids": lambda f: any(call.num_ids == 17 for call in f.good_calls),
    "ids beyond a grid dimension": lambda f: f.grid[0] > CUDA_MAX_YZ,
    "duplicate ids": _repeats,
    "unsorted ids": _falls,
    "first id": lambda f: any(0 in run[:2] for run in f.id_runs),
    "last id": lambda f: any(f.num_blocks - 1 in run[:2] for run in f.id_runs),
    "block offset beyond 2**31 bytes": lambda f: f.offset_bytes >= 2**31,
    "block offset beyond 2**32 bytes": lambda f: f.offset_bytes >= 2**32,
    "block offset beyond 2**31 words": lambda f: f.offset_bytes // 4 >= 2**31,
    "negative id": lambda f: any(bad < 0 for bad in f.bad_ids),
    "id equal to the number of blocks": lambda f: f.num_blocks in f.bad_ids,
    "id beyond the cache": lambda f: any(bad > f.num_blocks for bad in f.bad_ids),
    "id that 32 bits take for a valid one": lambda f: any(
        bad >= 2**32 and bad % 2**32 < f.num_blocks for bad in f.bad_ids
    ),
    "id beyond int64": lambda f: any(not -(2**63) <= b < 2**63 for b in f.bad_ids),
    "ids that are no integers": lambda f: any(
        call.dtype in REFUSED_DTYPES and call.num_ids for call in f.case.calls
    ),
    "bool ids": lambda f: any(call.dtype == "bool" for call in f.case.calls),
    "float ids": lambda f: any(call.dtype.startswith("float") for call in f.case.calls),
    "signed ids of 32 bits or less": lambda f: any(
        call.dtype in ("int8", "int16", "int32") for call in f.case.calls
    ),
    "unsigned ids": lambda f: any(c.dtype.startswith("uint") for c in f.case.calls),
    "ids inside a buffer": lambda f: any(call.offset_el for call in f.case.calls),
    "ids apart in a buffer": lambda f: any(call.step_el > 1 for call in f.case.calls),
    **{f"ids arrive by {arrival}": _arrives(arrival) for arrival in get_args(Arrival)},
}

LAUNCH_FEATURES: dict[str, Feature] = {
    "chunks beyond a grid dimension": lambda f: "cuda-z" in f.limits,
    "programs around 2**31": lambda f: 2**30 <= f.product <= 2**32,
    "programs wrap to nothing": lambda f: "nvidia-product" in f.limits,
    "programs on one axis beyond HIP": lambda f: "hip-work-items" in f.flat_limits,
    "programs on one axis beyond CUDA": lambda f: "cuda-x" in f.flat_limits,
    "few programs": lambda f: f.product <= MANY,
}

PLACEMENT_FEATURES: dict[str, Feature] = {
    "misaligned allocation": lambda f: any(f.case.placement.misalignments_bytes),
    "odd misalignment": lambda f: any(
        shift % 2 for shift in f.case.placement.misalignments_bytes
    ),
    "allocations in falling order": lambda f: (
        f.case.placement.descending and f.case.layout.num_allocations > 1
    ),
    "far allocations": lambda f: (
        f.case.placement.gap_bytes >= FAR_BYTES and f.case.layout.num_allocations > 1
    ),
    "memory far from the first byte": lambda f: (
        f.case.placement.base_bytes >= ALIGNMENT_BYTES * MANY
    ),
    "hip": lambda f: f.case.platform.startswith("hip"),
}

FEATURE_GROUPS = {
    "layout": LAYOUT_FEATURES,
    "calls": CALL_FEATURES,
    "launches": LAUNCH_FEATURES,
    "placement": PLACEMENT_FEATURES,
}
"""The features by what they are of."""
FEATURES: dict[str, Feature] = {
    **LAYOUT_FEATURES,
    **CALL_FEATURES,
    **LAUNCH_FEATURES,
    **PLACEMENT_FEATURES,
}
"""Every feature by name."""


def features(case: Case) -> frozenset[str]:
    """Return the names of the features that a case has."""
    facts = Facts(case)
    return frozenset(name for name, holds in FEATURES.items() if holds(facts))
