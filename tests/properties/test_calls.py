"""The properties of calls: refusals, survival, semantics, and the registry."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvzero.case import Call, Case, Placement, id_runs
from kvzero.layout import Allocation, Run, View
from kvzero.limits import LaunchShape
from kvzero.observation import (
    WARMUP_CALL,
    CallObservation,
    Death,
    Launch,
    Misstep,
    Observation,
    Raised,
)
from kvzero.properties import PROPERTIES, Broken, Holds, NotJudged, judge
from kvzero.properties.bad_ids_are_refused import bad_ids_are_refused
from kvzero.properties.legal_calls_are_accepted import legal_calls_are_accepted
from kvzero.properties.promises_hold import promises_hold
from kvzero.properties.results_are_defined import results_are_defined
from kvzero.properties.terms import outside_contract
from kvzero.properties.the_process_survives import the_process_survives
from kvzero.properties.verdict import Result
from kvzero.subjects.protocol import Contract
from kvzero.views import layout_of_views

Observe = Callable[..., Observation]
FINE = CallObservation(stored_bytes=400, programs=4)
RAISED = Raised("BlockIdError", "block_ids[1]=4", is_value_error=True)
REFUSED = CallObservation(raised=RAISED)
LAUNCH = Launch(0, "zero", "k.py:1", LaunchShape((2, 1, 1)))


def whats(result: Result) -> list[str]:
    assert isinstance(result, Broken)
    return [violation.what for violation in result.violations]


def test_refused_bad_ids_hold(bad_case: Case, observe: Observe) -> None:
    seen = observe(REFUSED, REFUSED, FINE)
    assert isinstance(bad_ids_are_refused(bad_case, seen), Holds)


def test_accepted_bad_ids_are_located(bad_case: Case, observe: Observe) -> None:
    result = bad_ids_are_refused(bad_case, observe(CallObservation(), REFUSED, FINE))
    assert whats(result) == ["bad-ids-accepted"]
    assert isinstance(result, Broken)
    assert result.violations[0].claim == (
        "block_ids[1]=4 is not in range(4), but was accepted "
        "[call 1 of 3: zero((1, 4))]"
    )


def test_a_refusal_after_a_launch_is_a_fault(bad_case: Case, observe: Observe) -> None:
    seen = observe(REFUSED, REFUSED, FINE, launches=(LAUNCH,))
    assert whats(bad_ids_are_refused(bad_case, seen)) == ["bad-ids-launched"]


def test_a_refusal_after_a_store_is_a_fault(bad_case: Case, observe: Observe) -> None:
    stored = replace(REFUSED, stored_bytes=3)
    seen = observe(stored, REFUSED, FINE)
    assert whats(bad_ids_are_refused(bad_case, seen)) == ["bad-ids-stored"]


def test_accepted_bad_ids_that_store_break_it_twice(
    bad_case: Case, observe: Observe
) -> None:
    seen = observe(FINE, REFUSED, FINE, launches=(LAUNCH,))
    assert whats(bad_ids_are_refused(bad_case, seen)) == ["bad-ids-accepted"]


def test_legal_calls_say_nothing_of_bad_ids(case: Case, observe: Observe) -> None:
    assert isinstance(bad_ids_are_refused(case, observe(FINE, FINE)), NotJudged)


def test_a_raise_on_a_legal_call_is_a_refusal(case: Case, observe: Observe) -> None:
    result = legal_calls_are_accepted(case, observe(FINE, REFUSED))
    assert isinstance(result, Broken)
    (violation,) = result.violations
    assert (violation.kind, violation.call) == ("refusal", 1)
    assert violation.claim.startswith("the call raised BlockIdError('block_ids[1]=4')")


def test_a_rejected_launch_is_no_refusal(case: Case, observe: Observe) -> None:
    rejected = replace(LAUNCH, fate="rejected")
    seen = observe(REFUSED, FINE, launches=(rejected,))
    assert isinstance(legal_calls_are_accepted(case, seen), Holds)


def test_a_rejected_launch_before_the_first_call_is_no_refusal(
    case: Case, observe: Observe
) -> None:
    rejected = replace(LAUNCH, call=WARMUP_CALL, fate="rejected")
    seen = replace(observe(launches=(rejected,)), built=RAISED)
    result = legal_calls_are_accepted(case, seen)
    assert isinstance(result, NotJudged)
    assert result.reason == "a launch was rejected before the first call"


def test_a_raise_on_bad_ids_is_no_refusal(bad_case: Case, observe: Observe) -> None:
    seen = observe(REFUSED, REFUSED, REFUSED)
    assert isinstance(legal_calls_are_accepted(bad_case, seen), NotJudged)


def test_a_subject_that_cannot_be_built_refuses(case: Case, observe: Observe) -> None:
    seen = replace(observe(), built=Raised("AssertionError", "one page size"))
    results = judge(case, seen, Contract())
    broken = [r for r in results if isinstance(r, Broken)]
    assert [r.property for r in broken] == ["legal_calls_are_accepted"]
    assert whats(broken[0]) == ["build-refused"]
    others = [r for r in results if isinstance(r, NotJudged)]
    assert len(others) == len(PROPERTIES) - 2


def test_death_is_a_fault_and_the_rest_is_not_judged(
    case: Case, observe: Observe
) -> None:
    seen = replace(observe(FINE), died=Death("killed-by-sigsegv", "process died"))
    assert whats(the_process_survives(case, seen)) == ["killed-by-sigsegv"]
    results = judge(case, seen, Contract())
    assert not any(isinstance(r, Holds) for r in results)


@pytest.mark.parametrize(
    ("kind", "judge_it"),
    [
        ("false-promise", promises_hold),
        ("undefined-value", results_are_defined),
        ("undefined-arithmetic", results_are_defined),
        ("race", results_are_defined),
        ("bad-load", results_are_defined),
    ],
)
def test_each_misstep_breaks_its_property(
    case: Case,
    observe: Observe,
    kind: str,
    judge_it: Callable[[Case, Observation], Result],
) -> None:
    misstep = Misstep(kind, "n=6, but must be a multiple of 4", "k.py:9", (2, 0, 0), 3)
    seen = observe(FINE, replace(FINE, missteps=(misstep,)))
    result = judge_it(case, seen)
    assert isinstance(result, Broken)
    (violation,) = result.violations
    assert (violation.what, violation.place, violation.call) == (kind, "k.py:9", 1)
    assert violation.details == (("where", "program (2, 0, 0), and 2 more at k.py:9"),)
    other = results_are_defined if judge_it is promises_hold else promises_hold
    assert isinstance(other(case, seen), Holds)


def test_the_machine_says_nothing_of_promises(case: Case, observe: Observe) -> None:
    seen = observe(FINE, FINE, semantics="machine")
    assert isinstance(promises_hold(case, seen), NotJudged)
    assert isinstance(results_are_defined(case, seen), NotJudged)


def test_a_judgement_names_every_property_in_order(
    case: Case, observe: Observe
) -> None:
    results = judge(case, observe(FINE, FINE), Contract())
    assert [result.property for result in results] == list(PROPERTIES)


@pytest.mark.parametrize("name", ["*", "listed_pages_are_zero"])
def test_what_an_executor_could_not_see_is_not_judged(
    case: Case, observe: Observe, name: str
) -> None:
    seen = replace(observe(FINE, FINE), not_judged=((name, "unknown op"),))
    results = {r.property: r for r in judge(case, seen, Contract())}
    assert results["listed_pages_are_zero"] == NotJudged(
        "listed_pages_are_zero", "unknown op"
    )
    untouched = results["unlisted_bytes_are_untouched"]
    assert isinstance(untouched, NotJudged) == (name == "*")


def test_what_was_seen_stands_where_the_rest_was_not_judged(
    case: Case, observe: Observe
) -> None:
    seen = replace(observe(FINE, REFUSED), not_judged=(("*", "unknown op"),))
    results = {r.property: r for r in judge(case, seen, Contract())}
    assert isinstance(results["legal_calls_are_accepted"], Broken)


def changed(case: Case, change: str) -> Case:
    if change == "misaligned":
        return replace(case, placement=Placement(misalignments_bytes=(8,)))
    if change == "odd page":
        layout = replace(case.layout, runs=(Run(100, 512),))
        return replace(case, layout=layout)
    if change == "page gap":  # rows of 4 B, 6 B apart
        view = View((4, 3, 4), (32, 6, 1))
        layout = layout_of_views([view], [Allocation(128)], 4)
        return replace(case, layout=layout)
    if change == "bad id":
        return replace(case, calls=(Call(id_runs([9])),))
    return replace(case, calls=(Call(id_runs([1]), "device", "int32"),))


@pytest.mark.parametrize(
    ("change", "contract", "reason"),
    [
        ("misaligned", Contract(alignment_bytes=16), "an address is no multiple of 16"),
        ("odd page", Contract(alignment_bytes=8), "a page size is no multiple of 8"),
        ("none", Contract(one_page_size=True), "different page sizes"),
        ("page gap", Contract(writes_page_gaps=False), "a page has holes"),
        ("bad id", Contract(checks_ids=False), "trusts its caller's ids"),
        ("device", Contract(arrivals=("list",)), "ids arrive as device"),
        ("device", Contract(id_dtypes=("int64",)), "ids have dtype int32"),
    ],
)
def test_outside_its_contract_a_subject_is_not_judged(
    case: Case, observe: Observe, change: str, contract: Contract, reason: str
) -> None:
    other = case if change == "none" else changed(case, change)
    outside = outside_contract(other, contract)
    assert outside is not None
    assert reason in outside
    seen = observe(REFUSED)
    results = judge(other, seen, contract)
    assert all(isinstance(result, NotJudged) for result in results)


@pytest.mark.parametrize(
    "change", ["misaligned", "odd page", "page gap", "bad id", "device"]
)
def test_inside_its_contract_a_subject_is_judged(case: Case, change: str) -> None:
    assert outside_contract(changed(case, change), Contract()) is None
