"""A zeroer for paged KV caches, and a harness that proves anyone's zeroer right.

The names below are the public API. They import when first used, so that ``import
kvzero`` needs neither torch nor Triton.
"""

from importlib import import_module
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvzero.assertions import assert_zeroes
    from kvzero.capture import capture_layout
    from kvzero.case import Call, Case, IdRun, Placement
    from kvzero.casefile import read_case_file, write_case_file
    from kvzero.errors import (
        BlockIdError,
        CaseError,
        EnvironmentMissingError,
        InternalError,
        KvzeroError,
        LaunchLimitError,
        LayoutError,
        PropertyFailure,
        SubjectError,
    )
    from kvzero.guarding import launch_guard
    from kvzero.layout import Allocation, Axis, Layout, Run, Tile, View
    from kvzero.memory import Pool
    from kvzero.presets import preset, preset_names
    from kvzero.subjects.protocol import Contract, MadeSubject, Subject
    from kvzero.zeroer import KVBlockZeroer

_HOMES = {
    "Allocation": "kvzero.layout",
    "Axis": "kvzero.layout",
    "BlockIdError": "kvzero.errors",
    "Call": "kvzero.case",
    "Case": "kvzero.case",
    "CaseError": "kvzero.errors",
    "Contract": "kvzero.subjects.protocol",
    "EnvironmentMissingError": "kvzero.errors",
    "IdRun": "kvzero.case",
    "InternalError": "kvzero.errors",
    "KVBlockZeroer": "kvzero.zeroer",
    "KvzeroError": "kvzero.errors",
    "LaunchLimitError": "kvzero.errors",
    "Layout": "kvzero.layout",
    "LayoutError": "kvzero.errors",
    "MadeSubject": "kvzero.subjects.protocol",
    "Placement": "kvzero.case",
    "Pool": "kvzero.memory",
    "PropertyFailure": "kvzero.errors",
    "Run": "kvzero.layout",
    "Subject": "kvzero.subjects.protocol",
    "SubjectError": "kvzero.errors",
    "Tile": "kvzero.layout",
    "View": "kvzero.layout",
    "assert_zeroes": "kvzero.assertions",
    "capture_layout": "kvzero.capture",
    "launch_guard": "kvzero.guarding",
    "preset": "kvzero.presets",
    "preset_names": "kvzero.presets",
    "read_case_file": "kvzero.casefile",
    "write_case_file": "kvzero.casefile",
}

__all__ = [
    "Allocation",
    "Axis",
    "BlockIdError",
    "Call",
    "Case",
    "CaseError",
    "Contract",
    "EnvironmentMissingError",
    "IdRun",
    "InternalError",
    "KVBlockZeroer",
    "KvzeroError",
    "LaunchLimitError",
    "Layout",
    "LayoutError",
    "MadeSubject",
    "Placement",
    "Pool",
    "PropertyFailure",
    "Run",
    "Subject",
    "SubjectError",
    "Tile",
    "View",
    "assert_zeroes",
    "capture_layout",
    "launch_guard",
    "preset",
    "preset_names",
    "read_case_file",
    "write_case_file",
]

__version__ = "0.1.0"


def _check_strategies_link() -> None:
    """Refuse a checkout or archive that lost its symbolic link.

    Git without ``core.symlinks`` and some archivers write the link's target as text,
    others drop it.
    """
    link = Path(__file__).with_name("strategies")
    if not link.is_dir():
        what = "a text file" if link.is_file() else "missing or leads nowhere"
        raise ImportError(
            f"{link} is {what}, but must be a symbolic link to ../strategies: check "
            f"out with `git config core.symlinks true`, or install from a wheel"
        )


_check_strategies_link()

if environ.get("KVZERO_LAUNCH_GUARD", "0") not in ("", "0"):
    # The one case in which Triton is imported at once: it is guarded from here on.
    import_module("kvzero.guarding").guard_if_asked()


def __getattr__(name: str) -> Any:  # Any: whichever public name is asked for
    if name not in _HOMES:
        raise AttributeError(f"module 'kvzero' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
