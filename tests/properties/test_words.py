"""The numbers and places of a text are those of the facts that it tells."""

import ast
import re
from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Arrival, Call, Case, id_runs
from kvzero.limits import LaunchShape
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Launch,
    Misstep,
    Observation,
    Queued,
    Raised,
    Writer,
    WrongBytes,
)
from kvzero.poison import poison_at
from kvzero.properties.bytes_are_stored_once import bytes_are_stored_once
from kvzero.properties.bytes_seen import byte_violations
from kvzero.properties.calls_together import together_violations
from kvzero.properties.location import locate
from kvzero.properties.missteps_seen import misstep_violations
from kvzero.properties.verdict import Broken, Violation
from kvzero.properties.wording import (
    arrival_text,
    case_text,
    counted,
    ids_text,
    launch_text,
)
from kvzero.properties.work_is_bounded import allowed_programs, work_is_bounded
from tests.properties.drawn import ARRIVALS, SPANS, WRITERS, cases
from tests.properties.plain import again_allowed, bytes_to_zero

IDS = st.lists(st.integers(-9, 99_999), max_size=12)


def numbers(text: str) -> list[int]:
    """Return the numbers of a text, in order."""
    found = re.findall(r"(?<![\w.])-?\d+(?:,\d{3})*(?!\w)", text)
    return [int(number.replace(",", "")) for number in found]


@given(IDS)
def test_a_list_of_ids_is_read_back_or_cut_and_counted(ids: list[int]) -> None:
    text = ids_text(Call(id_runs(ids)))
    if len(ids) <= 8:
        assert ast.literal_eval(text) == tuple(ids)
    else:
        assert ast.literal_eval(text.replace(f"... {len(ids)} ids", "")) == tuple(
            ids[:8]
        )
        assert text.endswith(f", ... {len(ids)} ids)")


@given(st.integers(0, 12_000))
def test_a_count_is_singular_for_one_alone(count: int) -> None:
    number, noun = counted(count, "block").split()
    assert int(number.replace(",", "")) == count
    assert noun == ("block" if count == 1 else "blocks")


@given(st.sampled_from(ARRIVALS), st.integers(0, 5), st.integers(1, 5))
def test_an_arrival_is_told_with_its_numbers(
    arrival: Arrival, offset: int, step: int
) -> None:
    text = arrival_text(Call((), arrival, "int32", offset, step))
    assert numbers(text) == ([] if arrival == "list" else [offset, step])
    assert arrival in text
    assert ("tensor" in text) == (arrival not in ("list", "array"))
    assert text.count("tensor") <= 1


@given(cases(), st.data())
def test_a_case_is_told_in_numbers(case: Case, data: st.DataObject) -> None:
    table, calls = len(case.layout.table), len(case.calls)
    assert numbers(case_text(case)) == [table, case.layout.num_blocks, calls]
    index = data.draw(st.integers(0, calls - 1))
    text = case_text(case, index)
    assert numbers(text)[:2] == [table, case.layout.num_blocks]
    assert text.endswith(ids_text(case.calls[index]))


@given(st.tuples(*[st.integers(1, 9)] * 3), st.integers(0, 2))
def test_a_launch_is_told_with_its_grid_and_constants(
    grid: tuple[int, int, int], constants: int
) -> None:
    made = tuple((f"N{i}", i + 10) for i in range(constants))
    text = launch_text(Launch(0, "zero", "k.py:1", LaunchShape(grid), constants=made))
    assert numbers(text)[:3] == list(grid)
    assert re.findall(r"(\w+)=(\w+)", text) == [(n, str(v)) for n, v in made]
    assert (" with " in text) == bool(made)


def value_before(case: Case, index: int, span: ByteSpan) -> int | None:
    """Return what lay at the first byte of a span before a call, if that is known."""
    at = span.offset_bytes
    if span.allocation is None:
        return None
    if any(at in bytes_to_zero(case, call) for call in case.calls[:index]):
        return 0
    return int(poison_at(case.seed, span.allocation, np.array([at]))[0])


@given(
    cases(),
    st.lists(SPANS, max_size=3).map(tuple),
    st.sampled_from(["listed-byte-not-zero", "unlisted-byte-stored"]),
    st.data(),
)
def test_wrong_bytes_are_told_with_their_values_and_places(
    case: Case, spans: tuple[ByteSpan, ...], what: str, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(case.calls) - 1))
    wrong = WrongBytes(1_234, spans)
    found = list(byte_violations("p", what, case, index, wrong))
    groups: dict[str, list[ByteSpan]] = {}
    for span in spans:
        groups.setdefault(span.writer.place if span.writer else "", []).append(span)
    assert [violation.place for violation in found] == list(groups or [""])
    for violation, own in zip(found, groups.values()):
        assert_first_byte_is_told(violation, case, index, own[0])
        assert_bytes_are_placed(violation, case, own)
    for violation in found:
        ids = dict(violation.details).get("ids")
        call = case.calls[index]
        assert ids == (None if call.arrival == "list" else arrival_text(call))


def assert_first_byte_is_told(
    violation: Violation, case: Case, index: int, span: ByteSpan
) -> None:
    missed = violation.what == "listed-byte-not-zero"
    before = 0 if missed else value_before(case, index, span)
    values = re.findall(r"0x(..)", violation.claim)
    where = str(locate(case.layout, span.allocation, span.offset_bytes))
    assert violation.claim.startswith(where)
    if before is not None and span.seen and span.seen[0] != before:
        assert [int(value, 16) for value in values] == [span.seen[0], before]
        assert "stored" not in violation.claim
    else:
        assert ("was not stored" in violation.claim) == missed
        assert values == (["00"] if missed else [])
    writer = dict(violation.details).get("written")
    assert (writer is None) == (span.writer is None)
    if span.writer is not None and writer is not None:
        assert numbers(writer)[:3] == list(span.writer.program)


def assert_bytes_are_placed(
    violation: Violation, case: Case, spans: list[ByteSpan]
) -> None:
    def positions() -> Iterator[tuple[int | None, int]]:
        for span in spans:
            for step in range(span.length_bytes):
                yield span.allocation, span.offset_bytes + step

    first = [locate(case.layout, *at) for at in list(positions())[:3]]
    head, _, tail = dict(violation.details)["where"].partition(" wrong bytes: ")
    assert head.endswith(f"first {len(first)} of 1,234")
    same = [(p.owner, p.segment) == (first[0].owner, first[0].segment) for p in first]
    assert tail == ", ".join(
        f"{p.byte}" if is_same else f"{p.byte} of {p.owner}"
        for p, is_same in zip(first, same)
    )
    segment = first[0].segment
    if segment is None:
        assert head.startswith(first[0].owner)
    else:
        run = case.layout.runs[segment]
        total = len(case.layout.runs)
        assert numbers(head)[:4] == [segment, total, run.page_bytes, run.stride_bytes]


@given(cases(), st.lists(st.sampled_from(["", "a", "b c"]), min_size=1, max_size=3))
def test_a_refusal_of_calls_together_tells_its_first_line(
    case: Case, lines: list[str]
) -> None:
    seen = Queued(raised=Raised("E", "\n".join(lines)))
    (violation,) = together_violations("p", seen, case, "calls")
    assert violation.details == (("message", lines[0]),)


@given(cases(), st.lists(SPANS, max_size=5), st.integers(1, 5_000))
def test_wrong_bytes_of_calls_together_are_placed(
    case: Case, spans: list[ByteSpan], count: int
) -> None:
    seen = Queued(touched=WrongBytes(count, tuple(spans)))
    (violation,) = together_violations("p", seen, case, "calls")
    where = [str(locate(case.layout, s.allocation, s.offset_bytes)) for s in spans]
    assert violation.claim.startswith(where[0] if where else "a byte")
    text = dict(violation.details)["where"]
    assert numbers(text)[0] == count
    assert text.endswith(f"from {'; '.join(where[:3])}")


@given(
    cases(),
    st.none() | st.integers(0, 3),
    st.none() | st.tuples(*[st.integers(0, 9)] * 3),
    st.integers(4_097, 9_000),
    st.data(),
)
def test_programs_that_did_nothing_are_told_with_the_kernels_of_their_call(
    case: Case,
    idle: int | None,
    first: tuple[int, int, int] | None,
    programs: int,
    data: st.DataObject,
) -> None:
    index = data.draw(st.integers(0, len(case.calls) - 1))
    own = CallObservation(programs=programs, idle_programs=idle, idle_program=first)
    made = [CallObservation() for _ in case.calls]
    made[index] = own
    calls = data.draw(st.lists(st.integers(-1, len(made) - 1), max_size=4))
    launches = tuple(
        Launch(call, "zero", f"k.py:{at % 3}", LaunchShape((1, 1, 1)))
        for at, call in enumerate(calls)
    )
    seen = Observation("s", "footprint", "TTIR", "", tuple(made), launches)
    result = work_is_bounded(case, seen)
    assert isinstance(result, Broken)
    (violation,) = result.violations
    assert numbers(violation.claim)[:2] == [programs, allowed_programs(case, index)]
    told = dict(violation.details).get("idle")
    assert (told is not None) == bool(idle and first is not None)
    if told is not None and idle and first is not None:
        assert numbers(told)[:4] == [idle, *first]
        places = [f"k.py:{at % 3}" for at, call in enumerate(calls) if call == index]
        assert re.findall(r"k.py:\d", told) == list(dict.fromkeys(places))


@given(cases(), st.none() | WRITERS, st.none() | st.integers(0, 8), st.data())
def test_bytes_stored_again_are_told_with_their_numbers(
    case: Case, writer: Writer | None, narrowest: int | None, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(case.calls) - 1))
    own = CallObservation(
        stored_bytes=70_000,
        again_bytes=60_000,
        again_by=writer,
        narrowest_store_bytes=narrowest,
    )
    made = [CallObservation() for _ in case.calls]
    made[index] = own
    seen = Observation("s", "footprint", "TTIR", "", tuple(made))
    result = bytes_are_stored_once(case, seen)
    assert isinstance(result, Broken)
    (violation,) = result.violations
    details = dict(violation.details)
    assert ("written" in details) == (writer is not None)
    assert ("width" in details) == bool(narrowest)
    assert numbers(details["stored"]) == [70_000]
    named = numbers(violation.claim.partition("[")[0])
    assert named[0] == 60_000
    assert len(named) == (2 if again_allowed(case, case.calls[index]) else 1)


@given(cases(), st.integers(1, 3) | st.integers(1, 9999), st.booleans())
def test_a_misstep_is_told_with_its_program_and_how_many_more(
    case: Case, count: int, is_asked: bool
) -> None:
    step = Misstep("race", "a race", "k.py:7", (3, 2, 1), count)
    call = CallObservation(missteps=(step,))
    seen = Observation("s", "footprint", "TTIR", "cuda:90", (call,) * len(case.calls))
    kinds = ("race", "other") if is_asked else ("other",)
    found = list(misstep_violations("p", kinds, case, seen))
    assert len(found) == len(case.calls) * is_asked
    for index, violation in enumerate(found):
        others = f", and {count - 1:,} more" if count > 1 else ""
        where = f"program (3, 2, 1){others} at k.py:7"
        assert violation.details == (("where", where),)
        assert (violation.what, violation.call) == ("race", index)
