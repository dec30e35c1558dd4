"""Fault subjects: broken on purpose, each with one public fault; one module a fault.

A module here that binds `FAULT` is a fault subject: adding a file is all it takes.
"""

from importlib import import_module
from pkgutil import iter_modules

from kvzero.subjects.faults.fault import Fault


def fault_subjects() -> tuple[Fault, ...]:
    """Return every fault subject, sorted by name."""
    modules = (
        import_module(f"{__name__}.{info.name}") for info in iter_modules(__path__)
    )
    faults = [module.FAULT for module in modules if hasattr(module, "FAULT")]
    return tuple(sorted(faults, key=lambda fault: fault.name))
