"""Whether known findings still are: each is replayed before a run counts on it.

An entry that no longer fails would hide the next fault of its kind, so it is an error.
Where this machine cannot judge the property, nothing can be said, and that is said.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.known import Known
from kvzero.properties.verdict import NotJudged

State = Literal["fails", "no longer fails", "not judged"]


@dataclass(frozen=True)
class Confirmed:
    """A known finding, and what its case showed.

    Attributes:
        known: The finding.
        state: Whether it still fails.
        why: Why that could not be judged, or nothing.
    """

    known: Known
    state: State
    why: str = ""

    @property
    def line(self) -> str:
        """Return the error of an entry that no longer fails."""
        known = self.known
        return (
            f"{known.entry}: {known.subject} on {known.case} no longer breaks "
            f"{known.property} ({known.kind}: {known.what}), but must: remove the entry"
        )


def confirm(judge: Judge, findings: Iterable[Known]) -> tuple[Confirmed, ...]:
    """Replay the findings of a judge's subject, and make them known to the judge.

    Args:
        judge: The judge; what is known does not count from then on.
        findings: Known findings, of other subjects too.
    """
    judge.known = tuple(k for k in findings if k.subject == judge.subject.name)
    return tuple(confirmed(known, judge(known.read_case())) for known in judge.known)


def confirmed(known: Known, judged: Judged) -> Confirmed:
    """Return what its case, judged again, says of a known finding."""
    if any(known.covers(violation) for violation in judged.violations):
        return Confirmed(known, "fails")
    for result in judged.results:
        if isinstance(result, NotJudged) and result.property == known.property:
            return Confirmed(known, "not judged", result.reason)
    return Confirmed(known, "no longer fails")
