"""What a run has judged so far, and the exit code that follows from it.

Nothing judged is never green: a run in which no case was judged, or no case's bytes,
ends with exit code 5. Of a saved case it is enough to judge the property that it was
saved for: a launch may show that where the bytes are beyond the cap.
"""

from collections import Counter
from dataclasses import dataclass, field

from kvzero.campaign.judging import Judged
from kvzero.campaign.known import Known
from kvzero.observation import CallObservation, Launch
from kvzero.properties.registry import BYTE_PROPERTIES
from kvzero.properties.verdict import Identity, NotJudged, Violation

EXIT_OK = 0
EXIT_FAULT = 1
EXIT_USAGE = 2
EXIT_HARNESS = 3
EXIT_NOTHING_JUDGED = 5
EXIT_INTERRUPTED = 130


@dataclass
class Found:
    """One distinct violation: how often it was seen, and one case that shows it.

    Attributes:
        violation: The violation.
        judged: The case that shows it, with what was seen.
        count: Cases that broke the property so.
        file: Where the case is saved, if it is.
        replay: The command that runs it again, if there is one.
        flaky: It did not show again.
        known: The known finding that it is, if so: it does not make the run fail.
    """

    violation: Violation
    judged: Judged
    count: int = 1
    file: str | None = None
    replay: str | None = None
    flaky: bool = False
    known: Known | None = None


@dataclass
class Tally:
    """Counts of one run of one subject.

    Attributes:
        cases: Cases that were run.
        answered: Saved cases of which the property that they were saved for was judged.
        launches: Launches that were seen.
        programs: Programs of launches, warm-ups excepted.
        idle_programs: Programs that stored nothing, where single stores are seen.
        narrowest_store_bytes: Bytes of the narrowest store; 0: none was seen.
        judged: Cases in which each property was judged.
        not_judged: Cases by property that was not judged, and the reason.
        found: Distinct violations.
        environments: Cases by executor, semantics and versions.
        largest: The largest launch, warm-ups excepted.
    """

    cases: int = 0
    answered: int = 0
    launches: int = 0
    programs: int = 0
    idle_programs: int = 0
    narrowest_store_bytes: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    not_judged: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: dict[Identity, Found] = field(default_factory=dict)
    environments: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    largest: Launch | None = None

    def add(self, judged: Judged) -> None:
        """Count one case."""
        seen = judged.observation
        self.cases += 1
        self.environments[seen.executor, seen.semantics, seen.environment] += 1
        self.launches += len(seen.launches)
        for launch in seen.launches:
            if not launch.is_of_warmup:
                self.programs += launch.shape.programs
                self.largest = max(
                    self.largest or launch, launch, key=lambda seen: seen.shape.programs
                )
        for call in seen.calls:
            self._add_stores(call)
        for result in judged.results:
            if isinstance(result, NotJudged):
                self.not_judged[result.property, result.reason] += 1
            else:
                self.judged[result.property] += 1
        distinct: dict[Identity, Violation] = {}
        for violation in judged.violations:  # one call after another may break it
            distinct.setdefault(violation.identity, violation)
        for violation in distinct.values():
            self.note(violation, judged)

    def _add_stores(self, call: CallObservation) -> None:
        """Count what single stores cost, where the executor sees them."""
        self.idle_programs += call.idle_programs or 0
        seen = {self.narrowest_store_bytes, call.narrowest_store_bytes or 0} - {0}
        self.narrowest_store_bytes = min(seen, default=0)

    def note(self, violation: Violation, judged: Judged) -> None:
        """Count one violation, and keep the first case of each distinct one."""
        known = self.found.get(violation.identity)
        if known is None:
            finding = judged.known.get(violation.identity)
            self.found[violation.identity] = Found(violation, judged, known=finding)
        else:
            known.count += 1

    def exit_code(self, *, strict_cost: bool = False) -> int:
        """Return the exit code of the run."""
        counted = (found for found in self.found.values() if found.known is None)
        kinds = {found.violation.kind for found in counted}
        if kinds & ({"fault", "refusal"} | ({"cost"} if strict_cost else set())):
            return EXIT_FAULT
        if not self.answered and not any(self.judged[name] for name in BYTE_PROPERTIES):
            return EXIT_NOTHING_JUDGED
        return EXIT_OK


VERDICTS = {
    EXIT_OK: "no fault found",
    EXIT_FAULT: "fault",
    EXIT_NOTHING_JUDGED: "nothing judged",
    EXIT_INTERRUPTED: "interrupted",
}
"""The word of a verdict, by exit code."""
