"""Finding a subject by the name that ``--subject`` takes.

A name is a built-in subject, a fault subject, or ``module:attribute`` of anyone's.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

from kvzero.errors import SubjectError
from kvzero.subjects.protocol import Contract, MadeSubject, Subject

BUILT_INS: dict[str, str] = {
    "flat-1d": "kvzero.subjects.narrow_chunks:FLAT_1D",
    "kvzero": "kvzero.subjects.ours:KVZERO",
    "masked-3d": "kvzero.subjects.masked_3d:MASKED_3D",
    "narrow-z": "kvzero.subjects.narrow_chunks:NARROW_Z",
    "view-table": "kvzero.subjects.view_table:VIEW_TABLE",
}


def subject_names() -> tuple[str, ...]:
    """Return the names of all built-in and fault subjects, sorted."""
    return tuple(sorted((*BUILT_INS, *_faults())))


def find_subject(name: str) -> Subject:
    """Return the subject of a name or of ``module:attribute``.

    Raises:
        SubjectError: There is no such subject, or it does not follow the protocol.
    """
    if name in BUILT_INS:
        return _imported(BUILT_INS[name])
    if ":" in name:
        found = _imported(name)
        # Under the name by which every process finds it, whatever it calls itself.
        return MadeSubject(name, found.contract, found.build)
    faults = _faults()
    if name in faults:
        return faults[name]
    raise SubjectError(_unknown(name))


def _faults() -> dict[str, Subject]:
    from kvzero.subjects.faults import fault_subjects

    return {fault.name: fault for fault in fault_subjects()}


def _unknown(name: str) -> str:
    names = subject_names()
    close = get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]}? " if close else ""
    return (
        f"subject={name!r}, but must be a known name or module:attribute: {hint}"
        f"known are {', '.join(names)}"
    )


def _imported(path: str) -> Subject:
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise SubjectError(f"subject={path!r}, but must be module:attribute")
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise SubjectError(
            f"subject={path!r}, but {module_name} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    found: Any = getattr(module, attribute, None)  # Any: whatever is bound there
    missing = [a for a in ("name", "contract", "build") if not hasattr(found, a)]
    if missing:
        raise SubjectError(
            f"subject={path!r}, but {attribute} must have name, contract and build: "
            f"it lacks {', '.join(missing)}"
        )
    if not isinstance(found.contract, Contract) or not callable(found.build):
        raise SubjectError(
            f"subject={path!r}, but its contract must be a kvzero.Contract, and its "
            f"build a function"
        )
    return cast("Subject", found)  # checked just above, by attribute
