"""Finding a subject by the name that ``--subject`` takes.

A name is a built-in subject, a fault subject, one that an installed package offers, or
``module:attribute`` of anyone's.
"""

from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

from kvzero.errors import SubjectError
from kvzero.subjects.offers import offered, offers
from kvzero.subjects.protocol import Contract, MadeSubject, Subject

BUILT_INS: dict[str, str] = {
    "flat-1d": "kvzero.subjects.narrow_chunks:FLAT_1D",
    "index-fill": "kvzero.subjects.torch_writers:INDEX_FILL",
    "kvzero": "kvzero.subjects.ours:KVZERO",
    "masked-3d": "kvzero.subjects.masked_3d:MASKED_3D",
    "narrow-z": "kvzero.subjects.narrow_chunks:NARROW_Z",
    "slot-rows": "kvzero.subjects.slot_rows:SLOT_ROWS",
    "torch-loop": "kvzero.subjects.torch_writers:TORCH_LOOP",
    "view-table": "kvzero.subjects.view_table:VIEW_TABLE",
    "vllm": "kvzero.subjects.vllm:VLLM",
}


def subject_names() -> tuple[str, ...]:
    """Return all names: of built-ins, of faults, and what packages offer, sorted."""
    offered_names = (offer.name for offer in offers())
    return tuple(sorted({*BUILT_INS, *_faults(), *offered_names}))


def find_subject(name: str) -> Subject:
    """Return the subject of a name or of ``module:attribute``.

    Raises:
        SubjectError: There is no such subject, or it does not follow the protocol.
    """
    if ":" in name:
        # Under the name by which every process finds it, whatever it calls itself.
        return _named(name, _imported(name, f"subject={name!r}"))
    faults = {} if name in BUILT_INS else _faults()
    offer = offered(name, is_taken=name in BUILT_INS or name in faults)
    if offer is not None:
        told = f"subject={name!r}, which {offer.distribution} offers as {offer.path!r}"
        return _named(name, _imported(offer.path, told))
    if name in BUILT_INS:
        return _imported(BUILT_INS[name], f"subject={name!r}")
    if name in faults:
        return faults[name]
    raise SubjectError(_unknown(name))


def _named(name: str, found: Subject) -> Subject:
    return MadeSubject(name, found.contract, found.build)


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


def _imported(path: str, told: str) -> Subject:
    """Return the subject at ``module:attribute``; `told` begins the error."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise SubjectError(f"{told}, but must be module:attribute")
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # a module may raise anything
        raise SubjectError(
            f"{told}, but {module_name} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    found: Any = getattr(module, attribute, None)  # Any: whatever is bound there
    missing = [a for a in ("name", "contract", "build") if not hasattr(found, a)]
    if missing:
        raise SubjectError(
            f"{told}, but {attribute} must have name, contract and build: "
            f"it lacks {', '.join(missing)}"
        )
    if not isinstance(found.contract, Contract) or not callable(found.build):
        raise SubjectError(
            f"{told}, but its contract must be a kvzero.Contract, and its build a "
            f"function"
        )
    return cast("Subject", found)  # checked just above, by attribute
