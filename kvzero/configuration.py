"""What people set once: ``[tool.kvzero]`` in pyproject.toml, and ``KVZERO_...``.

The command line and the pytest plugin read the same options here. What is said nearest
to the run holds: command line, then environment, then file, then default. One table,
`OPTIONS`, leads reading, the JSON Schema and the documentation, so that they cannot
drift apart. The module imports the standard library alone: every run of pytest in the
environment loads it.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kvzero.errors import ConfigurationError

FILE_NAME = "pyproject.toml"
TABLE = "tool.kvzero"
SCHEMA_FILE = "config-schema.json"
DEFAULT = "default"
_DURATION = r"(\d+(?:\.\d+)?)([smh]?)"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_FLAGS = {"1": True, "true": True, "0": False, "false": False}

Value = str | int | bool | None


@dataclass(frozen=True)
class Option:
    """One thing that can be set.

    Attributes:
        name: Its key in the table.
        meaning: What it says, for ``--help``, the schema and the documentation.
        kind: ``"text"``, ``"path"``, ``"duration"``, ``"flag"`` or ``"count"``.
        default: What holds if nobody says anything.
        choices: The only texts that it takes, if they are few.
    """

    name: str
    meaning: str
    kind: str = "text"
    default: Value = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """Return the environment variable of the option."""
        return f"KVZERO_{self.name.upper().replace('-', '_')}"

    @property
    def parameter(self) -> str:
        """Return the option's name where names have no hyphen."""
        return self.name.replace("-", "_")

    @property
    def rule(self) -> str:
        """Return what a value must be, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return {
            "text": "a text that is not empty",
            "path": "a path",
            "duration": "a positive number with s, m or h, such as 60s",
            "flag": "true or false",
            "count": "a whole number from 1",
        }[self.kind]

    def takes(self, value: object) -> bool:
        """Return whether a value is what the option must be."""
        if self.kind == "flag":
            return isinstance(value, bool)
        if self.kind == "count":
            return type(value) is int and value > 0
        if not isinstance(value, str) or not value:
            return False
        if self.kind == "duration":
            return value == value.strip() and seconds_of(value) is not None
        return not self.choices or value in self.choices

    def parsed(self, text: str) -> Value:
        """Return the value that a text, as of the environment, stands for."""
        if self.kind == "flag":
            return _FLAGS.get(text.lower(), text)
        if self.kind == "count" and text.isascii() and text.isdecimal():
            return int(text)
        return text


OPTIONS = (
    Option("subject", "subject under test: a known name or module:attribute"),
    Option(
        "executor",
        "how cases run; default: device where there is a GPU, else footprint",
        choices=("device", "footprint", "host"),
    ),
    Option("known", "file of known findings (TOML), which do not fail", "path"),
    Option(
        "regressions",
        "folder that shrunk failing cases are saved in",
        "path",
        default="regressions",
    ),
    Option("strict-cost", "a cost fails too", "flag", default=False),
    Option(
        "case-deadline",
        "time of one case in a worker process, such as 10s; beyond it, it hangs",
        "duration",
    ),
    Option("case-memory", "MiB of memory that a worker process may take", "count"),
)


@dataclass(frozen=True)
class Setting:
    """The value of an option, and who says so.

    Attributes:
        value: The value; paths are absolute, or lie below the current folder.
        origin: What a reader would have to change, such as ``"KVZERO_EXECUTOR"``.
    """

    value: Value
    origin: str = DEFAULT


Settings = Mapping[str, Setting]


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as 90, 60s or 1h; None: it is none."""
    match = re.fullmatch(_DURATION, text.strip(), re.ASCII)
    if match is None or float(match[1]) == 0:
        return None
    return float(match[1]) * _SECONDS[match[2]]


def configured(folder: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return what is set, by option, for whoever runs in a folder.

    Args:
        folder: Where to begin: the nearest ``pyproject.toml`` upwards is read.
        environment: The environment variables.

    Raises:
        ConfigurationError: A key is unknown, or a value not what it must be; file and
            key are named.
    """
    settings = {option.name: Setting(option.default) for option in OPTIONS}
    file = nearest_file(folder)
    if file is not None:
        settings |= _of_file(file)
    return settings | _of_environment(environment)


def nearest_file(folder: Path) -> Path | None:
    """Return the ``pyproject.toml`` of a folder or of the nearest one above it."""
    folder = folder.resolve()
    files = (place / FILE_NAME for place in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def given(option: Option, text: str, origin: str) -> Setting:
    """Return a setting that a text gives.

    Args:
        option: What is set.
        text: As the environment or a command line has it.
        origin: Who says so.

    Raises:
        ConfigurationError: The text is not what the option must be.
    """
    return _checked(option, option.parsed(text), origin, origin)


def options_schema() -> dict[str, Any]:  # Any: a JSON document
    """Return the JSON Schema of the table, as shipped in ``config-schema.json``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"The table [{TABLE}] of {FILE_NAME}",
        "type": "object",
        "additionalProperties": False,
        "properties": {option.name: _option_schema(option) for option in OPTIONS},
    }


def _option_schema(option: Option) -> dict[str, Any]:  # Any: a JSON document
    shape: dict[str, Any] = {"type": "string", "minLength": 1}
    if option.choices:
        shape = {"enum": list(option.choices)}
    elif option.kind == "flag":
        shape = {"type": "boolean"}
    elif option.kind == "count":
        shape = {"type": "integer", "minimum": 1}
    elif option.kind == "duration":
        # As `seconds_of` reads it: zero is no duration.
        shape = {"type": "string", "pattern": rf"^(?=.*[1-9]){_ascii(_DURATION)}$"}
    default = {} if option.default is None else {"default": option.default}
    return {"description": option.meaning, **shape, **default}


def _ascii(pattern: str) -> str:
    """Return a pattern whose digits are those of ASCII in every regex dialect."""
    return pattern.replace(r"\d", "[0-9]")


def _of_file(file: Path) -> dict[str, Setting]:
    known = {option.name: option for option in OPTIONS}
    settings = {}
    for key, value in _table(file).items():
        where = f"{file}: {TABLE}.{key if key.isprintable() else ascii(key)}"
        if key not in known:
            raise ConfigurationError(f"{where}, but must be {_one_of(key, known)}")
        option = known[key]
        setting = _checked(option, value, where, FILE_NAME)
        if option.kind == "path":
            # Said in the file, so meant from the file's folder.
            setting = Setting(str(file.parent / str(setting.value)), FILE_NAME)
        settings[key] = setting
    return settings


def _table(file: Path) -> dict[str, Any]:  # Any: TOML
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file}: must be TOML: {error}") from error
    tools = document.get("tool", {})
    table = tools.get("kvzero", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise ConfigurationError(f"{file}: {TABLE}={table!r}, but must be a table")
    return table


def _of_environment(environment: Mapping[str, str]) -> dict[str, Setting]:
    """Return what the environment sets; an empty variable says nothing."""
    return {
        option.name: given(option, environment[option.variable], option.variable)
        for option in OPTIONS
        if environment.get(option.variable)
    }


def _checked(
    option: Option, value: Any, where: str, origin: str
) -> Setting:  # Any: TOML
    if not option.takes(value):
        raise ConfigurationError(f"{where}={value!r}, but must be {option.rule}")
    return Setting(value, origin)


def _one_of(word: str, words: Mapping[str, Option]) -> str:
    close = get_close_matches(word, words, 1)
    hint = f": did you mean {close[0]}?" if close else ""
    return f"one of {', '.join(words)}{hint}"
