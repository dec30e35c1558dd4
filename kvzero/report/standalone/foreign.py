"""A subject that is not kvzero's own: imported, with stand-ins for what it needs.

A subject's module usually imports from kvzero the few names that declare a subject. An
exported script runs where kvzero is not installed, so it offers those names itself.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from kvzero.report.standalone.plain_case import Pool


@dataclass(frozen=True)
class MadeSubject:
    """A subject made of a function or class that takes a pool."""

    name: str
    contract: Any
    make: Callable[[Pool], Any]

    def build(self, pool: Pool) -> Any:
        """Return the zeroer for one pool."""
        return self.make(pool)


def foreign_build(module: str, attribute: str) -> Callable[[Pool], Any]:
    """Return what builds the zeroer of a subject of anyone's.

    Args:
        module: Its module; it must be importable where the script runs.
        attribute: Its name there.
    """
    names = ("Subject", "Zeroer", "WarmsUp", "HoldsMemory")
    offered: dict[str, Any] = {"Contract": SimpleNamespace, "MadeSubject": MadeSubject}
    offered |= {"Pool": Pool, **dict.fromkeys(names, object)}
    for name in ("kvzero", "kvzero.subjects", "kvzero.subjects.protocol"):
        stand_in = ModuleType(name)
        vars(stand_in).update(offered)
        sys.modules[name] = stand_in
    try:
        build: Callable[[Pool], Any] = getattr(import_module(module), attribute).build
    except (ImportError, AttributeError) as error:
        sys.stdout.write(f"CANNOT SHOW IT HERE: {module}:{attribute}: {error}\n")
        raise SystemExit(3) from error
    return build
