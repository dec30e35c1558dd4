"""The examples of docs/pytest.md, run."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from kvzero.pytest_plugin.profiles import NAMES, register
from tests.pytest_plugin.conftest import RunPytest, run_pytest

pytest_plugins = ["pytester"]

__all__ = ["run_pytest"]  # a fixture

PAGE = (Path(__file__).parent.parent / "docs" / "pytest.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(autouse=True)
def profile() -> Iterator[None]:
    """Give this process its profile back."""
    register()
    loaded = settings.get_current_profile_name()
    yield
    settings.load_profile(loaded)


@pytest.mark.slow
def test_the_example_of_a_test_suite_passes(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    text = EXAMPLES["test_zeroing"].replace("max_examples=100", "max_examples=3")
    pytester.makepyfile(test_zeroing=text)
    run_pytest("--hypothesis-profile=kvzero-debug").assert_outcomes(passed=2)


def test_the_example_of_a_conftest_loads_its_profile() -> None:
    exec(EXAMPLES["conftest"], {})
    assert settings.get_current_profile_name() == "kvzero-ci"


def test_every_profile_is_documented_with_its_number_of_cases() -> None:
    rows = re.findall(r"^\| `(kvzero-\w+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert {name: int(n) for name, n in rows} == {
        name: settings.get_profile(name).max_examples for name in NAMES
    }
