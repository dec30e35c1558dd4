"""Runs pytest within pytest.

The runs are in this process, and pytester forgets the modules that each imports; torch
does not survive being imported twice. So everything is imported here first.
"""

from collections.abc import Callable

import pytest

import kvzero.executors.footprint
import kvzero.pytest_plugin.asking
import kvzero.pytest_plugin.case_tests
import kvzero.pytest_plugin.failures
import kvzero.report.memory_map
import kvzero.strategies
import kvzero.subjects.faults.mask_missing
import kvzero.subjects.torch_writers  # noqa: F401 - see above

RunPytest = Callable[..., pytest.RunResult]


@pytest.fixture
def run_pytest(pytester: pytest.Pytester) -> RunPytest:
    """Return what runs pytest on the footprint, without a cache."""

    def run(*arguments: str) -> pytest.RunResult:
        fixed = ("-p", "no:cacheprovider", "--kvzero-executor", "footprint")
        return pytester.runpytest_inprocess(*fixed, *arguments)

    return run
