"""What a run says at its end: the totals of each group, and every survivor.

The score counts survivors that are named as survivors; it is shown without them, too.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.mutation.identity import Identity
from tests.mutation.survivors import Named, reason_of

ENOUGH = 0.95
"""Share of a group's mutants that must be killed."""


@dataclass(frozen=True)
class Result:
    """What became of one mutant that was run.

    Attributes:
        identity: Its name.
        line: Where it lies.
        end: `killed`, `survived`, `hung` or `ate memory`.
        by: The kind of killer.
        text: What it noticed.
        seconds: Wall-clock time.
        cpu_seconds: Time of the processor.
    """

    identity: Identity
    line: int
    end: str
    by: str
    text: str
    seconds: float
    cpu_seconds: float

    @property
    def survived(self) -> bool:
        """Return whether nothing noticed it."""
        return self.end == "survived"


@dataclass
class GroupTotals:
    """Counts of one group.

    Attributes:
        name: The group.
        listed: Mutants that cosmic-ray lists.
        filtered: Those that are no behaviour, by rule, among those looked at.
        results: What became of those that were run.
        missing: Those chosen that have no result yet.
    """

    name: str
    listed: int
    filtered: Counter[str] = field(default_factory=Counter)
    results: list[Result] = field(default_factory=list)
    missing: int = 0

    @property
    def survivors(self) -> list[Result]:
        """Return the mutants that nothing noticed."""
        return [result for result in self.results if result.survived]

    def unnamed(self, named: tuple[Named, ...]) -> list[Result]:
        """Return the survivors without a reason."""
        return [r for r in self.survivors if reason_of(r.identity, named) is None]

    @property
    def score(self) -> float:
        """Return the share that was killed."""
        killed = len(self.results) - len(self.survivors)
        return killed / len(self.results) if self.results else 0.0

    def is_good(self, named: tuple[Named, ...]) -> bool:
        """Return whether enough were killed and every survivor has its reason."""
        return not self.missing and self.score >= ENOUGH and not self.unnamed(named)

    def ends(self) -> Counter[str]:
        """Return how mutants ended: by which killer, or how else."""
        return Counter(r.by if r.end == "killed" else r.end for r in self.results)


def stale(totals: Sequence[GroupTotals], named: tuple[Named, ...]) -> list[str]:
    """Return the named survivors that were killed."""
    return [
        f"{result.identity.module}:{result.line} {result.identity.after}"
        for group in totals
        for result in group.results
        if not result.survived and reason_of(result.identity, named) is not None
    ]


def lines_of(totals: Sequence[GroupTotals], named: tuple[Named, ...]) -> Iterator[str]:
    """Yield the lines of the report."""
    head = ("group", "listed", "filtered", "run", "killed", "named", "open", "score")
    yield ("{:11}" + "{:>9}" * 7).format(*head)
    for group in totals:
        unnamed = len(group.unnamed(named))
        yield (
            f"{group.name:11}{group.listed:9}{group.filtered.total():9}"
            f"{len(group.results):9}{len(group.results) - len(group.survivors):9}"
            f"{len(group.survivors) - unnamed:9}{unnamed:9}{group.score:9.1%}"
        )
    for group in totals:
        seconds = sum(result.cpu_seconds for result in group.results)
        yield f"{group.name}: {_counts(group.ends())}; {seconds:.0f} CPU s"
        if group.filtered:
            yield f"  not run, by rule: {_counts(group.filtered)}"
        if group.missing:
            yield f"  without a result: {group.missing}; run again to go on"
    for group in totals:
        yield from _survivor_lines(group, named)
    for line in stale(totals, named):
        yield f"named as a survivor, and killed: {line}"


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _survivor_lines(group: GroupTotals, named: tuple[Named, ...]) -> Iterator[str]:
    for result in sorted(group.survivors, key=lambda r: (r.identity, r.line)):
        mutant = result.identity
        reason = reason_of(mutant, named)
        yield f"survived: {mutant.module}:{result.line} {mutant.definition}"
        yield f"  - {mutant.before}"
        yield f"  + {mutant.after}"
        yield f"  {'named: ' + reason if reason else 'OPEN'}"


def as_json(
    totals: Sequence[GroupTotals], named: tuple[Named, ...]
) -> dict[str, Any]:  # Any: a JSON document
    """Return the totals as plain data."""
    return {
        group.name: {
            "listed": group.listed,
            "filtered": dict(group.filtered),
            "run": len(group.results),
            "ends": dict(group.ends()),
            "score": round(group.score, 4),
            "missing": group.missing,
            "survivors": [
                {
                    **vars(result.identity),
                    "line": result.line,
                    "reason": reason_of(result.identity, named),
                }
                for result in group.survivors
            ],
        }
        for group in totals
    }
