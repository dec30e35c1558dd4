"""No call makes the host wait for the device.

A cost: the bytes are right, and the server stalls.
"""

from collections.abc import Iterator

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.calls_together import not_seen
from kvzero.properties.verdict import Result, Violation, settle
from kvzero.properties.wording import arrival_text, call_text, counted

NAME = "calls_do_not_wait"
WHAT = "host-waits"


def calls_do_not_wait(case: Case, observation: Observation) -> Result:
    """Return whether every call returned without waiting for its stream."""
    finished = [call for call in observation.calls if call.raised is None]
    unseen = None if finished else "no call finished"
    if any(call.host_waits is None for call in finished):
        unseen = not_seen(observation)
    return settle(NAME, _violations(case, observation), unseen)


def _violations(case: Case, observation: Observation) -> Iterator[Violation]:
    for index, call in enumerate(observation.calls):
        if call.host_waits and call.raised is None:
            waits = counted(call.host_waits, "time")
            yield _violation(case, index, f"waited for the device {waits}")
    queued = observation.queued
    if queued is not None and queued.waited_in is not None:
        seen = "did not return while its stream was held"
        yield _violation(case, queued.waited_in, seen)


def _violation(case: Case, index: int, seen: str) -> Violation:
    return Violation(
        NAME,
        "cost",
        WHAT,
        f"the host {seen}, but should only queue work {call_text(case, index)}",
        "",
        (("ids", arrival_text(case.calls[index])),),
        index,
    )
