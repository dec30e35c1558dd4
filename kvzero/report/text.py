"""A violation as text: its explanation, what ran, and a last line to paste."""

from kvzero.observation import Observation
from kvzero.properties.verdict import Violation


def failure_text(
    violation: Violation, observation: Observation, replay: str | None
) -> str:
    """Return the located explanation of one violation.

    Args:
        violation: What was broken.
        observation: What was seen.
        replay: The command that runs the case again, if there is one.
    """
    ran = (
        f"subject {observation.subject}, executor {observation.executor} "
        f"({observation.semantics}), {observation.environment}"
    )
    return "\n".join(violation.lines(("ran", ran), ("replay", replay or "not saved")))
