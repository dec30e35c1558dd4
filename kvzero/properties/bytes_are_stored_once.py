"""A call stores each byte once, or as often as its block list names it."""

from kvzero.case import Case
from kvzero.memory import place
from kvzero.observation import CallObservation, Observation
from kvzero.oracle import Oracle, zeroed_blocks
from kvzero.properties.verdict import Result, Violation, settle
from kvzero.properties.wording import call_text, written_by

NAME = "bytes_are_stored_once"
WHAT = "stored-again"


def bytes_are_stored_once(case: Case, observation: Observation) -> Result:
    """Return whether no call stored bytes again that its list names once.

    A subject need not look for duplicate ids, nor for pages that share bytes.
    """
    violations = []
    judged = False
    for index, call in enumerate(observation.calls):
        again = call.again_bytes
        if again is None:
            continue
        judged = judged or bool(call.stored_bytes)
        if not again or again <= _named_again_bytes(case, index):
            continue
        allowed = allowed_again_bytes(case, index)
        if again > allowed:
            violations.append(_violation(case, index, call, again, allowed))
    return settle(NAME, violations, None if judged else "no single stores were seen")


def _named_again_bytes(case: Case, index: int) -> int:
    """Return the same were there no pages that share bytes, which is less, but fast."""
    call = case.calls[index]
    again = call.num_ids - len(zeroed_blocks(call, case.layout.num_blocks))
    return again * int(case.layout.table.page_bytes.sum())


def allowed_again_bytes(case: Case, index: int) -> int:
    """Return the bytes that a call's list names again, each time after the first."""
    named = case.calls[index].num_ids * int(case.layout.table.page_bytes.sum())
    oracle = Oracle(case, place(case).base_bytes)
    return named - oracle.must_be_zero(index).total_bytes


def _violation(
    case: Case, index: int, call: CallObservation, again: int, allowed: int
) -> Violation:
    named = f", and its list names {allowed:,} B again" if allowed else ""
    details = [
        ("stored", f"{call.stored_bytes:,} B in all"),
        ("rule", "each byte once, or as often as the list names it"),
    ]
    if call.again_by is not None:
        details.insert(0, ("written", f"again {written_by(call.again_by)}"))
    if call.narrowest_store_bytes:
        details.append(("width", f"{call.narrowest_store_bytes} B at the narrowest"))
    return Violation(
        NAME,
        "cost",
        WHAT,
        f"{again:,} B stored again{named} {call_text(case, index)}",
        call.again_by.place if call.again_by else "",
        tuple(details),
        index,
    )
