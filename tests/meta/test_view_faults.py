"""Planners that read KV tensors: the right one passes, each wrong one is caught.

One small layout for each family of real caches, and for each fault the families that
show it: the harness must see the fault there and nowhere else.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from kvzero.case import Call, Case, IdRun
from kvzero.executors import Executor, executor_named
from kvzero.layout import Allocation, Layout, View
from kvzero.properties import BYTE_PROPERTIES, Broken, Holds, judge
from kvzero.strategies.views import view_layouts
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.registry import find_subject
from kvzero.subjects.view_table import VIEW_TABLE
from kvzero.views import layout_of_views

BLOCKS, PAGE = 5, 24
FAULTS = ("view-page-as-stride", "span-as-stride", "ratio-ignored", "first-view-wins")
FOOTPRINT = executor_named("footprint")
CAPPED = executor_named("footprint", max_programs=20_000)
FIRST_BLOCK = (Call((IdRun(0),)),)


def cache(*views: View, sizes: Sequence[int], blocks: int = BLOCKS) -> Layout:
    allocations = [Allocation(size) for size in sizes]
    return layout_of_views(views, allocations, blocks, widest_per_address=True)


def rows(page: int, stride: int, **fields: int) -> View:
    """Return a tensor of one page a block, in bytes."""
    split = fields.get("kernel_blocks_per_block", 1)
    return View((BLOCKS * split, page), (stride, 1), **fields)  # type: ignore[arg-type]  # fields are ints


TOUCHING = BLOCKS * PAGE
FAMILIES: dict[str, Layout] = {
    # (2, blocks, tokens, head): K and V planes outermost
    "planes outermost": cache(
        View((2, BLOCKS, 3, 4), (BLOCKS * 12, 12, 4, 1), "bfloat16", 1),
        sizes=[2 * TOUCHING],
    ),
    "heads outside blocks": cache(
        View((BLOCKS, 2, 3, 4), (12, BLOCKS * 12, 4, 1), "bfloat16"),
        sizes=[2 * TOUCHING],
    ),
    "blocks first": cache(
        *(rows(PAGE, 3 * PAGE, offset_bytes=PAGE * layer) for layer in range(3)),
        sizes=[3 * TOUCHING],
    ),
    # heads, then layers inside a block: a layer's page spans others'
    "layers inside heads": cache(
        *(
            View((BLOCKS, 2, 8), (48, 24, 1), offset_bytes=8 * layer)
            for layer in range(3)
        ),
        sizes=[48 * BLOCKS],
    ),
    "padded blocks": cache(rows(PAGE, 32), sizes=[32 * BLOCKS]),
    "padded rows": cache(View((BLOCKS, 3, 4), (40, 12, 1)), sizes=[40 * BLOCKS]),
    "overlaid, narrow first": cache(rows(8, PAGE), rows(PAGE, PAGE), sizes=[TOUCHING]),
    "overlaid, wide first": cache(rows(PAGE, PAGE), rows(8, PAGE), sizes=[TOUCHING]),
    "split by three": cache(rows(8, 8, kernel_blocks_per_block=3), sizes=[TOUCHING]),
    "split and padded": cache(
        rows(8, 12, kernel_blocks_per_block=2), sizes=[24 * BLOCKS]
    ),
    "pairs of tensors apart": cache(
        *(rows(PAGE, PAGE, allocation=index) for index in range(4)),
        sizes=[TOUCHING] * 4,
    ),
    "states": cache(
        View((BLOCKS, 2, 3), (6, 3, 1), "float32"),
        View((BLOCKS, 8), (8, 1), "float32", allocation=1),
        sizes=[TOUCHING, 32 * BLOCKS],
    ),
}
CAUGHT = {
    "view-page-as-stride": {
        "blocks first",
        "padded blocks",
        "padded rows",
        "layers inside heads",
        "split and padded",
    },
    "span-as-stride": {
        "blocks first",
        "padded blocks",
        "padded rows",
        "layers inside heads",
        "split and padded",
    },
    "ratio-ignored": {"split by three", "split and padded"},
    "first-view-wins": {"overlaid, narrow first"},
}


def case_of(layout: Layout) -> Case:
    """Return the layout with its last, second and first block listed."""
    last = layout.num_blocks - 1
    return Case(layout, (Call((IdRun(last), IdRun(1))), Call((IdRun(0),))))


def broken(
    name: str, case: Case, executor: Executor = FOOTPRINT
) -> set[tuple[str, str]]:
    """Return what a subject breaks: property and kind; all else must be judged."""
    subject = find_subject(name)
    results = judge(case, executor.run(subject, case), subject.contract)
    for result in results:
        if result.property in (*BYTE_PROPERTIES, "pages_cover_their_views"):
            assert isinstance(result, (Broken, Holds)), result
    return {
        (violation.property, violation.what)
        for result in results
        if isinstance(result, Broken)
        for violation in result.violations
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_right_planner_passes_every_family(family: str) -> None:
    assert broken("view-table", case_of(FAMILIES[family])) == set()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_planner_is_caught_where_it_is_wrong(name: str, family: str) -> None:
    fault = find_subject(name)
    assert isinstance(fault, Fault)
    seen = broken(name, case_of(FAMILIES[family]))
    assert ((fault.breaks, fault.what) in seen) == (family in CAUGHT[name])
    assert bool(seen) == (family in CAUGHT[name])


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_planner_is_caught_where_views_are_not_declared(name: str) -> None:
    fault = find_subject(name)
    assert isinstance(fault, Fault)
    for family in CAUGHT[name] - {"layers inside heads", "padded rows"}:
        layout = replace(FAMILIES[family], views=())
        case = Case(layout, case_of(layout).calls)
        results = judge(case, FOOTPRINT.run(fault, case), fault.contract)
        found = {r.property for r in results if isinstance(r, Broken)}
        assert fault.breaks in found, family


@settings(max_examples=60, deadline=None)
@given(layout=view_layouts(alignment_bytes=4))
def test_the_right_planner_passes_on_drawn_views(layout: Layout) -> None:
    case = case_of(layout) if layout.num_blocks > 1 else Case(layout, FIRST_BLOCK)
    results = judge(case, CAPPED.run(VIEW_TABLE, case), VIEW_TABLE.contract)
    assert not [result for result in results if isinstance(result, Broken)]


@pytest.mark.slow
def test_real_memory_says_the_same() -> None:
    host = executor_named("host")
    family = "split and padded"
    for name in ("view-table", *FAULTS):
        seen = broken(name, case_of(FAMILIES[family]), host)
        assert bool(seen) == (family in CAUGHT.get(name, ())), name
