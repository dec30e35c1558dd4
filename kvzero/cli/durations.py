"""Durations as people write them: 90, 60s, 10m, 1h."""

import typer

from kvzero.configuration import seconds_of


def parse_seconds(text: str) -> float:
    """Return a duration in seconds.

    Raises:
        typer.BadParameter: It is no positive number with a unit.
    """
    seconds = seconds_of(text)
    if seconds is None:
        raise typer.BadParameter(
            f"{text!r}, but must be a positive number with s, m or h, such as 60s"
        )
    return seconds
