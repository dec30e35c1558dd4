"""Calls that are made again and again keep no more of the device's memory each time."""

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.calls_together import not_seen
from kvzero.properties.verdict import Result, Violation, settle
from kvzero.properties.wording import counted

NAME = "calls_keep_no_memory"
WHAT = "memory-kept"


def calls_keep_no_memory(case: Case, observation: Observation) -> Result:
    """Return whether repeating the calls left the memory in use as it was."""
    kept = observation.kept_bytes
    if kept is None:
        return settle(NAME, [], not_seen(observation))
    claim = (
        f"{kept:,} B of device memory are kept by each repetition, but must be 0 B "
        f"[{counted(len(case.calls), 'call')}]"
    )
    return settle(NAME, [Violation(NAME, "fault", WHAT, claim)] if kept else [])
