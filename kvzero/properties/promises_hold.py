"""What a kernel promises its compiler (`tl.multiple_of`, ...) is true when it runs."""

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.missteps_seen import misstep_violations, not_evaluated
from kvzero.properties.verdict import Result, settle

NAME = "promises_hold"


def promises_hold(case: Case, observation: Observation) -> Result:
    """Return whether no program ran a false promise, whatever its bytes."""
    violations = misstep_violations(NAME, {"false-promise"}, case, observation)
    return settle(NAME, violations, not_evaluated(observation))
