"""From what a call stored to the facts of an observation."""

from itertools import pairwise

import numpy as np

from kvzero.executors.footprint.evaluate import LaunchResult
from kvzero.executors.footprint.shadow import Shadow
from kvzero.executors.footprint.stores import Store, writer_of
from kvzero.executors.footprint.stretches import (
    NO_BYTES,
    Stretches,
    of_intervals,
)
from kvzero.layout import Int64Array
from kvzero.observation import MAX_SPANS, ByteSpan, Writer, WrongBytes
from kvzero.oracle import Intervals

MAX_SEEN_BYTES = 16
MOST_ITEMS = 2**20
"""Stretches that are searched for who stored a byte again."""


def stored_bytes(results: list[LaunchResult]) -> tuple[Stretches, Stretches]:
    """Return all bytes that some launches stored, and those with other than zero."""
    zero, other = NO_BYTES, NO_BYTES
    for result in results:
        zero = zero.union(result.zero)
        if len(result.other):
            other = other.union(result.other.extent())
    return (zero.union(other) if len(other.starts) else zero), other


def again_bytes(results: list[LaunchResult], stored: Stretches) -> int:
    """Return how many bytes a call's launches stored although they had before.

    Args:
        results: The launches.
        stored: All bytes that they stored.
    """
    inside = sum(result.again_bytes for result in results)
    each = sum(r.zero.total_bytes + len(r.other) for r in results)
    return inside + each - stored.total_bytes


def again_writer(results: list[LaunchResult]) -> Writer | None:
    """Return who stored a byte that had been stored before in a call, if it is found.

    Of programs of one launch, which have no order, it is either.
    """
    stores = [s for result in results for s in result.stores if not s.is_atomic]
    parts = [store.flat() for store in stores]
    counts = [len(starts) for starts, _ in parts]
    if not 0 < sum(counts) <= MOST_ITEMS:
        return None
    starts, ends = (np.concatenate(part) for part in zip(*parts))
    index = _second_of_two(starts, ends)
    if index is None:  # one item stands for many programs
        index = int(np.argmax(ends > starts))
    owner = int(np.searchsorted(np.cumsum(counts), index, side="right"))
    item = index - sum(counts[:owner])
    return Writer(stores[owner].program_of(item), stores[owner].place)


def _second_of_two(starts: Int64Array, ends: Int64Array) -> int | None:
    """Return the later of two stretches that share a byte, if any do."""
    order = np.argsort(starts, kind="stable")
    order = order[ends[order] > starts[order]]
    reach = np.maximum.accumulate(ends[order])
    meets = np.flatnonzero(starts[order][1:] < reach[:-1])
    if not len(meets):
        return None
    before, behind = order[: meets[0] + 1], int(order[meets[0] + 1])
    return max(behind, int(before[np.argmax(ends[before])]))


def missed_bytes(must: Intervals, shadow: Shadow) -> WrongBytes:
    """Return the bytes that must be zero and were never stored as zero."""
    missing = of_intervals(must).minus(shadow.zero)
    return _wrong(missing, shadow, [])


def touched_bytes(
    results: list[LaunchResult], must: Intervals, may: Intervals, shadow: Shadow
) -> WrongBytes:
    """Return the bytes that must stay untouched and were stored.

    Padding that may be zeroed counts as touched where something else was stored.
    """
    stored, other = stored_bytes(results)
    foreign = stored.minus(of_intervals(must))
    if len(foreign.starts) and len(may):
        allowed = of_intervals(may).minus(other)
        foreign = foreign.minus(allowed)
    stores = [store for result in results for store in result.stores]
    return _wrong(foreign, shadow, stores)


def joined(first: WrongBytes, second: WrongBytes) -> WrongBytes:
    """Return the wrong bytes of two parts of a call, those of the first in front."""
    spans = (*first.spans, *second.spans)[:MAX_SPANS]
    return WrongBytes(first.count + second.count, spans)


def _wrong(wrong: Stretches, shadow: Shadow, stores: list[Store]) -> WrongBytes:
    if not len(wrong.starts):
        return WrongBytes()
    spans = tuple(
        _span(begin, end, shadow, stores) for begin, end in _first_spans(wrong, shadow)
    )
    return WrongBytes(wrong.total_bytes, spans)


def _first_spans(wrong: Stretches, shadow: Shadow) -> list[tuple[int, int]]:
    """Return the first stretches, split where an allocation begins or ends."""
    first = Stretches(wrong.starts[:MAX_SPANS], wrong.ends[:MAX_SPANS])
    spans: list[tuple[int, int]] = []
    for begin, end in zip(first.starts.tolist(), first.ends.tolist()):
        borders = shadow.borders_between(begin, end, MAX_SPANS)
        edges = [begin, *borders, end]
        spans.extend(pairwise(edges))
    return spans[:MAX_SPANS]


def _span(begin: int, end: int, shadow: Shadow, stores: list[Store]) -> ByteSpan:
    length = end - begin
    where: Int64Array = begin + np.arange(min(length, MAX_SEEN_BYTES), dtype=np.int64)
    allocation, offset = shadow.allocation_of(where[:1])
    known = int(allocation[0]) >= 0
    return ByteSpan(
        allocation=int(allocation[0]) if known else None,
        offset_bytes=int(offset[0]),
        length_bytes=length,
        seen=bytes(shadow.bytes_at(where)) if known else b"",
        writer=writer_of(stores, begin),
    )
