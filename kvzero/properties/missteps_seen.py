"""Missteps of programs as violations: shared by the two properties of semantics."""

from collections.abc import Collection, Iterator

from kvzero.case import Case
from kvzero.observation import Misstep, Observation
from kvzero.properties.verdict import Violation
from kvzero.properties.wording import call_text


def misstep_violations(
    name: str, kinds: Collection[str], case: Case, observation: Observation
) -> Iterator[Violation]:
    """Yield one violation for each misstep of the given kinds."""
    for index, call in enumerate(observation.calls):
        for misstep in call.missteps:
            if misstep.kind in kinds:
                yield _violation(name, case, index, misstep)


def _violation(name: str, case: Case, index: int, misstep: Misstep) -> Violation:
    program = ", ".join(map(str, misstep.program))
    others = "" if misstep.count == 1 else f", and {misstep.count - 1:,} more"
    return Violation(
        name,
        "fault",
        misstep.kind,
        f"{misstep.text} {call_text(case, index)}",
        misstep.place,
        (("where", f"program ({program}){others} at {misstep.place}"),),
        index,
    )


def not_evaluated(observation: Observation) -> str | None:
    """Return why nothing can be said of the semantics of programs, or None."""
    if observation.semantics != "TTIR":
        return f"the {observation.executor} executor does not see it: footprint does"
    if not any(call.programs for call in observation.calls):
        return "no call launched a program"
    return None
