"""Hypothesis profiles for tests that run zeroers; nobody's choice is taken away.

They are registered and none is loaded: ``--hypothesis-profile kvzero-ci`` does that, or
``settings.load_profile("kvzero-ci")`` in a conftest. Each sets all that matters, since
what a profile leaves out comes from whichever one is loaded, and in CI Hypothesis loads
one of its own. No profile has a deadline: the first launch compiles, and time on a GPU
that others use says nothing.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

NAMES = ("kvzero-dev", "kvzero-ci", "kvzero-nightly", "kvzero-debug")
_HYPOTHESIS = "hypothesis"
STORAGE = "HYPOTHESIS_STORAGE_DIRECTORY"


def register() -> None:
    """Register the profiles, and load none."""
    from hypothesis import settings

    for name, chosen in _profiles().items():
        settings.register_profile(name, settings.get_profile("default"), **chosen)


def register_when_imported() -> None:
    """Register the profiles now, or else as soon as anyone imports Hypothesis."""
    if _HYPOTHESIS in sys.modules:
        register()
    elif not any(isinstance(finder, _Hypothesis) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Hypothesis())


def _profiles() -> dict[str, dict[str, Any]]:  # Any: keyword arguments of `settings`
    from hypothesis import HealthCheck, Phase, Verbosity
    from hypothesis.database import DirectoryBasedExampleDatabase

    folder = Path(environ.get(STORAGE) or ".hypothesis") / "examples"
    database = DirectoryBasedExampleDatabase(folder)
    common = {
        "deadline": None,
        "derandomize": False,
        "database": database,
        "phases": tuple(Phase),
        "verbosity": Verbosity.normal,
        "print_blob": True,
        "report_multiple_bugs": True,
        "suppress_health_check": (HealthCheck.too_slow,),
    }
    return {
        # What is run after each change: quick, and what failed is tried first.
        "kvzero-dev": {**common, "max_examples": 50},
        # Gates a change: a run must not fail by luck, nor depend on the runs before.
        "kvzero-ci": {
            **common,
            "max_examples": 200,
            "derandomize": True,
            "database": None,
        },
        # Looks for what is new, so every night differs, and keeps what it found.
        "kvzero-nightly": {**common, "max_examples": 5000},
        # Shows every case that is tried.
        "kvzero-debug": {
            **common,
            "max_examples": 20,
            "verbosity": Verbosity.verbose,
        },
    }


class _Hypothesis(MetaPathFinder):
    """Waits for the import of Hypothesis, which costs what only its users should pay.

    Hypothesis has an entry point for this; but it runs in every process that imports
    Hypothesis, and one whose own import fails breaks them all.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - importlib's signature
        target: ModuleType | None = None,  # noqa: ARG002 - importlib's signature
    ) -> ModuleSpec | None:
        """Return Hypothesis's own spec, with registering after it; step aside."""
        if fullname != _HYPOTHESIS:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            _register_after(spec.loader)
        return spec


def _register_after(loader: Any) -> None:  # Any: an instance's method is replaced
    """Have a loader register the profiles once it has executed Hypothesis.

    Under pytest the loader is one for all modules of plugins, so it executes the parts
    of Hypothesis too, and others later.
    """
    execute = loader.exec_module

    def execute_and_register(module: ModuleType) -> None:
        if module.__name__ == _HYPOTHESIS:
            del loader.exec_module
        execute(module)
        if module.__name__ == _HYPOTHESIS:
            register()

    loader.exec_module = execute_and_register
