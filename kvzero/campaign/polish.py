"""Shrinking a case in its own terms, once Hypothesis has shrunk its choices.

A case is a tree of plain numbers and lists. Polishing tries, until nothing more helps,
to set each field to its default, to drop list items and to lower each number: to its
least value, by halves, by one. So the result is minimal in the words a reader sees: no
run can go, and no number can be lowered by one, without losing the fault. The caller
says what counts as the same fault.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from typing import Any

from kvzero.case import Case, IdRun
from kvzero.errors import KvzeroError
from kvzero.layout import Axis, Layout, View, axes_size
from kvzero.views import layout_of_views

MOST_FEW_BLOCKS = 4
"""Blocks that a far address is tried with, before single numbers are lowered."""

StillFails = Callable[[Case], bool]
Path = tuple[int | str, ...]


def polish(case: Case, still_fails: StillFails, is_over: Callable[[], bool]) -> Case:
    """Return the smallest case found that still fails.

    Args:
        case: A failing case.
        still_fails: Whether a candidate shows the same fault.
        is_over: Whether the time for it is up.
    """
    # The last round tries once more what the rounds before it have tried in vain.
    still_fails = cache(still_fails)
    changed = True
    while changed and not is_over():
        case, changed = _with_fewer_blocks(case, still_fails)
        for path in list(_paths(case)):
            better = _improve(case, path, still_fails, is_over)
            if better is not None:
                case, changed = better, True
            if is_over():
                return case
    return case


def _with_fewer_blocks(case: Case, still_fails: StillFails) -> tuple[Case, bool]:
    """Return the case with few blocks, as far apart as the many were, if it fails.

    Where a fault needs a far block, neither the number of blocks nor their stride can
    go down alone.
    """
    last = case.layout.num_blocks - 1
    for few in range(2, min(MOST_FEW_BLOCKS, last) + 1):
        candidate = _spread(case, few)
        if candidate is not None and still_fails(candidate):
            return candidate, True
    return case, False


def _spread(case: Case, few: int) -> Case | None:
    """Return the case with `few` blocks over the same memory, the last one listed."""
    layout = case.layout
    wider = (layout.num_blocks - 1) // (few - 1)
    try:
        runs = tuple(
            replace(run, stride_bytes=run.stride_bytes * wider) for run in layout.runs
        )
        spread = replace(layout, num_blocks=few, runs=runs, tiles=(), views=())
        calls = tuple(replace(call, ids=(IdRun(few - 1),)) for call in case.calls)
        return replace(case, layout=spread, calls=calls)
    except KvzeroError:
        return None


def _improve(
    case: Case, path: Path, still_fails: StillFails, is_over: Callable[[], bool]
) -> Case | None:
    """Return the case with the best accepted change at one place, or None."""
    best = None
    tried = True
    while tried and not is_over():
        tried = False
        current = best or case
        for smaller in _simpler(current, path):
            candidate = _with(current, path, smaller)
            if candidate is not None and still_fails(candidate):
                best, tried = candidate, True
                break
    return best


def _simpler(case: Case, path: Path) -> Iterator[object]:
    """Yield simpler values for one place: its field's default, then smaller ones.

    A default is simpler than any other value, so nothing is simpler than a default;
    otherwise 1 would go to 0 and back to a default of 1 for ever. Several axes, or
    several runs, become one with as many segments, so that their number can go down
    one by one.
    """
    value: Any = _get(case, path)  # Any: as there
    default = _default(_get(case, path[:-1]), path[-1])
    if value == default:
        return
    if default is not MISSING:
        yield default
    several = isinstance(value, tuple) and len(value) > 1
    if several and path[-1] == "axes":
        yield (Axis(axes_size(value)),)
    if several and path[-1] == "runs":
        total = sum(run.segments for run in value)
        yield (replace(value[0], axes=(Axis(total),)),)
    yield from _smaller(value)


def _default(parent: object, name: int | str) -> object:
    """Return the default of a field, or `MISSING`."""
    if not is_dataclass(parent):
        return MISSING
    return next(item.default for item in fields(parent) if item.name == name)


def _smaller(value: object) -> Iterator[object]:
    """Yield simpler values, the simplest first."""
    if isinstance(value, bool):
        if value:
            yield False
    elif isinstance(value, int):
        yield from _smaller_ints(value)
    elif isinstance(value, tuple):
        yield from _shorter(value)


def _smaller_ints(value: int) -> Iterator[int]:
    """Yield ints nearer to 0: 0, 1, ever smaller steps down, and one less."""
    sign = -1 if value < 0 else 1
    size = abs(value)
    seen = {size}
    steps = [0, 1]
    cut = size // 2
    while cut:
        steps.append(size - cut)
        cut //= 2
    for candidate in steps:
        if candidate < size and candidate not in seen:
            seen.add(candidate)
            yield sign * candidate
    if sign < 0:
        yield size


def _shorter(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the tuple without halves, then without single items."""
    if len(items) > 2:
        yield items[: len(items) // 2]
        yield items[len(items) // 2 :]
    for index in range(len(items)):
        yield items[:index] + items[index + 1 :]


def _paths(node: object, path: Path = ()) -> Iterator[Path]:
    """Yield the path of every field and list item, outermost first."""
    if is_dataclass(node):
        for item in fields(node):
            yield (*path, item.name)
            yield from _paths(getattr(node, item.name), (*path, item.name))
    elif isinstance(node, tuple):
        for index, item in enumerate(node):
            yield (*path, index)
            yield from _paths(item, (*path, index))


def _get(node: Any, path: Path) -> Any:  # Any: a walk through mixed dataclasses
    for step in path:
        try:
            node = getattr(node, step) if isinstance(step, str) else node[step]
        except IndexError:
            return None
    return node


def _with(case: Case, path: Path, value: object) -> Case | None:
    """Return a copy with one place changed; None where that is no other legal case."""
    try:
        changed: Case = _replaced(case, path, value)
        if changed.layout.views:
            changed = replace(changed, layout=_derived(changed.layout))
    except (KvzeroError, IndexError):
        return None
    return None if changed == case else changed


def _derived(layout: Layout) -> Layout:
    """Return a layout whose views fit its blocks, and whose runs follow from them."""
    views = tuple(_fitted(view, layout.num_blocks) for view in layout.views)
    derived = layout_of_views(
        views,
        layout.allocations,
        layout.num_blocks,
        widest_per_address=layout.widest_per_address,
    )
    return replace(derived, tiles=layout.tiles)


def _fitted(view: View, num_blocks: int) -> View:
    shape = list(view.shape)
    shape[view.block_dim] = num_blocks * view.kernel_blocks_per_block
    return replace(view, shape=tuple(shape))


def _replaced(node: Any, path: Path, value: object) -> Any:  # Any: as in `_get`
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return replace(node, **{step: _replaced(getattr(node, step), rest, value)})
    return (*node[:step], _replaced(node[step], rest, value), *node[step + 1 :])
