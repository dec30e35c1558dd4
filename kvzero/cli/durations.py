"""Durations as people write them: 90, 60s, 10m, 1h."""

import typer

from kvzero.configuration import seconds_of


def parse_seconds(option: str, text: str) -> float:
    """Return a duration in seconds.

    Args:
        option: What it was given to, such as ``--max-time``.
        text: What was given.

    Raises:
        typer.BadParameter: It is no positive number with a unit.
    """
    seconds = seconds_of(text)
    if seconds is None:
        raise typer.BadParameter(
            f"{option} {text!r}, but must be a positive number with s, m or h, such as "
            f"60s"
        )
    return seconds


def seconds_or_none(option: str, text: str | None) -> float | None:
    """Return a duration in seconds, or None where none was given.

    Args:
        option: As for `parse_seconds`.
        text: What was given.

    Raises:
        typer.BadParameter: As `parse_seconds`.
    """
    return parse_seconds(option, text) if text else None
