from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.campaign.polish import polish
from kvzero.case import Call, Case, IdRun, Placement
from kvzero.layout import Allocation, Axis, Layout, Run, View
from kvzero.views import layout_of_views


def case_of(segments: int, ids: int, page: int, runs: int = 1) -> Case:
    step = page * 8
    size = step * segments
    layout = Layout(
        8,
        tuple(Allocation(size) for _ in range(runs)),
        tuple(
            Run(page, page, 0, index, (Axis(segments, step),)) for index in range(runs)
        ),
    )
    call = Call((IdRun(7), IdRun(3, ids, 0)), arrival="tensor", dtype="int32")
    return Case(
        layout, (call, call), "hip:gfx942", Placement(512, 4096, (3, 5)), seed=77
    )


def segments_of(case: Case) -> int:
    return len(case.layout.table)


def ids_of(case: Case) -> int:
    return max((call.num_ids for call in case.calls), default=0)


def never() -> bool:
    return False


@given(
    limit=st.integers(1, 5000),
    segments=st.integers(1, 60),
    ids=st.integers(1, 60),
)
@settings(max_examples=25)
def test_polish_leaves_no_factor_of_a_product_that_could_be_lowered(
    limit: int, segments: int, ids: int
) -> None:
    case = case_of(segments, ids, 16)

    def fails(candidate: Case) -> bool:
        return segments_of(candidate) * ids_of(candidate) >= limit

    if not fails(case):
        return
    small = polish(case, fails, never)
    a, b = segments_of(small), ids_of(small)
    assert a * b >= limit
    assert (a - 1) * b < limit
    assert a * (b - 1) < limit


Condition = Callable[[Case], bool]


@pytest.mark.parametrize(
    ("fails", "segments", "ids"),
    [
        (lambda case: segments_of(case) > 40, 41, 0),
        (lambda case: ids_of(case) > 40, 0, 41),
        (lambda case: any(c.arrival == "tensor" for c in case.calls), 0, 0),
    ],
)
def test_polish_reaches_the_threshold_of_one_dimension(
    fails: Condition, segments: int, ids: int
) -> None:
    small = polish(case_of(60, 60, 16, runs=3), fails, never)
    assert segments_of(small) == segments
    assert ids_of(small) == ids


def test_polish_sets_what_does_not_matter_to_its_default() -> None:
    small = polish(case_of(5, 5, 16), lambda case: ids_of(case) > 2, never)
    assert (small.platform, small.seed, small.placement) == (
        "cuda:90",
        0,
        Placement(),
    )
    assert len(small.calls) == 1
    assert small.calls[0].arrival == "list"
    assert small.layout.runs == ()


def test_polish_stops_when_the_time_is_up() -> None:
    case = case_of(60, 60, 16)
    assert polish(case, lambda _: True, lambda: True) is case


def test_polish_never_returns_a_case_that_passes() -> None:
    case = case_of(9, 9, 16)
    assert polish(case, lambda _: False, never) == case


def test_polish_keeps_views_and_runs_in_step() -> None:
    view = View((12, 3, 8), (24, 8, 1), kernel_blocks_per_block=2)
    layout = layout_of_views([view], [Allocation(288)], 6, widest_per_address=True)
    case = Case(layout, (Call((IdRun(5),)),))

    def fails(candidate: Case) -> bool:
        return candidate.layout.num_blocks > 2 and bool(candidate.layout.views)

    small = polish(case, fails, never)
    (shrunk,) = small.layout.views
    assert small.layout.num_blocks == 3
    assert shrunk.shape[0] == 3 * shrunk.kernel_blocks_per_block
    again = layout_of_views(
        [shrunk], small.layout.allocations, 3, widest_per_address=False
    )
    assert again.runs == small.layout.runs


def test_polish_trades_many_blocks_for_few_far_apart() -> None:
    layout = Layout(2**20, (Allocation(2**35),), (Run(16, 2**15),))
    case = Case(layout, (Call((IdRun(7), IdRun(2**20 - 1))),))

    def fails(candidate: Case) -> bool:
        blocks = candidate.layout.num_blocks
        return any(
            int(stride) * int(block) >= 2**33
            for stride in candidate.layout.table.stride_bytes
            for call in candidate.calls
            for block in call.blocks(blocks)
        )

    small = polish(case, fails, never)
    assert small.layout.num_blocks == 2
    assert small.layout.runs == (Run(1, 2**33),)
