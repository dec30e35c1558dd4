"""Defaults of the verbs that run cases, from ``[tool.kvzero]`` and the environment.

They go to the parser as defaults, so the command line wins without a word about it in
any verb.
"""

import os
from pathlib import Path
from typing import Any

import typer

from kvzero.configuration import DEFAULT, OPTIONS, Option, Setting, configured

VERBS = ("verify", "fuzz", "replay")
"""The verbs whose options mean what those of the configuration do."""


def default_map(app: typer.Typer) -> dict[str, dict[str, Any]]:  # Any: click's values
    """Return what is set, by verb and parameter, as click takes it.

    Raises:
        ConfigurationError: Something that is set is unknown or out of its range.
    """
    settings = configured(Path.cwd())
    chosen = {
        option.parameter: _value(option, settings[option.name])
        for option in OPTIONS
        if settings[option.name].origin != DEFAULT
    }
    group: Any = typer.main.get_command(app)  # Any: typer's group or click's
    return {
        verb: {
            each.name: [chosen[each.name]] if each.multiple else chosen[each.name]
            for each in group.commands[verb].params
            if each.name in chosen and hasattr(each, "multiple")
        }
        for verb in VERBS
    }


def _value(option: Option, setting: Setting) -> object:
    """Return a value as the verbs say it: a path from here, if it lies below."""
    if option.kind != "path":
        return setting.value
    path, here = Path(str(setting.value)), Path.cwd()
    return os.fspath(path.relative_to(here) if path.is_relative_to(here) else path)
