"""A failing case as one stand-alone script, for a report to whoever owns the kernel.

The script holds the case as plain numbers, the zeroer under test with its kernel, and a
check that is simple enough to be believed. It needs torch and Triton (which brings
NumPy), not kvzero.
"""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from types import FunctionType
from typing import NamedTuple

import numpy as np

from kvzero.case import Call, Case, IdRun
from kvzero.codec import Finding
from kvzero.errors import SubjectError
from kvzero.layout import Int64Array, Layout, axes_steps
from kvzero.memory import place
from kvzero.plain_views import views_of_runs
from kvzero.properties.bad_ids_are_refused import must_raise
from kvzero.properties.wording import case_text
from kvzero.report.flattening import PROTOCOL, flatten
from kvzero.report.folding import folded
from kvzero.report.source_modules import PACKAGE, Name
from kvzero.subjects.protocol import Subject

COLUMNS = 88
MAX_GAPS_BYTES = 2**33
"""Gaps of a case are kept up to this much memory in all, and cut beyond it."""
_CUT_GAP_BYTES = 2**24
_MOST_SPELLED_IDS = 16

_STANDALONE = "kvzero.report.standalone"
_MAIN = Name(f"{_STANDALONE}.run", "main")
_FOREIGN_BUILD = Name(f"{_STANDALONE}.foreign", "foreign_build")
_STAND_INS: Mapping[Name, Name] = {
    Name("kvzero.memory", "Pool"): Name(f"{_STANDALONE}.plain_case", "Pool"),
    Name("kvzero.subjects.protocol", "Pool"): Name(f"{_STANDALONE}.plain_case", "Pool"),
}

_POOL_METHODS = frozenset(
    {"runs", "kv_tensors", "base_addresses", "segment_addresses", "build"}
)
"""What a foreign subject may call of the stand-ins; its code is not looked at."""

_INTRODUCTION = '''\
"""A failing case of a zeroer of paged KV caches, as a script that needs no kvzero.

It lays memory out with guards, fills it with bytes that are never zero, calls the
zeroer and looks at every byte. It runs on a GPU where torch finds one, else in Triton's
interpreter. Exit codes: 1 the fault shows, 0 it does not, 3 this machine cannot show it
(a launch that the launcher skips, for one, needs a GPU of that maker). It needs torch
and Triton. Written by `kvzero export`; the copied code is under the Apache-2.0 licence.
"""'''
_INTERPRET = """\
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton defines a kernel"""
_SEGMENTS_COMMENT = """\
# Block b of a segment is the `page` bytes at offset + b * stride of its allocation.
# (repeats, bytes to the next repeat, allocations to the next repeat,
#  [(allocation, offset, stride, page), ...])"""
_CALLS_COMMENT = (
    "# (ids, how they arrive, dtype, elements before the first, step, must be refused)"
)
_PADDING_COMMENT = """\
# What listed blocks own and may be zeroed beside pages, in the form of SEGMENTS:
# (allocation, origin, bytes of a block, blocks)"""
_VIEWS_COMMENT = """\
# The KV tensors, where the zeroer asks for them: (shape, strides, dtype,
# block dimension, kernel blocks of a block, allocation, offset)"""
_END = """\
CASE = PlainCase(
    BROKEN,
    NUM_BLOCKS,
    ALLOCATION_BYTES,
    ALLOCATION_OFFSETS,
    GUARD_BYTES,
    ARENA_BYTES,
    SEGMENTS,
    [Call(*each) for each in CALLS],
    PADDING,
    [View(*each) for each in VIEWS],
)

if __name__ == "__main__":
    sys.exit(main(CASE, {make}))"""


class Export(NamedTuple):
    """What is exported.

    Attributes:
        case: The case.
        subject: The implementation under test.
        subject_name: The name that it was found by.
        found: What the case was saved for, if it was.
        origin: Where the case comes from.
    """

    case: Case
    subject: Subject
    subject_name: str
    found: Finding | None
    origin: str


def script(export: Export) -> str:
    """Return the text of the script.

    Raises:
        SubjectError: The subject is neither kvzero's own nor named module:attribute.
    """
    maker = _maker(export.subject)
    wanted = [maker or _FOREIGN_BUILD, _MAIN]
    called = PROTOCOL if maker else PROTOCOL | _POOL_METHODS
    flat = flatten(wanted, _STAND_INS, called)
    make = flat.names[wanted[0]]
    reads = flatten(wanted[:1], _STAND_INS).attributes
    if maker is None:
        make = f"{make}({_module_and_attribute(export.subject_name)})"
    parts = [
        _INTRODUCTION,
        _origin_text(export),
        _imports_text(flat.imports),
        "# ---- the case, as plain numbers; sizes and offsets in bytes ----",
        _numbers_text(export, with_views=maker is None or "kv_views" in reads),
    ]
    end = _END.format(make=make)
    return "\n\n".join(parts) + f"\n\n\n{flat.code}\n\n\n# ---- run ----\n\n{end}\n"


def _maker(subject: Subject) -> Name | None:
    """Return the function or class of kvzero that builds the subject, if one does."""
    make = getattr(subject, "make", None)
    if not isinstance(make, (FunctionType, type)):
        return None
    own = make.__module__.partition(".")[0] == PACKAGE
    return Name(make.__module__, make.__qualname__) if own else None


def _module_and_attribute(subject_name: str) -> str:
    module, _, attribute = subject_name.partition(":")
    if not attribute:
        raise SubjectError(
            f"subject={subject_name!r}, but must be module:attribute to be exported: "
            f"the script imports it under that name"
        )
    return f"{module!r}, {attribute!r}"


def _origin_text(export: Export) -> str:
    """Return what the case shows, as comments: its words may come from any file."""
    lines = [f"case     {export.origin}: {case_text(export.case)}"]
    lines.append(f"subject  {export.subject_name}")
    if export.found is not None:
        lines.append(f"found by {export.found.executor}, on {export.case.platform}")
        lines.append(f"{export.found.property} is broken ({export.found.what})")
        lines.append(export.found.failure)
    wrapped = (textwrap.wrap(ascii(line)[1:-1], COLUMNS - 4) for line in lines)
    return "\n".join(
        f"# {'  ' if index else ''}{part}"
        for parts in wrapped
        for index, part in enumerate(parts)
    )


def _imports_text(imports: Iterable[str]) -> str:
    """Return the import statements: Triton's last, once it is known how to run."""
    names: dict[str, set[str]] = {}
    for statement in {*imports, "import os", "import sys", "import torch"}:
        head, _, imported = statement.partition(" import ")
        names.setdefault(head, set()).update({imported} - {""})
    lines = [
        f"{head} import {', '.join(sorted(each))}" if each else head
        for head, each in names.items()
    ]
    modules = {line: line.split()[1].partition(".")[0] for line in lines}
    lines.sort(key=lambda line: (line.startswith("from"), line))
    triton = [line for line in lines if modules[line] == "triton"]
    others = [line for line in lines if modules[line] in ("numpy", "torch")]
    standard = [line for line in lines if line not in (*triton, *others)]
    groups = [standard, others, [_INTERPRET], triton]
    return "\n\n".join("\n".join(group) for group in groups)


def _numbers_text(export: Export, *, with_views: bool) -> str:
    case = export.case
    layout, table = case.layout, case.layout.table
    where = case.placement
    gaps_bytes = where.base_bytes + layout.num_allocations * where.gap_bytes
    cut = gaps_bytes > MAX_GAPS_BYTES
    addresses = place(case, most_gap_bytes=_CUT_GAP_BYTES if cut else None)
    rows = [table.allocation, table.offset_bytes, table.stride_bytes, table.page_bytes]
    calls = [_call_text(call, _is_refused(call, export)) for call in case.calls]
    assignments = [
        f"BROKEN = {(export.found.property if export.found else '')!r}",
        f"NUM_BLOCKS = {layout.num_blocks}",
        f"ALLOCATION_BYTES = {_ints_text(layout.allocation_sizes)}",
        *(["# Their distance was cut; in the case they lie farther apart."] * cut),
        f"ALLOCATION_OFFSETS = {_ints_text(addresses.base_bytes)}",
        f"GUARD_BYTES = {addresses.guard_bytes}",
        f"ARENA_BYTES = {addresses.total_bytes}",
        f"{_SEGMENTS_COMMENT}\nSEGMENTS = {_patterns_text(np.stack(rows, axis=1))}",
        f"{_CALLS_COMMENT}\nCALLS = {_list_text(calls)}",
        f"{_PADDING_COMMENT}\nPADDING = {_patterns_text(_padding_rows(case))}",
        f"{_VIEWS_COMMENT}\nVIEWS = {_views_text(layout) if with_views else '[]'}",
    ]
    return "\n".join(assignments)


def _is_refused(call: Call, export: Export) -> bool:
    checks = export.subject.contract.checks_ids
    return checks and must_raise(call, export.case.layout.num_blocks)


def _padding_rows(case: Case) -> Int64Array:
    """Return (allocation, origin, stride, count) of each tile that may be touched."""
    rows: list[tuple[int, int, int, int]] = []
    for tile in case.layout.tiles if case.padding_may_be_touched else ():
        steps = zip(*(column.tolist() for column in axes_steps(tile.axes)))
        rows += [
            (
                tile.allocation + allocations,
                tile.origin_bytes + distance,
                tile.stride_bytes,
                tile.count,
            )
            for distance, allocations in steps
        ]
    return np.array(rows, np.int64).reshape(-1, 4)


def _views_text(layout: Layout) -> str:
    """Return the KV tensors; where the layout has none, plain ones over its runs."""
    views = layout.views or views_of_runs(layout)
    return _list_text([repr(astuple(view)) for view in views])


def _patterns_text(rows: Int64Array) -> str:
    patterns = []
    for fold in folded(rows, 2):
        pattern = [
            tuple(r) for r in rows[fold.start : fold.start + fold.length].tolist()
        ]
        patterns.append(f"({fold.times}, {fold.step[1]}, {fold.step[0]}, {pattern})")
    return _list_text(patterns)


def _call_text(call: Call, must_be_refused: bool) -> str:  # noqa: FBT001 - as in the script
    how = (call.arrival, call.dtype, call.offset_el, call.step_el, must_be_refused)
    return f"({_ids_text(call)}, {repr(how)[1:-1]})"


def _ids_text(call: Call) -> str:
    """Return a block list as Python: long runs of ids as ranges."""
    if call.num_ids <= _MOST_SPELLED_IDS:
        return str(call.expand())
    return f"[{', '.join(_run_text(run) for run in call.ids if run.count)}]"


def _run_text(run: IdRun) -> str:
    if run.count == 1:
        return str(run.start)
    if run.step == 0:
        return f"*[{run.start}] * {run.count}"
    step = f", {run.step}" if run.step != 1 else ""
    return f"*range({run.start}, {run.start + run.count * run.step}{step})"


def _ints_text(values: Int64Array) -> str:
    """Return ints as Python, equal ones and equal steps in short."""
    if len(values) < 3:
        return str(values.tolist())
    first, step = int(values[0]), int(values[1] - values[0])
    if (np.diff(values) == step).all():
        if step == 0:
            return f"[{first}] * {len(values)}"
        return f"list(range({first}, {first + step * len(values)}, {step}))"
    return _list_text([str(value) for value in values.tolist()])


def _list_text(items: list[str]) -> str:
    """Return a list with an item a line, or as many as fit if they are short."""
    line = f"[{', '.join(items)}]"
    if len(line) < COLUMNS // 2:
        return line
    if all(len(item) < COLUMNS // 4 for item in items):
        wrapped = textwrap.wrap(", ".join(items), COLUMNS - 6)
        return "[\n" + "\n".join(f"    {part}" for part in wrapped) + ",\n]"
    return "[\n" + "".join(f"{_wrapped(item)},\n" for item in items) + "]"


def _wrapped(item: str) -> str:
    lines = textwrap.wrap(item, COLUMNS - 8, break_long_words=False)
    return "    " + "\n        ".join(lines)
