"""Allocations, regions and pieces as lines of text, repeats collapsed."""

from collections.abc import Iterator, Sequence

import numpy as np

from kvzero.layout import Int64Array, Layout
from kvzero.properties.wording import counted
from kvzero.report.anatomy import GAP, OVERLAID, PADDING, Region, pieces, regions
from kvzero.report.folding import Fold, folded
from kvzero.report.panel import segment_letters

MOST_PATTERNS = 200
"""Patterns that are looked for in one list."""
MOST_LINES = 24
"""Lines that one list spells out, the last of them from its end."""
LAST_LINES = 6
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_WHAT = {GAP: "-  no page", PADDING: ".  padding of the block's tile"}


def bytes_text(size: int) -> str:
    """Return a size in bytes, and in a larger unit where that is easier to read."""
    exact = f"{size:,} B"
    if size < 10 * 1024:
        return exact
    power = min((size.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{exact} ({size / 1024**power:.4g} {_UNITS[power]})"


def indices_text(values: Sequence[int]) -> str:
    """Return indices in a few words: ``0``, ``0 to 31``, ``0, 2, ... 180``."""
    first, last = values[0], values[-1]
    if len(values) < 3:
        return ", ".join(f"{value:,}" for value in values)
    if last - first == len(values) - 1:
        return f"{first:,} to {last:,}"
    return f"{first:,}, {values[1]:,}, ... {last:,}"


def more(count: int, what: str) -> list[str]:
    """Return a line that says how much has been left out, if anything has."""
    return [f"  ... and {count:,} more {what}"] if count > 0 else []


def shortened(lines: list[str]) -> list[str]:
    """Return a long list without its middle."""
    if len(lines) <= MOST_LINES:
        return lines
    gone = f"  ... {len(lines) - MOST_LINES:,} more lines ..."
    return [*lines[: MOST_LINES - LAST_LINES], gone, *lines[-LAST_LINES:]]


def allocation_lines(layout: Layout, group: Int64Array) -> list[str]:
    """Return what some allocations hold that are alike."""
    first = int(group[0])
    name = indices_text(group.tolist())
    size = bytes_text(int(layout.allocation_sizes[first]))
    if len(group) == 1:
        lines = [f"allocation {name}: {size}"]
    else:
        lines = [f"allocations {name}: {len(group):,} alike, {size} each; the first:"]
    found = regions(layout, first)
    kinds: dict[bytes, int] = {}
    keys = [kinds.setdefault(_kind(layout, region), len(kinds)) for region in found]
    rows = [
        (region.begin, int(region.segments[0]), key) for region, key in zip(found, keys)
    ]
    table = np.array(rows, np.int64).reshape(-1, 3)
    folds = folded(table, 2, most=MOST_PATTERNS + 1)
    for fold in folds[:MOST_PATTERNS]:
        lines += _regions_lines(layout, found, fold)
    left = folds[MOST_PATTERNS:]
    lines += more(len(found) - left[0].start if left else 0, "stretches")
    if not found:
        lines.append("  no page lies in it")
    return shortened(lines)


def _kind(layout: Layout, region: Region) -> bytes:
    """Return what makes two regions the same but for their place."""
    if len(region.segments) == 1:  # there may be thousands of them
        page = layout.table.page_bytes[region.segments[0]]
        return f"{page} {region.stride_bytes}".encode()
    held = pieces(layout, region)
    held[:, 1] -= region.segments[0]
    return np.append(held.ravel(), [region.stride_bytes]).tobytes()


def _regions_lines(
    layout: Layout, found: Sequence[Region], fold: Fold
) -> Iterator[str]:
    indent = "  "
    if fold.times > 1:
        every = f"every {fold.step[0]:,} B and {counted(fold.step[1], 'segment')}"
        yield f"  {fold.times:,} times, {every}, from byte {found[fold.start].begin:,}:"
        indent = "    "
    for region in found[fold.start : fold.start + fold.length][:MOST_PATTERNS]:
        where = f"byte {region.begin:,}: "
        segments = fold.times, fold.step[1]
        lines = list(_region_lines(layout, region, segments))
        yield f"{indent}{where if fold.times == 1 else ''}{lines[0]}"
        yield from (f"{indent}{line}" for line in lines[1:])
    yield from more(fold.length - MOST_PATTERNS, "stretches")


def _region_lines(
    layout: Layout, region: Region, repeats: tuple[int, int]
) -> Iterator[str]:
    """Yield a region, which may stand for repeats of it."""
    blocks = counted(layout.num_blocks, "block")
    stride = region.stride_bytes
    if not stride:
        yield f"{blocks} of {counted(len(region.segments), 'segment')} that mix:"
        yield from _mixed_lines(layout, region)
        return
    held = pieces(layout, region)
    if len(held) == 1:
        what = _page_text(layout, int(held[0, 1]), *repeats)
        yield f"{blocks} of {stride:,} B, all page: {what}"
        return
    yield f"{blocks}, one every {stride:,} B; in each"
    folds = folded(held, 2, most=MOST_PATTERNS + 1)
    for fold in folds[:MOST_PATTERNS]:
        yield from _pieces_lines(layout, held, fold, repeats)
    left = folds[MOST_PATTERNS:]
    yield from more(len(held) - left[0].start if left else 0, "pieces")


def _pieces_lines(
    layout: Layout, held: Int64Array, fold: Fold, repeats: tuple[int, int]
) -> Iterator[str]:
    indent = "    "
    if fold.times > 1:
        first = int(held[fold.start, 0])
        yield f"    {fold.times:,} times, every {fold.step[0]:,} B from +{first:,}:"
        indent, repeats = "      ", (fold.times, fold.step[1])
    for row in held[fold.start : fold.start + fold.length].tolist()[:MOST_PATTERNS]:
        offset, segment, size, kind = row
        what = _WHAT.get(kind) or _page_text(layout, segment, *repeats)
        over = ", over another" if kind == OVERLAID else ""
        yield f"{indent}{f'+{offset:,}':<12} {size:>12,} B  {what}{over}"
    yield from more(fold.length - MOST_PATTERNS, "pieces")


def _mixed_lines(layout: Layout, region: Region) -> Iterator[str]:
    for index in region.segments[:MOST_PATTERNS].tolist():
        segment = layout.table.segment(index)
        what = _page_text(layout, index, 1, 0)
        yield (
            f"    {what}: {segment.page_bytes:,} B at byte {segment.offset_bytes:,}, "
            f"every {segment.stride_bytes:,} B"
        )
    yield from more(len(region.segments) - MOST_PATTERNS, "segments")


def _page_text(layout: Layout, segment: int, times: int, step: int) -> str:
    """Return letter and index of a segment, and of those it stands for."""
    letters = segment_letters(layout.table).upper()
    indices = range(segment, segment + times * step, step) if step > 0 else [segment]
    shown = sorted({letters[index] for index in indices})
    signs = shown[0] if len(shown) == 1 else f"{shown[0]} to {shown[-1]}"
    noun = "segment" if len(indices) == 1 else "segments"
    return f"{signs}  {noun} {indices_text(indices)}"
