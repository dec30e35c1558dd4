"""Subjects and cases that the tests of executors share."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def cpu_subjects(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of torch-only subjects, importable by its bare name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return import_module("cpu_subjects")


@pytest.fixture
def wild_subjects(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of subjects that harm their process, likewise."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return import_module("wild_subjects")
