"""Ids outside the cache, and what is no integer, raise before anything is launched.

Ids that arrive on the device are not seen by the host and must only write nothing; the
properties of bytes judge that.
"""

from collections.abc import Iterator

from kvzero.case import REFUSED_DTYPES, Call, Case
from kvzero.observation import CallObservation, Observation
from kvzero.properties.verdict import Result, Violation, settle
from kvzero.properties.wording import arrival_text, call_text, counted

NAME = "bad_ids_are_refused"


def must_raise(call: Call, num_blocks: int) -> bool:
    """Return whether the host can see that a call must be refused."""
    seen = call.arrival != "device" or call.dtype in REFUSED_DTYPES
    return seen and call.must_be_refused(num_blocks)


def bad_ids_are_refused(case: Case, observation: Observation) -> Result:
    """Return whether each bad call raised, launched nothing and stored nothing."""
    bad = [
        (index, seen)
        for index, seen in enumerate(observation.calls)
        if must_raise(case.calls[index], case.layout.num_blocks)
    ]
    violations = [
        v for index, seen in bad for v in _judge(case, observation, index, seen)
    ]
    return settle(NAME, violations, None if bad else "no finished call has bad ids")


def _judge(
    case: Case, observation: Observation, index: int, seen: CallObservation
) -> Iterator[Violation]:
    what_is_bad = _bad_text(case, index)
    if seen.raised is None:
        text = f"{what_is_bad}, but was accepted"
        yield _violation(case, index, "bad-ids-accepted", text)
        return
    launches = sum(launch.call == index for launch in observation.launches)
    if launches:
        ran = f"{counted(launches, 'kernel')} ran before the refusal"
        yield _violation(case, index, "bad-ids-launched", f"{what_is_bad}, but {ran}")
    elif seen.stored_bytes:
        text = f"{what_is_bad}, but {counted(seen.stored_bytes, 'byte')} were stored"
        yield _violation(case, index, "bad-ids-stored", text)


def _bad_text(case: Case, index: int) -> str:
    call, num_blocks = case.calls[index], case.layout.num_blocks
    if call.dtype in REFUSED_DTYPES:
        return f"block_ids has dtype {call.dtype} and must be refused"
    found = call.first_bad_id(num_blocks)
    position, value = found if found is not None else (0, 0)
    return f"block_ids[{position}]={value} is not in range({num_blocks})"


def _violation(case: Case, index: int, what: str, text: str) -> Violation:
    call = case.calls[index]
    return Violation(
        NAME,
        "fault",
        what,
        f"{text} {call_text(case, index)}",
        "",
        (("ids", arrival_text(call)),),
        index,
    )
