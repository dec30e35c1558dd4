"""A CUDA graph of a call acts on the ids that its tensor holds at each replay."""

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.calls_together import not_seen, together_violations
from kvzero.properties.verdict import Result, settle
from kvzero.properties.wording import call_text

NAME = "graphs_replay_with_new_ids"


def graphs_replay_with_new_ids(case: Case, observation: Observation) -> Result:
    """Return whether a captured call read its ids anew when it was replayed."""
    seen = observation.replayed
    if seen is None:
        return settle(NAME, [], not_seen(observation))
    made = call_text(case, seen.call).strip("[]")
    calls = f"{made} in a graph, replayed with ids {seen.ids}"
    return settle(NAME, together_violations(NAME, seen, case, calls))
