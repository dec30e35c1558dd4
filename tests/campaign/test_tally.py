from collections.abc import Callable
from dataclasses import replace

import pytest

from kvzero.campaign.judging import Judge
from kvzero.campaign.tally import Tally
from kvzero.case import Call, Case, IdRun
from kvzero.layout import Allocation, Layout, Run
from kvzero.properties.verdict import Broken, Kind, NotJudged

JudgeOf = Callable[[Callable[[Case], bool]], Judge]
CASE = Case(Layout(2, (Allocation(8),), (Run(4, 4),)), (Call((IdRun(1),)),))


def test_tally_of_nothing_is_not_green() -> None:
    assert Tally().exit_code() == 5


def test_tally_without_a_judged_byte_is_not_green(judge_of: JudgeOf) -> None:
    judge = judge_of(lambda _: False)
    judged = judge(CASE)
    results = tuple(
        NotJudged(r.property, "not today") if "bytes" in r.property else r
        for r in judged.results
    )
    results = tuple(
        NotJudged(r.property, "not today") if "pages" in r.property else r
        for r in results
    )
    tally = Tally()
    tally.add(replace(judged, results=results))
    assert tally.exit_code() == 5
    assert tally.not_judged["listed_pages_are_zero", "not today"] == 1


def test_tally_of_judged_cases_is_green(judge_of: JudgeOf) -> None:
    tally = Tally()
    tally.add(judge_of(lambda _: False)(CASE))
    assert tally.exit_code() == 0
    assert tally.judged["unlisted_bytes_are_untouched"] == 1


@pytest.mark.parametrize(
    ("kind", "strict", "code"),
    [
        ("fault", False, 1),
        ("refusal", False, 1),
        ("cost", False, 0),
        ("cost", True, 1),
    ],
)
def test_tally_exit_code_follows_the_gravest_kind(
    judge_of: JudgeOf, kind: Kind, strict: bool, code: int
) -> None:
    judged = judge_of(lambda _: True)(CASE)
    results = tuple(
        Broken(r.property, tuple(replace(v, kind=kind) for v in r.violations))
        if isinstance(r, Broken)
        else r
        for r in judged.results
    )
    tally = Tally()
    tally.add(replace(judged, results=results))
    assert tally.exit_code(strict_cost=strict) == code


def test_tally_counts_one_fault_once_however_often_it_is_seen(
    judge_of: JudgeOf,
) -> None:
    judge, tally = judge_of(lambda _: True), Tally()
    for _ in range(3):
        tally.add(judge(CASE))
    (found,) = tally.found.values()
    assert found.count == 3
