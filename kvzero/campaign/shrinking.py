"""Shrinking what a campaign has found, in isolation: the case may kill its process.

`polish` does all of it: it needs a case, and not Hypothesis's choices, which died with
the worker. What a GPU has shown is shrunk on the footprint where that shows the same
violation, and confirmed on the GPU; a hang is shrunk with a short deadline, and
confirmed with the whole one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvzero.campaign.fuzz import RETRIES
from kvzero.campaign.judging import Judge
from kvzero.campaign.polish import polish
from kvzero.campaign.tally import Found
from kvzero.case import Case
from kvzero.properties.verdict import Identity

HANG_SECONDS = 3.0
"""Deadline of a case while a hang is shrunk: cases take milliseconds."""


def shrunk(
    found: Found,
    judge: Judge,
    quicker: Sequence[Judge],
    is_over: Callable[[], bool],
) -> Found:
    """Return a violation with the smallest case that shows it; flaky if none does.

    Args:
        found: The violation, with a case.
        judge: Has the last word.
        quicker: Judges to shrink with, where they see the same; the best first.
        is_over: Whether the time for it is up.
    """
    identity, case = found.violation.identity, found.judged.case
    if not all(_shows(judge, identity, case) for _ in range(RETRIES)):
        return replace(found, flaky=True)
    for each in (*quicker, judge):
        smallest = _smallest(each, identity, case, is_over)
        confirmed = _confirmed(judge, found, smallest) if smallest != case else None
        if confirmed is not None:
            return confirmed
    return _confirmed(judge, found, case) or replace(found, flaky=True)


def _smallest(
    judge: Judge, identity: Identity, case: Case, is_over: Callable[[], bool]
) -> Case:
    """Return the smallest case by one judge; the case itself where it sees nothing."""

    def fails(candidate: Case) -> bool:
        return not is_over() and _shows(judge, identity, candidate)

    return polish(case, fails, is_over) if fails(case) else case


def _confirmed(judge: Judge, found: Found, case: Case) -> Found | None:
    """Return the violation as a case shows it, or None if it does not."""
    judged = judge(case)
    for violation in judged.violations:
        if violation.identity == found.violation.identity:
            return replace(found, violation=violation, judged=judged, flaky=False)
    return None


def _shows(judge: Judge, identity: Identity, case: Case) -> bool:
    return any(v.identity == identity for v in judge(case).violations)
