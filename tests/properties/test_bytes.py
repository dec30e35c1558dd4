"""The two properties of bytes: verdicts, and how they locate a wrong byte."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvzero.case import Case
from kvzero.limits import Fate, LaunchShape
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Launch,
    Observation,
    Raised,
    Writer,
    WrongBytes,
)
from kvzero.properties import Broken, Holds, NotJudged, judge
from kvzero.properties.listed_pages_are_zero import listed_pages_are_zero
from kvzero.properties.location import locate
from kvzero.properties.unlisted_bytes_are_untouched import unlisted_bytes_are_untouched
from kvzero.properties.verdict import Result, Violation
from kvzero.subjects.protocol import Contract

Observe = Callable[..., Observation]
FINE = CallObservation(stored_bytes=800, programs=4)


def only_violation(result: Result) -> Violation:
    assert isinstance(result, Broken)
    (violation,) = result.violations
    return violation


def test_calls_without_wrong_bytes_hold(case: Case, observe: Observe) -> None:
    seen = observe(FINE, FINE)
    assert listed_pages_are_zero(case, seen) == Holds("listed_pages_are_zero")
    assert unlisted_bytes_are_untouched(case, seen) == Holds(
        "unlisted_bytes_are_untouched"
    )


@pytest.mark.parametrize(
    ("semantics", "judged"),
    [("TTIR", NotJudged), ("interpreter", NotJudged), ("machine", Holds)],
)
def test_a_refusal_that_only_host_memory_allows_says_nothing_of_a_kernel(
    bad_case: Case, observe: Observe, semantics: str, judged: type[Result]
) -> None:
    refused = CallObservation(raised=Raised("BlockIdError", "-1", is_value_error=True))
    result = unlisted_bytes_are_untouched(
        bad_case, observe(refused, refused, refused, semantics=semantics)
    )
    assert isinstance(result, judged)
    if isinstance(result, NotJudged):
        assert result.reason.startswith("calls[2] was refused for an id on the device")
    accepted = observe(refused, refused, FINE, semantics=semantics)
    assert isinstance(unlisted_bytes_are_untouched(bad_case, accepted), Holds)


def test_a_missed_byte_is_located(case: Case, observe: Observe) -> None:
    # Block 1, segment 1: 512 + 128 + 17.
    wrong = WrongBytes(239, (ByteSpan(0, 657, 239, b"\xab\x01"),))
    seen = observe(CallObservation(missed=wrong), FINE)
    violation = only_violation(listed_pages_are_zero(case, seen))
    assert violation.identity == (
        "listed_pages_are_zero",
        "fault",
        "listed-byte-not-zero",
        "",
    )
    assert violation.lines() == [
        "listed_pages_are_zero: block 1, byte 17 = 0xab, but should be 0x00 "
        "[call 1 of 2: zero((1, 2))]",
        "  where    segment 1 of 2 (page 272 B, stride 512 B), first 3 of 239 wrong "
        "bytes: 17, 18, 19",
    ]


@pytest.mark.parametrize(
    ("call", "fate", "place"),
    [(0, "skipped", "k.py:7"), (0, "runs", ""), (1, "skipped", "")],
)
def test_a_byte_missed_by_a_launch_that_did_not_run_lies_at_its_kernel(
    case: Case, observe: Observe, call: int, fate: Fate, place: str
) -> None:
    wrong = WrongBytes(239, (ByteSpan(0, 657, 239, b"\xab\x01"),))
    launch = Launch(call, "k", "k.py:7", LaunchShape((1, 1, 1)), fate)
    seen = observe(CallObservation(missed=wrong), FINE, launches=(launch,))
    assert only_violation(listed_pages_are_zero(case, seen)).identity.place == place


def test_a_touched_byte_names_its_writer_and_value(
    case: Case, observe: Observe
) -> None:
    writer = Writer((1, 0, 0), "kernels.py:41")
    spans = (ByteSpan(0, 1536, 1, b"\0", writer), ByteSpan(0, -3, 1, b"\0", writer))
    seen = observe(CallObservation(touched=WrongBytes(2, spans)), FINE)
    violation = only_violation(unlisted_bytes_are_untouched(case, seen))
    assert violation.place == "kernels.py:41"
    first, *rest = violation.lines()
    assert first.startswith("unlisted_bytes_are_untouched: block 3, byte 0 = 0x00, but")
    assert rest == [
        "  where    segment 0 of 2 (page 128 B, stride 512 B), first 2 of 2 wrong "
        "bytes: 0, -3 of guard before allocation 0",
        "  written  by program (1, 0, 0) at kernels.py:41",
    ]


def test_a_byte_zeroed_by_an_earlier_call_should_stay_zero(
    case: Case, observe: Observe
) -> None:
    touched = WrongBytes(1, (ByteSpan(0, 512, 1, b"\x05"),))
    seen = observe(FINE, CallObservation(touched=touched))
    violation = only_violation(unlisted_bytes_are_untouched(case, seen))
    assert "block 1, byte 0 = 0x05, but should be 0x00 [call 2" in violation.headline


def test_a_byte_stored_with_its_own_value_is_told_so(
    case: Case, observe: Observe
) -> None:
    seen = observe(CallObservation(touched=WrongBytes(1, (ByteSpan(0, 400, 1),))), FINE)
    violation = only_violation(unlisted_bytes_are_untouched(case, seen))
    assert violation.claim.startswith(
        "padding of block 0, byte 400 was stored, but must stay untouched"
    )


def test_wrong_bytes_of_two_lines_are_two_violations(
    case: Case, observe: Observe
) -> None:
    spans = tuple(
        ByteSpan(0, at, 1, b"\0", Writer((0, 0, 0), place))
        for at, place in ((400, "k.py:1"), (401, "k.py:2"), (402, "k.py:1"))
    )
    seen = observe(CallObservation(touched=WrongBytes(3, spans)), FINE)
    result = unlisted_bytes_are_untouched(case, seen)
    assert isinstance(result, Broken)
    assert [v.place for v in result.violations] == ["k.py:1", "k.py:2"]


def test_a_call_that_raised_is_not_blamed_for_missing_bytes(
    case: Case, observe: Observe
) -> None:
    wrong = WrongBytes(800, (ByteSpan(0, 512, 128, b"\1"),))
    raised = CallObservation(raised=Raised("OverflowError", "too big"), missed=wrong)
    seen = observe(raised, raised)
    assert isinstance(listed_pages_are_zero(case, seen), NotJudged)


def test_bytes_that_were_not_seen_are_not_judged(case: Case, observe: Observe) -> None:
    seen = observe(FINE, CallObservation(bytes_judged=False))
    assert isinstance(listed_pages_are_zero(case, seen), NotJudged)
    assert isinstance(unlisted_bytes_are_untouched(case, seen), NotJudged)


def test_empty_lists_say_nothing_of_listed_pages(case: Case, observe: Observe) -> None:
    empty = replace(case, calls=tuple(replace(c, ids=()) for c in case.calls))
    seen = observe(CallObservation(), CallObservation())
    assert isinstance(listed_pages_are_zero(empty, seen), NotJudged)
    assert isinstance(unlisted_bytes_are_untouched(empty, seen), Holds)


def test_the_whole_text_ends_with_the_case(case: Case, observe: Observe) -> None:
    touched = WrongBytes(1, (ByteSpan(None, 0x7000, 1, b"\0"),))
    seen = observe(CallObservation(touched=touched), FINE)
    results = {r.property: r for r in judge(case, seen, Contract())}
    violation = only_violation(results["unlisted_bytes_are_untouched"])
    assert violation.lines(("replay", "kvzero replay x.json")) == [
        "unlisted_bytes_are_untouched: memory outside the case, byte 28672 was stored, "
        "but must stay untouched [call 1 of 2: zero((1, 2))]",
        "  where    memory outside the case, first 1 of 1 wrong bytes: 28672",
        "  case     2 segments, 4 blocks, ids (1, 2)",
        "  replay   kvzero replay x.json",
    ]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, "block 0, byte 0"),
        (127, "block 0, byte 127"),
        (128, "block 0, byte 0"),
        (1935, "block 3, byte 271"),
        (1936, "padding of block 3, byte 400"),
        (-1, "guard before allocation 0, byte -1"),
        (2048, "guard after allocation 0, byte 0"),
    ],
)
def test_each_byte_has_a_place(case: Case, offset: int, expected: str) -> None:
    assert str(locate(case.layout, 0, offset)) == expected


def test_a_byte_without_tile_or_page_has_a_place(case: Case) -> None:
    layout = replace(case.layout, tiles=())
    place = locate(layout, 0, 400)
    assert str(place) == "allocation 0 outside every page, byte 400"
