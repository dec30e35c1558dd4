"""All properties, in the order of a verdict, and `judge`, which asks each of them."""

from collections.abc import Callable
from dataclasses import replace

from kvzero.case import Case
from kvzero.observation import EVERY_PROPERTY, Observation
from kvzero.properties.bad_ids_are_refused import bad_ids_are_refused
from kvzero.properties.bytes_are_stored_once import bytes_are_stored_once
from kvzero.properties.calls_do_not_wait import calls_do_not_wait
from kvzero.properties.calls_keep_no_memory import calls_keep_no_memory
from kvzero.properties.graphs_replay_with_new_ids import graphs_replay_with_new_ids
from kvzero.properties.launches_fit_the_platform import launches_fit_the_platform
from kvzero.properties.legal_calls_are_accepted import legal_calls_are_accepted
from kvzero.properties.listed_pages_are_zero import listed_pages_are_zero
from kvzero.properties.pages_cover_their_views import pages_cover_their_views
from kvzero.properties.promises_hold import promises_hold
from kvzero.properties.queued_calls_act_in_order import queued_calls_act_in_order
from kvzero.properties.results_are_defined import results_are_defined
from kvzero.properties.terms import outside_contract
from kvzero.properties.the_process_survives import the_process_survives
from kvzero.properties.unlisted_bytes_are_untouched import unlisted_bytes_are_untouched
from kvzero.properties.verdict import Broken, NotJudged, Result, Violation
from kvzero.properties.warm_calls_compile_nothing import warm_calls_compile_nothing
from kvzero.properties.wording import case_text
from kvzero.properties.work_is_bounded import work_is_bounded
from kvzero.subjects.protocol import Contract

Property = Callable[[Case, Observation], Result]

# A launch that never ran explains missing bytes, so it is told first.
PROPERTIES: dict[str, Property] = {
    "the_process_survives": the_process_survives,
    "legal_calls_are_accepted": legal_calls_are_accepted,
    "bad_ids_are_refused": bad_ids_are_refused,
    "launches_fit_the_platform": launches_fit_the_platform,
    "pages_cover_their_views": pages_cover_their_views,
    "listed_pages_are_zero": listed_pages_are_zero,
    "unlisted_bytes_are_untouched": unlisted_bytes_are_untouched,
    "queued_calls_act_in_order": queued_calls_act_in_order,
    "graphs_replay_with_new_ids": graphs_replay_with_new_ids,
    "promises_hold": promises_hold,
    "results_are_defined": results_are_defined,
    "warm_calls_compile_nothing": warm_calls_compile_nothing,
    "calls_keep_no_memory": calls_keep_no_memory,
    "calls_do_not_wait": calls_do_not_wait,
    "work_is_bounded": work_is_bounded,
    "bytes_are_stored_once": bytes_are_stored_once,
}

BYTE_PROPERTIES = ("listed_pages_are_zero", "unlisted_bytes_are_untouched")
"""Without one of these judged, a run says nothing of the subject's work."""


def judge(
    case: Case, observation: Observation, contract: Contract
) -> tuple[Result, ...]:
    """Return the result of every property, in order.

    Args:
        case: The case.
        observation: What an executor saw of it.
        contract: The subject's contract; outside it nothing is judged.
    """
    outside = outside_contract(case, contract)
    if outside is not None:
        return tuple(NotJudged(name, outside) for name in PROPERTIES)
    return tuple(
        _judge_one(name, check, case, observation) for name, check in PROPERTIES.items()
    )


def _judge_one(
    name: str, check: Property, case: Case, observation: Observation
) -> Result:
    """Return one result; what was seen stands, what was not seen is never green."""
    result = check(case, observation)
    if isinstance(result, Broken):
        return Broken(name, tuple(_with_case(v, case) for v in result.violations))
    reason = next(
        (why for what, why in observation.not_judged if what in (name, EVERY_PROPERTY)),
        None,
    )
    if reason is None and name != "the_process_survives":
        reason = _cut_short(observation)
    return NotJudged(name, reason) if reason is not None else result


def _with_case(violation: Violation, case: Case) -> Violation:
    told = ("case", case_text(case, violation.call))
    return replace(violation, details=(*violation.details, told))


def _cut_short(observation: Observation) -> str | None:
    """Return why the case did not run to its end, or None."""
    if observation.died is not None:
        return f"the process did not survive: {observation.died.text}"
    if observation.built is not None:
        return f"the subject was not built: {observation.built.type_name}"
    return None
