"""The properties of launches: limits, compiled variants, work."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Call, Case, IdRun
from kvzero.layout import Allocation, Layout, Run
from kvzero.limits import LIMITS, LaunchShape, broken_limits
from kvzero.observation import WARMUP_CALL, CallObservation, Launch, Observation
from kvzero.properties import Broken, Holds, NotJudged
from kvzero.properties.launches_fit_the_platform import launches_fit_the_platform
from kvzero.properties.verdict import Result
from kvzero.properties.warm_calls_compile_nothing import warm_calls_compile_nothing
from kvzero.properties.work_is_bounded import allowed_programs, work_is_bounded

Observe = Callable[..., Observation]
FINE = CallObservation(programs=4)


def launch(
    *grid: int, call: int = 0, variant: str = "a", kernel: str = "zero"
) -> Launch:
    x, y, z = (*grid, 1, 1, 1)[:3]
    shape = LaunchShape((x, y, z))
    return Launch(call, kernel, "k.py:1", shape, variant=variant)


def whats(result: Result) -> list[str]:
    assert isinstance(result, Broken)
    return [violation.what for violation in result.violations]


GRIDS = st.tuples(*[st.sampled_from([1, 2, 181, 65_535, 65_536, 2**24, 2**31])] * 3)


@given(st.lists(GRIDS, min_size=1, max_size=3))
def test_every_row_that_a_launch_breaks_is_told_once(
    grids: list[tuple[int, int, int]],
) -> None:
    layout = Layout(4, (Allocation(64),), (Run(8, 16),))
    case = Case(layout, (Call((IdRun(0),)),) * 3)
    launches = tuple(launch(*grid, call=call) for call, grid in enumerate(grids))
    seen = Observation("s", "footprint", "TTIR", "", (FINE,), launches)
    result = launches_fit_the_platform(case, seen)
    broken = {row.name for run in launches for row in broken_limits(run.shape)}
    expected = [row.name for row in LIMITS if row.name in broken]
    assert (whats(result) if expected else []) == expected
    for violation in result.violations if isinstance(result, Broken) else ():
        (row,) = [row for row in LIMITS if row.name == violation.what]
        beyond = [run for run in launches if row.breaks(run.shape)]
        assert violation.call == max(beyond, key=lambda run: run.shape.programs).call


def test_the_largest_launch_of_a_row_is_told(case: Case, observe: Observe) -> None:
    seen = observe(
        FINE,
        FINE,
        launches=(launch(1, 65_536), launch(1, 70_000, call=1), launch(1, 66_000)),
    )
    result = launches_fit_the_platform(case, seen)
    assert isinstance(result, Broken)
    y, hip_y = result.violations
    assert y.identity == ("launches_fit_the_platform", "fault", "cuda-y", "k.py:1")
    assert y.headline == (
        "launches_fit_the_platform: grid (1, 70,000, 1) of zero, but must fit cuda-y "
        "(y <= 65,535): it is rejected [call 2 of 2: zero((3,))]"
    )
    assert (hip_y.what, hip_y.kind) == ("hip-y", "cost")


def test_a_skipped_launch_is_told_before_a_rejected_one(
    case: Case, observe: Observe
) -> None:
    seen = observe(FINE, FINE, launches=(launch(65_536, 65_536),))
    assert whats(launches_fit_the_platform(case, seen))[:2] == [
        "nvidia-product",
        "amd-product",
    ]


def test_a_launch_that_fails_for_no_known_limit_is_a_fault(
    case: Case, observe: Observe
) -> None:
    failed = replace(launch(4), fate="rejected")
    seen = observe(FINE, FINE, launches=(failed,))
    assert whats(launches_fit_the_platform(case, seen)) == ["launch-rejected"]


def test_without_launches_nothing_is_judged(case: Case, observe: Observe) -> None:
    seen = observe(CallObservation(), CallObservation())
    for judge_it in (
        launches_fit_the_platform,
        warm_calls_compile_nothing,
        work_is_bounded,
    ):
        assert isinstance(judge_it(case, seen), NotJudged)


@pytest.mark.parametrize("warm", [True, False])
def test_calls_that_reuse_their_variants_hold(
    case: Case, observe: Observe, warm: bool
) -> None:
    first = launch(1, call=WARMUP_CALL if warm else 0)
    seen = observe(FINE, FINE, launches=(first, launch(2, call=1)), has_warmup=warm)
    assert isinstance(warm_calls_compile_nothing(case, seen), Holds)


@pytest.mark.parametrize("warm", [True, False])
def test_a_variant_beyond_the_warm_up_is_a_fault(
    case: Case, observe: Observe, warm: bool
) -> None:
    first = launch(1, call=WARMUP_CALL if warm else 0)
    later = launch(2, call=1, variant="b")
    seen = observe(FINE, FINE, launches=(first, later, later), has_warmup=warm)
    assert whats(warm_calls_compile_nothing(case, seen)) == ["compiled-in-a-call"]


def test_a_warm_up_that_launches_nothing_warms_nothing(
    case: Case, observe: Observe
) -> None:
    seen = observe(FINE, FINE, launches=(launch(1),), has_warmup=True)
    assert whats(warm_calls_compile_nothing(case, seen)) == ["compiled-in-a-call"]


def test_one_call_without_a_warm_up_is_not_judged(case: Case, observe: Observe) -> None:
    seen = observe(FINE, FINE, launches=(launch(1), launch(1, variant="b")))
    assert isinstance(warm_calls_compile_nothing(case, seen), NotJudged)


@given(st.lists(st.integers(1, 2**22), min_size=1, max_size=3), st.integers(1, 600))
def test_work_is_bounded_by_the_listed_bytes(pages: list[int], count: int) -> None:
    runs = tuple(Run(page, page, 0, i) for i, page in enumerate(pages))
    layout = Layout(600, tuple(Allocation(page * 600) for page in pages), runs)
    case = Case(layout, (Call((IdRun(0, count),)),))
    allowed = allowed_programs(case, 0)
    assert allowed == max(4096, 4 * count * sum(-(-page // 4096) for page in pages))
    for programs, holds in ((allowed, True), (allowed + 1, False)):
        call = CallObservation(programs=programs)
        seen = Observation("s", "footprint", "TTIR", "", (call,))
        result = work_is_bounded(case, seen)
        assert isinstance(result, Holds) == holds
        if isinstance(result, Broken):
            assert result.violations[0].kind == "cost"
