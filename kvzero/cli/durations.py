"""Durations as people write them: 90, 60s, 10m, 1h."""

import re

import typer

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse_seconds(text: str) -> float:
    """Return a duration in seconds.

    Raises:
        typer.BadParameter: It is no positive number with a unit.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise typer.BadParameter(
            f"{text!r}, but must be a positive number with s, m or h, such as 60s"
        )
    return float(match[1]) * _UNITS[match[2]]
