"""Every verdict on a drawn observation is what a plain reading of the facts says."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import REFUSED_DTYPES, Case
from kvzero.limits import LIMITS
from kvzero.observation import (
    WARMUP_CALL,
    Observation,
    Queued,
    Replayed,
    WrongBytes,
)
from kvzero.properties import PROPERTIES, Broken, Holds, judge
from kvzero.subjects.protocol import Contract
from tests.properties.drawn import cases, observations
from tests.properties.plain import (
    again_allowed,
    bytes_to_zero,
    is_bad,
    is_bad_for_its_host,
)

Said = tuple[str, str, str, int | None]
"""Kind, what, place and call of a violation."""
Reading = tuple[list[Said], bool]
"""Violations, and whether the property can be judged without one."""


def places(wrong: WrongBytes, unknown: str = "") -> list[str]:
    """Return the places that stored wrong bytes, each once, in order."""
    if not wrong.count:
        return []
    found = [span.writer.place if span.writer else unknown for span in wrong.spans]
    return list(dict.fromkeys(found or [unknown]))


def place_of_unmade(seen: Observation, call: int) -> str:
    """Return the place of the first launch of a call that did not run."""
    made = [run for run in seen.launches if run.call == call and run.fate != "runs"]
    return made[0].place if made else ""


def survives(_: Case, seen: Observation) -> Reading:
    return [("fault", seen.died.what, "", None)] if seen.died else [], True


def accepted(case: Case, seen: Observation) -> Reading:
    rejected = [run.call for run in seen.launches if run.fate == "rejected"]
    if seen.built:
        is_launch = WARMUP_CALL in rejected
        return [] if is_launch else [("refusal", "build-refused", "", None)], False
    legal = [
        i
        for i in range(len(seen.calls))
        if not is_bad(case.calls[i]) and case.calls[i].dtype not in REFUSED_DTYPES
    ]
    return [
        ("refusal", "legal-call-refused", "", i)
        for i in legal
        if seen.calls[i].raised and i not in rejected
    ], bool(legal)


def refused(case: Case, seen: Observation) -> Reading:
    bad = [i for i in range(len(seen.calls)) if is_bad_for_its_host(case.calls[i])]
    found: list[Said] = []
    for i in bad:
        call = seen.calls[i]
        what = (
            "accepted"
            if not call.raised
            else "launched"
            if i in [run.call for run in seen.launches]
            else "stored"
        )
        if what != "stored" or call.stored_bytes:
            found.append(("fault", f"bad-ids-{what}", "", i))
    return found, bool(bad)


def launched(_: Case, seen: Observation) -> Reading:
    found: list[Said] = []
    for row in LIMITS:
        beyond = [run for run in seen.launches if row.breaks(run.shape)]
        for who in dict.fromkeys((run.kernel, run.place) for run in beyond):
            same = [run for run in beyond if (run.kernel, run.place) == who]
            worst = max(same, key=lambda run: run.shape.programs)
            kind = "cost" if row.effect == "cost" else "fault"
            found.append((kind, row.name, who[1], called(worst.call)))
    found += [
        ("fault", f"launch-{run.fate}", run.place, called(run.call))
        for run in seen.launches
        if run.fate != "runs" and not any(row.breaks(run.shape) for row in LIMITS)
    ]
    return found, bool(seen.launches)


def called(index: int) -> int | None:
    return None if index == WARMUP_CALL else index


def without_views(_: Case, __: Observation) -> Reading:
    return [], False


def zero(case: Case, seen: Observation) -> Reading:
    done = [i for i, call in enumerate(seen.calls) if not call.raised]
    listed = [i for i in done if bytes_to_zero(case, case.calls[i])]
    return [
        ("fault", "listed-byte-not-zero", place, i)
        for i in done
        for place in places(seen.calls[i].missed, place_of_unmade(seen, i))
    ], bool(listed) and all(seen.calls[i].bytes_judged for i in listed)


def untouched(case: Case, seen: Observation) -> Reading:
    unseen = [
        i
        for i, call in enumerate(seen.calls)
        if call.raised and is_bad(case.calls[i]) != is_bad_for_its_host(case.calls[i])
    ]
    all_seen = all(call.bytes_judged for call in seen.calls)
    is_judged = seen.semantics == "machine" or not unseen
    return [
        ("fault", "unlisted-byte-stored", place, i)
        for i, call in enumerate(seen.calls)
        for place in places(call.touched)
    ], bool(seen.calls) and all_seen and is_judged


def together(done: Queued | Replayed) -> list[Said]:
    if done.raised:
        return [("refusal", "call-refused", "", None)]
    wrong = {
        "listed-byte-not-zero": done.missed.count,
        "unlisted-byte-changed": done.touched.count,
    }
    return [("fault", what, "", None) for what, count in wrong.items() if count]


def queued(case: Case, seen: Observation) -> Reading:
    if seen.queued is None:
        return [], False
    lists_pages = any(bytes_to_zero(case, call) for call in case.calls)
    return together(seen.queued), lists_pages and seen.queued.waited_in is None


def replayed(_: Case, seen: Observation) -> Reading:
    return (together(seen.replayed), True) if seen.replayed else ([], False)


def stepped(seen: Observation, promises: bool) -> Reading:
    found: list[Said] = [
        ("fault", step.kind, step.place, i)
        for i, call in enumerate(seen.calls)
        for step in call.missteps
        if (step.kind == "false-promise") == promises
    ]
    ran = any(call.programs for call in seen.calls)
    return found, ran and seen.semantics == "TTIR"


def compiled(_: Case, seen: Observation) -> Reading:
    served = [run.call for run in seen.launches if run.call != WARMUP_CALL]
    last = WARMUP_CALL if seen.has_warmup or not served else min(served)
    known = {run.variant for run in seen.launches if run.call in (WARMUP_CALL, last)}
    later = [run for run in seen.launches if run.call > last]
    found: list[Said] = []
    for run in later:
        if run.variant not in known:
            found.append(("fault", "compiled-in-a-call", run.place, run.call))
        known.add(run.variant)
    return found, bool(later)


def kept(_: Case, seen: Observation) -> Reading:
    found: list[Said] = [("fault", "memory-kept", "", None)] if seen.kept_bytes else []
    return found, seen.kept_bytes is not None


def waited(_: Case, seen: Observation) -> Reading:
    done = [i for i, call in enumerate(seen.calls) if not call.raised]
    waits = [i for i in done if seen.calls[i].host_waits]
    if seen.queued and seen.queued.waited_in is not None:
        waits.append(seen.queued.waited_in)
    is_seen = all(seen.calls[i].host_waits is not None for i in done)
    return [("cost", "host-waits", "", i) for i in waits], bool(done) and is_seen


def worked(case: Case, seen: Observation) -> Reading:
    # Pages of less than 4 KiB, and few: 4,096 programs are more than 4 for each.
    assert all(run.page_bytes <= 4096 for run in case.layout.runs)
    return [
        ("cost", "too-many-programs", "", i)
        for i, call in enumerate(seen.calls)
        if call.programs > 4096
    ], any(call.programs for call in seen.calls)


def stored(case: Case, seen: Observation) -> Reading:
    told = [call for call in seen.calls if call.again_bytes is not None]
    return [
        ("cost", "stored-again", call.again_by.place if call.again_by else "", i)
        for i, call in enumerate(seen.calls)
        if (call.again_bytes or 0) > max(0, again_allowed(case, case.calls[i]))
    ], any(call.stored_bytes for call in told)


READINGS: dict[str, Callable[[Case, Observation], Reading]] = {
    "the_process_survives": survives,
    "legal_calls_are_accepted": accepted,
    "bad_ids_are_refused": refused,
    "launches_fit_the_platform": launched,
    "pages_cover_their_views": without_views,
    "listed_pages_are_zero": zero,
    "unlisted_bytes_are_untouched": untouched,
    "queued_calls_act_in_order": queued,
    "graphs_replay_with_new_ids": replayed,
    "promises_hold": lambda _, seen: stepped(seen, promises=True),
    "results_are_defined": lambda _, seen: stepped(seen, promises=False),
    "warm_calls_compile_nothing": compiled,
    "calls_keep_no_memory": kept,
    "calls_do_not_wait": waited,
    "work_is_bounded": worked,
    "bytes_are_stored_once": stored,
}


def expected(name: str, case: Case, seen: Observation) -> list[Said] | str:
    """Return the violations of a property; or that it holds, or is not judged."""
    found, is_judged = READINGS[name](case, seen)
    if found:
        return found
    told = [why for what, why in seen.not_judged if what in (name, "*")]
    if told:
        return f"not judged: {told[0]}"
    if name != "the_process_survives" and (seen.died or seen.built):
        return "not judged"
    return "holds" if is_judged else "not judged"


def was_judged(result: object, told: bool) -> list[Said] | str:
    if isinstance(result, Broken):
        return [(v.kind, v.what, v.place, v.call) for v in result.violations]
    if isinstance(result, Holds):
        return "holds"
    reason = getattr(result, "reason", "")
    return f"not judged: {reason}" if told else "not judged" if reason else "silent"


@pytest.mark.slow
@given(st.data())
def test_every_property_is_what_a_plain_reading_says(data: st.DataObject) -> None:
    case = data.draw(cases())
    seen = data.draw(observations(case))
    assert list(READINGS) == list(PROPERTIES)
    results = judge(case, seen, Contract())
    assert len(set(results)) == len(PROPERTIES)
    for result in results:
        wanted = expected(result.property, case, seen)
        told = isinstance(wanted, str) and ":" in wanted
        assert (result.property, was_judged(result, told)) == (result.property, wanted)
