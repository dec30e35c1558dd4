"""What calls did together as violations: queued on one stream, or in a graph.

Only the device executor sees it. Which call a wrong byte comes from is not known, so a
violation names the byte, and the calls as one.
"""

from collections.abc import Iterator

from kvzero.case import Case
from kvzero.observation import Observation, Queued, Raised, Replayed, WrongBytes
from kvzero.properties.location import locate
from kvzero.properties.verdict import Violation

SHOWN_SPANS = 3


def together_violations(
    name: str, seen: Queued | Replayed, case: Case, calls: str
) -> Iterator[Violation]:
    """Yield the violations of calls that were made together.

    Args:
        name: Name of the property.
        seen: What they did.
        case: The case.
        calls: What they were, for the claim.
    """
    if seen.raised is not None:
        yield _refusal(name, seen.raised, calls)
        return
    if seen.missed.count:
        claim = "was not zero, but must be"
        yield _wrong(name, "listed-byte-not-zero", claim, seen.missed, case, calls)
    if seen.touched.count:
        claim = "was changed, but must stay untouched"
        yield _wrong(name, "unlisted-byte-changed", claim, seen.touched, case, calls)


def not_seen(observation: Observation) -> str:
    """Return why calls were not made together, where nothing says more."""
    if observation.executor == "device":
        return "the case's calls alone say enough"
    return f"the {observation.executor} executor does not see it: device does"


def _refusal(name: str, raised: Raised, calls: str) -> Violation:
    claim = f"raised {raised.type_name}, but must be accepted [{calls}]"
    told = (("message", raised.message.split("\n", 1)[0]),)
    return Violation(name, "refusal", "call-refused", claim, "", told)


def _wrong(
    name: str, what: str, claim: str, wrong: WrongBytes, case: Case, calls: str
) -> Violation:
    where = [
        str(locate(case.layout, span.allocation, span.offset_bytes))
        for span in wrong.spans[:SHOWN_SPANS]
    ]
    first = where[0] if where else "a byte"
    told = (("where", f"{wrong.count:,} wrong bytes, from {'; '.join(where)}"),)
    return Violation(name, "fault", what, f"{first} {claim} [{calls}]", "", told)
