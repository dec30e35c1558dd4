"""A subject builds on every layout and takes every call inside its contract.

What raised because the launcher or the driver rejected its launch is no refusal but a
launch that does not fit the platform.
"""

from collections.abc import Iterator

from kvzero.case import REFUSED_DTYPES, Case
from kvzero.observation import WARMUP_CALL, Observation, Raised
from kvzero.properties.verdict import Result, Violation, settle
from kvzero.properties.wording import arrival_text, call_text

NAME = "legal_calls_are_accepted"


def legal_calls_are_accepted(case: Case, observation: Observation) -> Result:
    """Return whether neither the constructor nor a legal call raised."""
    rejected = {run.call for run in observation.launches if run.fate == "rejected"}
    if observation.built is not None:
        if WARMUP_CALL in rejected:
            return settle(NAME, [], "a launch was rejected before the first call")
        return settle(NAME, [_build_refused(observation.built)])
    legal = [
        index
        for index in range(len(observation.calls))
        if not case.calls[index].must_be_refused(case.layout.num_blocks)
        and case.calls[index].dtype not in REFUSED_DTYPES
    ]
    violations = list(_refusals(case, observation, legal, rejected))
    return settle(NAME, violations, None if legal else "no finished call is legal")


def _build_refused(raised: Raised) -> Violation:
    return Violation(
        NAME,
        "refusal",
        "build-refused",
        f"the subject raised {_raised_text(raised)}, but must accept the layout",
    )


def _refusals(
    case: Case, observation: Observation, legal: list[int], rejected: set[int]
) -> Iterator[Violation]:
    for index in legal:
        raised = observation.calls[index].raised
        if raised is None or index in rejected:
            continue
        yield Violation(
            NAME,
            "refusal",
            "legal-call-refused",
            f"the call raised {_raised_text(raised)}, but must be accepted "
            f"{call_text(case, index)}",
            "",
            (("ids", arrival_text(case.calls[index])),),
            index,
        )


def _raised_text(raised: Raised) -> str:
    message = raised.message.splitlines()[0] if raised.message else ""
    return f"{raised.type_name}({message[:200]!r})"
