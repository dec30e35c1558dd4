"""The pytest plugin: case files are tests, and a failing property test leaves one.

Every case file under ``regressions/`` is a test; `kvzero_check` and `kvzero_judge` put
zeroers under test in a test of one's own. What such a test finds, or a ``@given`` test
that fails on a case, is saved below ``regressions/``, once a fault, and pictured in the
failure report.

Loading the plugin imports neither torch, Triton nor Hypothesis: a test run without
cases does not pay for them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import pytest

from kvzero.pytest_plugin.failures import begin, explain
from kvzero.pytest_plugin.profiles import register_when_imported
from kvzero.pytest_plugin.settings import add_options, read_settings, settings_line

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from kvzero.campaign.judging import Judged
    from kvzero.case import Case
    from kvzero.pytest_plugin.case_tests import CaseFileCollector
    from kvzero.subjects.protocol import Subject

FOLDER = "regressions"
"""Case files are collected below any folder of this name."""


class _WorkerNode(Protocol):
    """What pytest-xdist's controller knows of a worker."""

    workerinput: dict[str, object]


def pytest_load_initial_conftests() -> None:
    """Have the Hypothesis profiles ready before a conftest can ask for one."""
    register_when_imported()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with an ini option of the same meaning."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings once; what is wrong with them is a usage error."""
    read_settings(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: _WorkerNode) -> None:
    """Tell a worker of pytest-xdist when the whole run began."""
    node.workerinput.setdefault("kvzero_started", time.time())


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the effective settings, where they are of interest."""
    return settings_line(config)


@pytest.fixture
def kvzero_check(pytestconfig: pytest.Config) -> Callable[..., None]:
    """Return what puts a zeroer under test: presets at full size, and random cases.

    ``kvzero_check(subject, max_examples=100, seed=0, preset=None, executor=None,
    strict_cost=False)`` takes a known name, ``module:attribute`` or a subject, and
    fails with the located explanation of what it broke. Failing cases are shrunk and
    saved below ``regressions/``.
    """

    def check(subject: str | Subject, **options: int | str | bool | None) -> None:
        __tracebackhide__ = True
        from kvzero.errors import PropertyFailure
        from kvzero.pytest_plugin.asking import Failed, check_of

        told = None
        try:
            check_of(pytestconfig, options)(subject)
        except PropertyFailure as failure:
            told = Failed(failure)
        if told is not None:  # not inside the handler: pytest would tell it twice
            raise told

    return check


@pytest.fixture(scope="session")
def kvzero_judge(pytestconfig: pytest.Config) -> Iterator[Callable[..., Judged]]:
    """Return what judges one case: for the body of a ``@given`` test.

    ``kvzero_judge(subject, case, executor=None, strict_cost=False)`` fails with the
    located explanation of what the subject broke. When Hypothesis has shrunk the case,
    it is saved below ``regressions/``.
    """
    from kvzero.pytest_plugin.asking import Judges

    with Judges(pytestconfig) as judges:

        def judge(
            subject: str | Subject, case: Case, **options: str | bool | None
        ) -> Judged:
            __tracebackhide__ = True
            return judges(subject, case, options)

        yield judge


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> CaseFileCollector | None:
    """Collect the JSON files below a folder named ``regressions``."""
    if file_path.suffix != ".json" or not _holds_cases(file_path, parent.config):
        return None
    from kvzero.pytest_plugin.case_tests import CaseFileCollector

    return CaseFileCollector.from_parent(parent, path=file_path)


def _holds_cases(file: Path, config: pytest.Config) -> bool:
    """Return whether a JSON file is a case file, by the folders that it is in."""
    from kvzero.pytest_plugin.settings import path_of

    folder = path_of(config, "regressions")
    if folder is not None and file.is_relative_to(folder):
        return True
    root = config.rootpath
    return file.is_relative_to(root) and FOLDER in file.relative_to(root).parts


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Save the case of a failure and picture it; first: what xfail excuses is none."""
    report = yield
    if call.when == "setup":
        begin(item.config)
    if report.failed and call.when == "call" and call.excinfo is not None:
        explain(item, call.excinfo, report)
    return report
