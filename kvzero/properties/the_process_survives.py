"""The subject neither kills nor hangs its process, nor leaves its device dead."""

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.verdict import Result, Violation, settle

NAME = "the_process_survives"


def the_process_survives(case: Case, observation: Observation) -> Result:
    """Return whether the process lived on after every call."""
    if observation.died is None:
        return settle(NAME, [])
    seen = f"after {len(observation.calls)} observed calls of {len(case.calls)}"
    claim = f"{observation.died.text} {seen}, but must survive every call"
    return settle(NAME, [Violation(NAME, "fault", observation.died.what, claim)])
