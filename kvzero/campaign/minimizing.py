"""A smaller corpus that brings as much: no case goes whose going would lose something.

Each case is judged again, for how near it comes to a limit shows at its launches. Those
that bring the most are kept first; a case goes only if all that it brings is there
without it. What fails, or cannot be judged, stays: doubt deletes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kvzero.campaign.coverage import Coverage, coverage_of
from kvzero.campaign.fuzz import case_size
from kvzero.campaign.judging import Judge
from kvzero.casefile import CaseFile


@dataclass(frozen=True)
class Brings:
    """A case of a corpus.

    Attributes:
        file: Its file.
        coverage: What it brings; None: it fails or cannot be judged.
    """

    file: CaseFile
    coverage: Coverage | None


def brought(judge: Judge, file: CaseFile) -> Brings:
    """Return what a case brings, as a subject shows it."""
    judged = judge(file.case)
    if judge.failures(judged) or judged.observation.died is not None:
        return Brings(file, None)
    return Brings(file, coverage_of(file.case, judged.observation.launches))


def superfluous(cases: Iterable[Brings]) -> list[CaseFile]:
    """Return the cases that bring nothing besides the others, which all stay."""
    certain = [(each.file, each.coverage) for each in cases if each.coverage]
    certain.sort(key=lambda each: (-each[1].num_pairs, case_size(each[0].case)))
    together = Coverage()
    chosen = [pair for pair in certain if together.add(pair[1])]
    needed = _without_needless(chosen)
    return [file for file, _ in certain if file not in needed]


def _without_needless(chosen: list[tuple[CaseFile, Coverage]]) -> list[CaseFile]:
    """Return the chosen cases, less those that later ones have made needless."""
    needed = list(chosen)
    for pair in chosen:
        others = Coverage()
        for other in needed:
            if other is not pair:
                others.add(other[1])
        if not others.add(pair[1]):
            needed.remove(pair)
    return [file for file, _ in needed]
