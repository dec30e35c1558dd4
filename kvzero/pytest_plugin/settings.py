"""The plugin's settings: those of `kvzero.configuration`, and pytest's own ways to set.

Command line, then environment, then pytest's ini options, then ``[tool.kvzero]``: the
table is what the command line tool reads too, the ini option is pytest's alone and so
nearer to the run.
"""

from pathlib import Path

import pytest

from kvzero.configuration import (
    DEFAULT,
    OPTIONS,
    Option,
    Setting,
    Settings,
    Value,
    configured,
    given,
)
from kvzero.errors import ConfigurationError

SETTINGS = pytest.StashKey[Settings]()


def add_options(parser: pytest.Parser) -> None:
    """Add each option to pytest's command line and to its ini file."""
    group = parser.getgroup("kvzero")
    for option in OPTIONS:
        action = "store_true" if option.kind == "flag" else "store"
        flag = f"--kvzero-{option.name}"
        group.addoption(flag, action=action, default=None, help=option.meaning)
        parser.addini(f"kvzero_{option.parameter}", option.meaning, default="")


def read_settings(config: pytest.Config) -> None:
    """Read what is set, once for the run.

    Raises:
        pytest.UsageError: A key or a value is wrong: one line names where.
    """
    try:
        found = configured(config.rootpath)
        settings = {o.name: _setting(config, o, found[o.name]) for o in OPTIONS}
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[SETTINGS] = settings


def _setting(config: pytest.Config, option: Option, found: Setting) -> Setting:
    """Return what holds for an option, its path from where it was said."""
    flag, ini = f"--kvzero-{option.name}", f"kvzero_{option.parameter}"
    on_command_line = config.getoption(flag)
    here = config.invocation_params.dir
    if on_command_line is not None:
        return _based(option, given(option, str(on_command_line), flag), here)
    if found.origin == option.variable:
        return _based(option, found, here)
    if text := str(config.getini(ini)):
        return _based(option, given(option, text, ini), config.rootpath)
    return _based(option, found, config.rootpath)


def _based(option: Option, setting: Setting, folder: Path) -> Setting:
    if option.kind != "path" or setting.value is None:
        return setting
    return Setting(str(folder / str(setting.value)), setting.origin)


def value_of(config: pytest.Config, name: str) -> Value:
    """Return the effective value of an option."""
    return config.stash[SETTINGS][name].value


def text_of(config: pytest.Config, name: str) -> str | None:
    """Return the effective text of an option, or None if nobody set it."""
    value = value_of(config, name)
    return None if value is None else str(value)


def path_of(config: pytest.Config, name: str) -> Path | None:
    """Return the effective path of an option, or None if nobody set it."""
    text = text_of(config, name)
    return None if text is None else Path(text)


def settings_line(config: pytest.Config) -> str | None:
    """Return the line of pytest's header: every value, and who set it.

    A run in which nothing is set, no case file is near and nobody asks for more has
    nothing to do with kvzero, and gets no line.
    """
    settings = config.stash[SETTINGS]
    is_set = any(setting.origin != DEFAULT for setting in settings.values())
    folder = path_of(config, "regressions")
    has_cases = folder is not None and folder.is_dir()
    if not (is_set or has_cases or config.option.verbose >= 1):
        return None
    told = ", ".join(
        f"{name}={_shown(config, setting)}" for name, setting in settings.items()
    )
    return f"kvzero: {told}"


def _shown(config: pytest.Config, setting: Setting) -> str:
    value = setting.value
    if value is None:
        return DEFAULT
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = text.removeprefix(f"{config.rootpath}/")
    text = text if text.isprintable() else ascii(text)
    return text if setting.origin == DEFAULT else f"{text} ({setting.origin})"
