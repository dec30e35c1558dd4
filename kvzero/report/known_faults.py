"""The page of known faults: what the harness must catch, told from the code alone.

A fault's name, kind and property stand in its declaration, its public reference in the
docstring of its module; nothing is kept twice, and a test sees to it that the page in
`docs/` is what this module writes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import import_module

from kvzero.subjects import faults as fault_modules
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.server_faults import SERVER_FAULTS

_HEAD = """\
# Known faults

What the harness must catch. Each fault subject is correct but for one fault, which was
publicly reported or stands in for such a one, and names the property that catches it.
`kvzero faults` fuzzes all that this machine can judge, from one fixed seed, and prints
the kill matrix: a kill is a located violation of that property, of the kind that the
fault names. This page is written by `kvzero faults --page docs/known-faults.md`.
"""
_SERVERS = """\
## Block servers

Faults of what decides which blocks are zeroed, and when. `kvzero lifecycle --server
NAME` draws histories of a block pool (allocate, extend, write, copy, load, fail to
load, free, dummy steps, sleep and wake, re-allocate, on a GPU capture) and compares
every byte with a model after each step. The correct server must pass on every executor.
"""
_REFERENCE = re.compile(r"Kind: (.+?)\n(?:Breaks:|\n)", re.DOTALL)


def known_faults_page() -> str:
    """Return the page, Markdown."""
    faults = fault_subjects()
    rows = [_row(fault) for fault in faults]
    columns = ("fault", "kind", "area", "property and violation", "by", "reference")
    servers = [
        (
            f"`{each.name}`",
            each.kind,
            f"`{each.breaks}`",
            "device" if each.needs_gpu else "footprint, host, device",
            each.source,
        )
        for each in SERVER_FAULTS
    ]
    server_columns = ("server", "kind", "rule", "by", "reference")
    parts = (
        _HEAD,
        f"## Zeroers\n\n{_counts(faults)}\n",
        _table(columns, rows),
        _SERVERS,
        _table(server_columns, servers),
    )
    return "\n".join(parts)


def reference(fault: Fault) -> str:
    """Return the public reference that a fault's module gives, in one line."""
    name = f"{fault_modules.__name__}.{fault.name.replace('-', '_')}"
    found = _REFERENCE.search(import_module(name).__doc__ or "")
    text = " ".join(found[1].split()) if found else ""
    return text.replace(". Source: ", ": ").removesuffix(".")


def _row(fault: Fault) -> tuple[str, ...]:
    return (
        f"`{fault.name}`",
        fault.kind,
        fault.area,
        f"`{fault.breaks}`: {fault.what}",
        "device" if fault.needs_gpu else "footprint",
        reference(fault),
    )


def _counts(faults: Sequence[Fault]) -> str:
    """Return how many faults and kinds there are, and of which areas."""
    areas = Counter({fault.kind: fault.area for fault in faults}.values())
    told = ", ".join(f"{count} {area}" for area, count in areas.most_common())
    gpu = sum(fault.needs_gpu for fault in faults)
    return (
        f"{len(faults)} faults of {areas.total()} kinds ({told}); {gpu} of them need a "
        f"GPU."
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
