"""What is set once: one table of options leads reading, schema and documentation."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.configuration import (
    FILE_NAME,
    OPTIONS,
    SCHEMA_FILE,
    Option,
    Setting,
    Value,
    configured,
    nearest_file,
    options_schema,
    seconds_of,
)
from kvzero.errors import ConfigurationError

PAGE = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text("utf-8")
NAMES = [option.name for option in OPTIONS]
BY_NAME = {option.name: option for option in OPTIONS}
GOOD: Mapping[str, Value] = {
    "subject": "mine:ZEROER",
    "executor": "host",
    "known": "known.toml",
    "regressions": "cases",
    "strict-cost": True,
    "case-deadline": "90s",
    "case-memory": 512,
}
VALUES = st.one_of(
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(allow_nan=False).filter(lambda x: not x.is_integer()),  # 1.0 is JSON's 1
    st.sampled_from(["", "host", "gpu", "10", "0s", "00.0m", "1.5h", " 60s", "٣s"]),
    st.text("0123.smh", max_size=6),
    st.lists(st.integers(), max_size=2),
    st.none(),
)


def write(folder: Path, text: str) -> Path:
    file = folder / FILE_NAME
    file.write_text(f"[tool.kvzero]\n{text}\n", encoding="utf-8")
    return file


def as_toml(values: Mapping[str, object]) -> str:
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items())


@given(name=st.sampled_from(NAMES), value=VALUES)
@example(name="case-deadline", value=" 60s")
@example(name="case-deadline", value="0s")
@example(name="case-memory", value=True)
def test_an_option_takes_exactly_what_the_schema_takes(
    name: str, value: object
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(options_schema())
    assert BY_NAME[name].takes(value) == validator.is_valid({name: value})


@settings(max_examples=50)
@given(names=st.sets(st.sampled_from(NAMES)))
def test_what_the_file_sets_holds_and_the_rest_is_the_default(
    names: set[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "project"
    folder.mkdir(exist_ok=True)
    write(folder, as_toml({name: GOOD[name] for name in names}))
    found = configured(folder, {})
    for option in OPTIONS:
        setting = found[option.name]
        if option.name not in names:
            assert setting == Setting(option.default)
        elif option.kind == "path":
            path = str(folder / str(GOOD[option.name]))
            assert setting == Setting(path, FILE_NAME)
        else:
            assert setting == Setting(GOOD[option.name], FILE_NAME)


@pytest.mark.parametrize("option", OPTIONS, ids=NAMES)
def test_the_environment_goes_before_the_file(option: Option, tmp_path: Path) -> None:
    write(tmp_path, as_toml({option.name: GOOD[option.name]}))
    texts = {"executor": "footprint", "strict-cost": "0", "case-deadline": "2m"}
    text = texts.get(option.name, "7")
    setting = configured(tmp_path, {option.variable: text})[option.name]
    assert setting == Setting(option.parsed(text), option.variable)
    emptied = configured(tmp_path, {option.variable: ""})[option.name]
    assert emptied.origin == FILE_NAME


def test_the_nearest_file_upwards_is_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    (inner / "deep").mkdir(parents=True)
    write(tmp_path, 'subject = "outer"')
    assert configured(inner / "deep", {})["subject"].value == "outer"
    file = write(inner, "")
    assert nearest_file(inner / "deep") == file
    assert configured(inner / "deep", {})["subject"].value is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            'subjet = "kvzero"',
            r"pyproject.toml: tool.kvzero.subjet, but must be one of subject, "
            r".*: did you mean subject\?$",
        ),
        (
            "strict_cost = true",
            r"tool.kvzero.strict_cost, .*: did you mean strict-cost",
        ),
        ("q = 1", r"tool.kvzero.q, but must be one of subject.*, case-memory$"),
        ('"a\\nb" = 1', r"tool.kvzero.'a\\nb', but must be one of "),
        ('executor = "gpu"', r"executor='gpu', but must be one of device, footprint, "),
        ("case-memory = 0", "case-memory=0, but must be a whole number from 1"),
        ("case-memory = true", "case-memory=True, but must be a whole number from 1"),
        ('strict-cost = "yes"', "strict-cost='yes', but must be true or false"),
        ('case-deadline = "0s"', "case-deadline='0s', but must be a positive number"),
        ("known = 1", "known=1, but must be a path"),
        ('subject = ""', "subject='', but must be a text that is not empty"),
        ("subject = ", "pyproject.toml: must be TOML: "),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    text: str, error: str, tmp_path: Path
) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigurationError, match=error) as caught:
        configured(tmp_path, {})
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("[tool]\nkvzero = 3\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"tool.kvzero=3, but must be a table"):
        configured(tmp_path, {})


def test_what_the_environment_has_wrong_is_told_by_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^KVZERO_CASE_MEMORY='x', but must "):
        configured(tmp_path, {"KVZERO_CASE_MEMORY": "x"})


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("60s", 60.0), ("1.5m", 90.0), ("1h", 3600.0)]
)
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = files("kvzero").joinpath(SCHEMA_FILE).read_text("utf-8")
    assert shipped == json.dumps(options_schema(), indent=1) + "\n"
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(options_schema())


def test_every_option_is_documented_with_its_variable_and_default() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE)
    documented = {name: (variable, default) for name, variable, default in rows}
    assert documented == {
        o.name: (o.variable, _default_in_words(o.default)) for o in OPTIONS
    }


def _default_in_words(value: Value) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(\[tool\.kvzero\].*?)```", PAGE, re.DOTALL)
    (tmp_path / FILE_NAME).write_text(text, encoding="utf-8")
    found = configured(tmp_path, {})
    assert all(found[name].origin == FILE_NAME for name in NAMES)
