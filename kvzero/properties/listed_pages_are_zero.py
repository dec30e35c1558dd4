"""Every byte of a page of a listed block is zero after the call.

What nobody stored because a launch of the call did not run lies at that launch's
kernel: a known launch beyond a limit must not hide bytes that are missed for another
reason.
"""

from collections.abc import Iterator

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.oracle import zeroed_blocks
from kvzero.properties.bytes_seen import byte_violations
from kvzero.properties.verdict import Result, Violation, settle

NAME = "listed_pages_are_zero"
WHAT = "listed-byte-not-zero"


def listed_pages_are_zero(case: Case, observation: Observation) -> Result:
    """Return whether the pages of all listed blocks were zeroed.

    A call that raised is left to other properties: it is a refusal or a bad launch.
    """
    return settle(NAME, _violations(case, observation), _not_judged(case, observation))


def _violations(case: Case, observation: Observation) -> Iterator[Violation]:
    for index, call in enumerate(observation.calls):
        if call.missed.count and call.raised is None:
            unmade = _place_of_unmade_launch(observation, index)
            yield from byte_violations(NAME, WHAT, case, index, call.missed, unmade)


def _place_of_unmade_launch(observation: Observation, index: int) -> str:
    """Return where the kernel is whose launch did not run in a call, empty without."""
    unmade = (
        launch.place
        for launch in observation.launches
        if launch.call == index and launch.fate != "runs"
    )
    return next(unmade, "")


def _not_judged(case: Case, observation: Observation) -> str | None:
    listed = [
        call.bytes_judged
        for index, call in enumerate(observation.calls)
        if call.raised is None
        and len(zeroed_blocks(case.calls[index], case.layout.num_blocks))
        and len(case.layout.table)
    ]
    if not listed:
        return "no finished call lists a page"
    return None if all(listed) else "a call's bytes were not all seen"
