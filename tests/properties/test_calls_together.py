"""Properties of calls that were made together, which only a device shows."""

from dataclasses import replace

import pytest

from kvzero.case import Call, Case
from kvzero.executors.transcript import from_json, to_json
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Observation,
    Queued,
    Raised,
    Replayed,
    WrongBytes,
)
from kvzero.properties import Broken, Holds, NotJudged, Result
from kvzero.properties.calls_do_not_wait import calls_do_not_wait
from kvzero.properties.calls_keep_no_memory import calls_keep_no_memory
from kvzero.properties.graphs_replay_with_new_ids import graphs_replay_with_new_ids
from kvzero.properties.queued_calls_act_in_order import queued_calls_act_in_order
from tests.properties.conftest import Observe

FINE = CallObservation(host_waits=0)
WRONG = WrongBytes(9, (ByteSpan(0, 640, 9, b"\xa5"),))
RAISED = Raised("RuntimeError", "a stream that is captured\nand more")
ALL = (
    queued_calls_act_in_order,
    graphs_replay_with_new_ids,
    calls_keep_no_memory,
    calls_do_not_wait,
)


@pytest.fixture
def seen(observe: Observe) -> Observation:
    """Return a device's observation of two calls, with nothing to object to."""
    made = observe(FINE, FINE, semantics="machine")
    return replace(made, queued=Queued(), replayed=Replayed(0, (2, 3)), kept_bytes=0)


def claims(result: Result) -> list[str]:
    assert isinstance(result, Broken)
    return [violation.claim for violation in result.violations]


def whats(result: Result) -> list[tuple[str, str]]:
    assert isinstance(result, Broken)
    return [(violation.kind, violation.what) for violation in result.violations]


def test_calls_that_did_right_together_hold(case: Case, seen: Observation) -> None:
    for check in ALL:
        assert check(case, seen) == Holds(check.__name__)


def test_what_another_executor_does_not_see_is_not_judged(
    case: Case, observe: Observe
) -> None:
    for check in ALL:
        result = check(case, observe(CallObservation(), CallObservation()))
        assert isinstance(result, NotJudged)
        assert result.reason == "the footprint executor does not see it: device does"


def test_bytes_of_queued_calls_are_located(case: Case, seen: Observation) -> None:
    bad = replace(seen, queued=Queued(WRONG, WRONG))
    result = queued_calls_act_in_order(case, bad)
    assert whats(result) == [
        ("fault", "listed-byte-not-zero"),
        ("fault", "unlisted-byte-changed"),
    ]
    assert claims(result)[0] == (
        "block 1, byte 0 was not zero, but must be [2 calls queued on a stream that "
        "was held]"
    )


def test_a_call_that_raises_only_when_queued_is_refused(
    case: Case, seen: Observation
) -> None:
    result = queued_calls_act_in_order(
        case, replace(seen, queued=Queued(raised=RAISED))
    )
    assert whats(result) == [("refusal", "call-refused")]
    assert isinstance(result, Broken)
    assert result.violations[0].details == (("message", "a stream that is captured"),)


def test_a_hold_that_ran_out_judges_no_order_and_tells_of_a_wait(
    case: Case, seen: Observation
) -> None:
    waited = replace(seen, queued=Queued(waited_in=1))
    result = queued_calls_act_in_order(case, waited)
    assert isinstance(result, NotJudged)
    assert "not held to the end of [call 2 of 2: zero((3,))]" in result.reason
    assert whats(calls_do_not_wait(case, waited)) == [("cost", "host-waits")]


def test_a_wrong_byte_stands_though_the_hold_ran_out(
    case: Case, seen: Observation
) -> None:
    result = queued_calls_act_in_order(
        case, replace(seen, queued=Queued(WRONG, waited_in=0))
    )
    assert whats(result) == [("fault", "listed-byte-not-zero")]


def test_queued_calls_without_a_page_are_not_judged(
    case: Case, seen: Observation
) -> None:
    empty = replace(case, calls=(Call(()), Call(())))
    result = queued_calls_act_in_order(empty, seen)
    assert result == NotJudged("queued_calls_act_in_order", "no call lists a page")


def test_a_replay_names_the_ids_that_it_was_made_with(
    case: Case, seen: Observation
) -> None:
    bad = replace(seen, replayed=Replayed(0, (2, 3), missed=WRONG))
    result = graphs_replay_with_new_ids(case, bad)
    assert whats(result) == [("fault", "listed-byte-not-zero")]
    assert "in a graph, replayed with ids (2, 3)" in claims(result)[0]


def test_a_capture_that_raises_is_refused(case: Case, seen: Observation) -> None:
    bad = replace(seen, replayed=Replayed(0, (2,), raised=RAISED))
    result = graphs_replay_with_new_ids(case, bad)
    assert whats(result) == [("refusal", "call-refused")]


def test_kept_memory_is_a_fault(case: Case, seen: Observation) -> None:
    result = calls_keep_no_memory(case, replace(seen, kept_bytes=1_024))
    assert whats(result) == [("fault", "memory-kept")]
    assert claims(result)[0].startswith("1,024 B of device memory are kept by each")


def test_a_wait_is_a_cost_and_names_its_call(case: Case, seen: Observation) -> None:
    waits = replace(FINE, host_waits=2)
    result = calls_do_not_wait(case, replace(seen, calls=(FINE, waits)))
    assert whats(result) == [("cost", "host-waits")]
    assert claims(result) == [
        "the host waited for the device 2 times, but should only queue work [call 2 of "
        "2: zero((3,))]"
    ]


def test_a_wait_of_a_call_that_raised_is_no_cost(case: Case, seen: Observation) -> None:
    refused = replace(FINE, host_waits=1, raised=RAISED)
    result = calls_do_not_wait(case, replace(seen, calls=(FINE, refused)))
    assert result == Holds("calls_do_not_wait")


def test_waits_are_judged_of_calls_that_finished(case: Case, seen: Observation) -> None:
    refused = CallObservation(raised=RAISED)
    result = calls_do_not_wait(case, replace(seen, calls=(refused, refused)))
    assert result == NotJudged("calls_do_not_wait", "no call finished")


def test_what_a_worker_saw_of_calls_together_is_told_whole(seen: Observation) -> None:
    told = replace(
        seen,
        queued=Queued(WRONG, WRONG, RAISED, 1),
        replayed=Replayed(0, (2, 3), WRONG, WRONG, RAISED),
    )
    assert from_json(to_json(told)) == told
    assert from_json(to_json(replace(seen, queued=None, replayed=None))).queued is None
