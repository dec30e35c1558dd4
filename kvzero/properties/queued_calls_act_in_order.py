"""Queued calls act in the order of the caller's stream, each on its own ids.

A call returns long before the device gets to it. Its caller then reuses or frees the
ids, makes the next call, and queues work of its own before and after: none of that may
change what a call zeroes.
"""

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.oracle import zeroed_blocks
from kvzero.properties.calls_together import not_seen, together_violations
from kvzero.properties.verdict import Result, settle
from kvzero.properties.wording import call_text, counted

NAME = "queued_calls_act_in_order"


def queued_calls_act_in_order(case: Case, observation: Observation) -> Result:
    """Return whether calls on a busy stream did what they do when made alone."""
    seen = observation.queued
    if seen is None:
        return settle(NAME, [], not_seen(observation))
    calls = f"{counted(len(case.calls), 'call')} queued on a stream that was held"
    violations = together_violations(NAME, seen, case, calls)
    return settle(NAME, violations, _not_judged(case, seen.waited_in))


def _not_judged(case: Case, waited_in: int | None) -> str | None:
    if waited_in is not None:
        return f"the stream was not held to the end of {call_text(case, waited_in)}"
    num_blocks = case.layout.num_blocks
    listed = any(len(zeroed_blocks(call, num_blocks)) for call in case.calls)
    return None if listed and len(case.layout.table) else "no call lists a page"
