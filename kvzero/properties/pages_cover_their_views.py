"""The pages of a layout are the bytes of its views, and what may go with them.

For every block: *bytes of the views <= pages <= bytes of the views + may-zero*, where
the page of a padded view may span the holes between its first and its last byte. It is
a property of the layout, whoever planned it: a planner is tested by giving its segments
as runs, beside the views that it planned from.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kvzero.case import Case
from kvzero.layout import Layout, View
from kvzero.observation import Observation
from kvzero.properties.covering import (
    Stretches,
    TooManyError,
    bytes_of,
    joined,
    pages_of,
    spans_of,
    tiles_of,
    without,
)
from kvzero.properties.verdict import NotJudged, Result, Violation, settle
from kvzero.properties.wording import counted
from kvzero.views import check_views

NAME = "pages_cover_their_views"


def pages_cover_their_views(case: Case, observation: Observation) -> Result:
    """Return whether the pages of a case's layout fit the views that it carries."""
    del observation  # the layout alone decides
    if not case.layout.views:
        return NotJudged(NAME, "the layout carries no views")
    try:
        found = layout_misfits(
            case.layout, padding_may_be_touched=case.padding_may_be_touched
        )
    except TooManyError as error:
        return NotJudged(NAME, str(error))
    return settle(NAME, found)


def layout_misfits(
    layout: Layout, *, padding_may_be_touched: bool = False
) -> tuple[Violation, ...]:
    """Return how the pages of a layout misfit its views: at most once each way.

    Args:
        layout: The layout, views included.
        padding_may_be_touched: Pages may hold padding of their block's tile.

    Raises:
        LayoutError: A view is none of a tensor over the layout's allocations.
        TooManyError: Views and pages are too many to be compared exactly.
    """
    check_views(layout.views, layout.allocations, layout.num_blocks)
    pages, spans = pages_of(layout), joined(spans_of(view) for view in layout.views)
    tiles = tiles_of(layout) if padding_may_be_touched else joined([])
    bare = without(spans, pages, layout.num_blocks)
    if bare.rows:
        # Holes of a view may well be in no page: look again, at its bytes alone.
        exact = joined(bytes_of(view) for view in _wider_than(pages, layout))
        bare = without(exact, pages, layout.num_blocks)
    strange = without(pages, joined([spans, tiles]), layout.num_blocks)
    found = []
    if bare.rows:
        owners = enumerate(map(bytes_of, layout.views))
        owner = next(i for i, owned in owners if _holding(owned, bare).any())
        claim = f"{_byte(bare)} of views[{owner}] is in no page, but must be in one"
        found.append(_violation("view-byte-outside-pages", claim, bare))
    if strange.rows:
        segment = int(np.argmax(_holding(pages, strange)))
        claim = (
            f"{_byte(strange)} of segment {segment} is in no view, but a page must "
            f"hold bytes of its views or padding that may be touched"
        )
        found.append(_violation("page-byte-outside-views", claim, strange))
    return tuple(found)


def _wider_than(pages: Stretches, layout: Layout) -> Iterator[View]:
    """Yield the views whose spans are not all in pages, and perhaps some more."""
    for view in layout.views:
        spans = spans_of(view)
        near = pages.allocation == view.allocation
        near &= (pages.begin < spans.end.max()) & (pages.end > spans.begin.min())
        if without(spans, pages.take(near), layout.num_blocks).rows:
            yield view


def _first(found: Stretches) -> tuple[int, int, int]:
    """Return block, allocation and position of the first byte that was found."""
    return int(found.block[0]), int(found.allocation[0]), int(found.begin[0])


def _byte(found: Stretches) -> str:
    block, allocation, at = _first(found)
    return f"byte {at} of allocation {allocation}, of block {block}"


def _holding(stretches: Stretches, found: Stretches) -> NDArray[np.bool_]:
    """Return which stretches hold the first byte that was found."""
    block, allocation, at = _first(found)
    moved = block * stretches.stride_bytes
    inside = (stretches.begin + moved <= at) & (at < stretches.end + moved)
    inside &= stretches.allocation == allocation
    return inside


def _violation(what: str, claim: str, found: Stretches) -> Violation:
    blocks = "of every block" if found.stride_bytes[0] else "of all blocks together"
    where = f"the first of {counted(found.total_bytes, 'byte')} {blocks}"
    return Violation(NAME, "fault", what, claim, details=(("where", where),))
