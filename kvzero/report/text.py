"""A violation as text: its explanation, what ran, and a last line to paste."""

from kvzero.observation import Observation
from kvzero.properties.verdict import Violation


def failure_text(
    violation: Violation, observation: Observation, file: str | None
) -> str:
    """Return the located explanation of one violation.

    Args:
        violation: What was broken.
        observation: What was seen.
        file: Where the case is saved, if it is.
    """
    ran = (
        f"subject {observation.subject}, executor {observation.executor} "
        f"({observation.semantics}), {observation.environment}"
    )
    replay = f"kvzero replay {file}" if file else "not saved"
    return "\n".join(violation.lines(("ran", ran), ("replay", replay)))
