"""Nothing that a program does depends on luck: values, arithmetic, order, loads."""

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.missteps_seen import misstep_violations, not_evaluated
from kvzero.properties.verdict import Result, settle

NAME = "results_are_defined"
KINDS = frozenset({"undefined-value", "undefined-arithmetic", "race", "bad-load"})


def results_are_defined(case: Case, observation: Observation) -> Result:
    """Return whether no program used an undefined value, raced or loaded astray."""
    violations = misstep_violations(NAME, KINDS, case, observation)
    return settle(NAME, violations, not_evaluated(observation))
