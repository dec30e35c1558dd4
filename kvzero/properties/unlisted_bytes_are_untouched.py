"""Every other byte is as it was: other blocks, padding, guards, foreign memory."""

from collections.abc import Iterator

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.bytes_seen import byte_violations
from kvzero.properties.verdict import Result, Violation, settle

NAME = "unlisted_bytes_are_untouched"
WHAT = "unlisted-byte-stored"


def unlisted_bytes_are_untouched(case: Case, observation: Observation) -> Result:
    """Return whether no call stored a byte that it had no right to."""
    return settle(NAME, _violations(case, observation), _not_judged(observation))


def _violations(case: Case, observation: Observation) -> Iterator[Violation]:
    for index, call in enumerate(observation.calls):
        if call.touched.count:
            yield from byte_violations(NAME, WHAT, case, index, call.touched)


def _not_judged(observation: Observation) -> str | None:
    if not observation.calls:
        return "no call finished"
    judged = all(call.bytes_judged for call in observation.calls)
    return None if judged else "a call's bytes were not all seen"
