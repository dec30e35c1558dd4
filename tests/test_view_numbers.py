"""One number of a view moved to its limit, and a step over it: what is said, exactly.

A plain reading of the rules, number by number, tells which of them a view breaks first
and how it is told, or which run the view is.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.errors import LayoutError
from kvzero.layout import (
    MAX_ALLOCATIONS,
    MAX_BLOCKS,
    MAX_BYTES,
    MAX_SEGMENTS,
    Allocation,
    Axis,
    Run,
    View,
)
from kvzero.pages import ELEMENT_BYTES, extent_bytes, runs_of_view
from kvzero.views import check_views


def beside(*limits: int) -> list[int]:
    """Return limits with the numbers beside them."""
    return [limit + step for limit in limits for step in (-1, 0, 1)]


def outcome(call: Callable[[], object]) -> object:
    """Return what a call returns, or how it is refused."""
    try:
        return call()
    except LayoutError as error:
        return str(error)


def is_told(seen: str, expected: str) -> bool:
    """Return whether an error begins as expected: a limit, a digit, is its end."""
    return seen == expected if expected[-1:].isdigit() else seen.startswith(expected)


def is_beyond(name: str, value: object, least: int, most: int) -> str | None:
    if type(value) is int and least <= value <= most:
        return None
    return f"{name}={value!r}, but must be an int from {least} to {most}"


def objection(view: View, num_blocks: int) -> str | None:
    """Return how the first thing wrong with a view's numbers is told."""
    dims, size = len(view.shape), ELEMENT_BYTES[view.dtype]
    ratio = view.kernel_blocks_per_block
    found = (
        is_beyond("num_blocks", num_blocks, 0, MAX_BLOCKS)
        or is_beyond("v: its dimensions", dims, 1, 64)
        or (
            f"v.strides={view.strides}, but must be {dims} numbers"
            if len(view.strides) != dims
            else None
        )
        or is_beyond("v.block_dim", view.block_dim, 0, dims - 1)
        or is_beyond("v.offset_bytes", view.offset_bytes, 0, MAX_BYTES)
        or is_beyond("v.allocation", view.allocation, 0, MAX_BYTES)
        or is_beyond("v.kernel_blocks_per_block", ratio, 1, MAX_BYTES)
    )
    if found:
        return found
    for dim, (count, stride) in enumerate(zip(view.shape, view.strides)):
        least = 0 if dim == view.block_dim else 1
        found = is_beyond(f"v.shape[{dim}]", count, least, MAX_BYTES)
        most = MAX_BYTES // size
        found = found or is_beyond(f"v.strides[{dim}]", stride, -most, most)
        if not found and count > 1 and stride < 1:
            why = "the dimension is expanded" if stride == 0 else "it runs backwards"
            found = (
                f"v.strides[{dim}]={stride}, but must be at least 1 where the "
                f"dimension has {count} elements: {why}"
            )
        extent = (count - 1) * stride * size if count > 1 else 0
        name = f"v: extent of dimension {dim} in bytes"
        found = found or is_beyond(name, extent, 0, MAX_BYTES)
        if found:
            return found
    if view.shape[view.block_dim] != num_blocks * ratio:
        return (
            f"v.shape[{view.block_dim}]={view.shape[view.block_dim]}, but must be "
            f"num_blocks * kernel_blocks_per_block = {num_blocks} * {ratio}: "
        )
    return None


def extent(view: View) -> int:
    """Return the bytes of a view's span, from its last element's place."""
    if not all(view.shape):
        return 0
    last = [(count - 1) * stride for count, stride in zip(view.shape, view.strides)]
    return (sum(last) + 1) * ELEMENT_BYTES[view.dtype]


def run_of(view: View) -> Run | str | None:
    """Return the run of a view, or how it is refused; None: no run could hold it."""
    size, blocks = ELEMENT_BYTES[view.dtype], view.shape[view.block_dim]
    ratio = view.kernel_blocks_per_block
    step = view.strides[view.block_dim] * size
    if step < 1:
        step = extent(view) if blocks else 1
    page, axes, segments = size, [], ratio
    for dim, (count, stride) in enumerate(zip(view.shape, view.strides)):
        if dim == view.block_dim or count == 1:
            continue
        if stride * size > step:
            if wrong := is_beyond(f"v.shape[{dim}]", count, 1, MAX_SEGMENTS):
                return wrong
            axes.append(Axis(count, stride * size))
            segments *= count
        else:
            page += (count - 1) * stride * size
            if blocks > 1 and page > step:
                return (
                    f"v.shape[{dim}]={count}, but must end before the next block: with "
                    f"it a page spans {page} B of a block stride of {step} B"
                )
    if wrong := is_beyond("v.kernel_blocks_per_block", ratio, 1, MAX_SEGMENTS):
        return wrong
    axes += [Axis(ratio, step)] if ratio > 1 else []
    stride = max(ratio * step, page)
    if max(page, stride) > MAX_BYTES or view.allocation > MAX_ALLOCATIONS:
        return None
    return is_beyond("v: its segments", segments, 1, MAX_SEGMENTS) or Run(
        page, stride, view.offset_bytes, view.allocation, tuple(axes)
    )


DTYPES = ["uint8", "bfloat16", "float32", "complex128"]


@st.composite
def plain_views(draw: st.DrawFn) -> tuple[View, int]:
    """Draw a view of small numbers, in any order of its dimensions."""
    num_blocks, ratio = draw(st.integers(0, 3)), draw(st.sampled_from([1, 1, 1, 2, 3]))
    shape = draw(st.lists(st.integers(1, 4), max_size=3))
    block_dim = draw(st.integers(0, len(shape)))
    shape.insert(block_dim, num_blocks * ratio)
    strides, step = [1] * len(shape), 1
    for dim in draw(st.permutations(range(len(shape)))):
        strides[dim] = step + draw(st.sampled_from([0, 0, 1]))
        step = strides[dim] * max(shape[dim], 1)
        if shape[dim] < 2:  # may have any
            strides[dim] = draw(st.sampled_from([strides[dim], -2, -1, 0, 1, 2]))
    dtype = draw(st.sampled_from(DTYPES))
    view = View(tuple(shape), tuple(strides), dtype, block_dim, ratio)
    return view, num_blocks


FIELDS = {
    "block_dim": (0,),
    "kernel_blocks_per_block": (1, MAX_SEGMENTS, MAX_BYTES),
    "offset_bytes": (0, MAX_BYTES),
    "allocation": (0, MAX_ALLOCATIONS, MAX_BYTES),
}


def limits(field: str, dims: int) -> list[int]:
    return beside(*FIELDS[field], *[dims] * (field == "block_dim"))


@st.composite
def moved_views(draw: st.DrawFn) -> tuple[View, int]:
    """Draw a view with a number or two moved to the edge of what it may be."""
    view, num_blocks = draw(plain_views())
    size = ELEMENT_BYTES[view.dtype]
    for _ in range(draw(st.integers(0, 2), label="moved")):
        field = draw(st.sampled_from(["blocks", "shape", "strides", "extent", *FIELDS]))
        dim = draw(st.integers(0, len(view.shape) - 1))
        shape, strides = list(view.shape), list(view.strides)
        if field in FIELDS:
            number = draw(st.sampled_from(limits(field, len(shape))))
            view = replace(view, **{field: number})  # type: ignore[arg-type]  # by name
        elif field == "shape":
            shape[dim] = draw(st.sampled_from(beside(0, 2, MAX_SEGMENTS, MAX_BYTES)))
        elif field == "strides":
            most = MAX_BYTES // size
            strides[dim] = draw(st.sampled_from([*beside(0, most, -most), 2.0]))  # type: ignore[call-overload]  # refused
        elif field == "extent":
            shape[dim] = draw(st.integers(2, 9) | st.just(MAX_SEGMENTS))
            most = MAX_BYTES // size // (shape[dim] - 1)
            strides[dim] = draw(st.sampled_from(beside(most)))
        elif field == "blocks" and view.block_dim in range(len(shape)):
            num_blocks = draw(st.sampled_from(beside(0, MAX_BLOCKS)))
        view = replace(view, shape=tuple(shape), strides=tuple(strides))
        if view.block_dim in range(len(shape)) and draw(st.integers(0, 4)):
            ratio = view.kernel_blocks_per_block
            if field == "blocks":
                shape[view.block_dim] = num_blocks * ratio
                view = replace(view, shape=tuple(shape))
            elif dim == view.block_dim or field == "kernel_blocks_per_block":
                num_blocks = shape[view.block_dim] // max(ratio, 1)
                num_blocks = num_blocks or draw(st.integers(0, 1))
                shape[view.block_dim] = num_blocks * ratio
                view = replace(view, shape=tuple(shape))
    return view, num_blocks


FAR = View((2, 2, 1), (MAX_BYTES // 4, 1, 1), "float32", 1)
"""A plane that ends at the last byte that an extent may have."""


@settings(max_examples=300)
@given(moved_views())
@example((View((1, 1), (2, 1)), 1))
@example((View((1, 3), (1, 1)), 1))
@example((View((0, 3), (0, 2)), 0))
@example((View((1, 3), (0, 2)), 1))
@example((View((1, 3, 2), (1, 2, 1)), 1))
@example((View((2, 3, 2), (2, 3, 1)), 2))
@example((View((2, 2), (1, 1)), 2))
@example((FAR, 2))
@example((replace(FAR, shape=(3, 2, 1)), 2))
@example((View((MAX_SEGMENTS, 2), (2, 1), block_dim=1), 2))
@example((View((MAX_SEGMENTS + 1, 2), (2, 1), block_dim=1), 2))
@example((View((MAX_SEGMENTS, 2, 2), (4, 2, 1), block_dim=2), 2))
@example((View((MAX_SEGMENTS, 1), (1, 1), "uint8", 0, MAX_SEGMENTS), 1))
@example((View((MAX_SEGMENTS + 1, 1), (1, 1), "uint8", 0, MAX_SEGMENTS + 1), 1))
def test_a_view_is_a_run_or_told_which_number_is_beyond_which_limit(
    drawn: tuple[View, int],
) -> None:
    view, num_blocks = drawn
    told = objection(view, num_blocks)
    expected = told or run_of(view)
    seen = outcome(lambda: runs_of_view(view, num_blocks, name="v"))
    if isinstance(seen, str):
        assert not isinstance(expected, Run)
        assert is_told(seen, expected or "")
    else:
        assert seen == (expected,)
        assert extent_bytes(view) == extent(view)


PLAIN = [
    View((2, 3, 2), (6, 2, 1), "float32"),
    View((2, 4, 2), (2, 8, 1), "bfloat16", 1, 2),
    View((0, 1, 2), (0, 5, 1)),
    View((1, 1), (0, -1)),
]
PLACES = [("shape", dim) for dim in range(3)] + [("strides", dim) for dim in range(3)]
EDGES = {
    "shape": beside(0, 2, MAX_SEGMENTS, MAX_BYTES),
    "strides": beside(0, *(s * MAX_BYTES // e for e in (1, 2, 4) for s in (1, -1))),
}


@settings(max_examples=600)
@given(
    st.sampled_from(PLAIN),
    st.sampled_from(
        [(field, 0, n) for field in FIELDS for n in limits(field, 3)]
        + [(field, dim, n) for field, dim in PLACES for n in EDGES[field]]
    ),
)
def test_each_number_of_a_view_has_its_limits(
    view: View, moved: tuple[str, int, int]
) -> None:
    field, dim, number = moved
    ratio = view.kernel_blocks_per_block
    num_blocks = view.shape[view.block_dim] // ratio
    if field in FIELDS:
        view = replace(view, **{field: number})  # type: ignore[arg-type]  # by name
    else:
        numbers = list(getattr(view, field))
        numbers[min(dim, len(numbers) - 1)] = number
        view = replace(view, **{field: tuple(numbers)})  # type: ignore[arg-type]  # by name
        if number >= 0:
            num_blocks = view.shape[view.block_dim] // ratio
    expected = objection(view, num_blocks) or run_of(view)
    seen = outcome(lambda: runs_of_view(view=view, num_blocks=num_blocks, name="v"))
    if isinstance(seen, str):
        assert not isinstance(expected, Run)
        assert is_told(seen, expected or "")
    else:
        assert seen == (expected,)


@given(st.integers(0, 130), st.integers(-1, 1))
@example(0, 0)
@example(64, 0)
@example(65, 0)
def test_dimensions_are_counted_and_each_has_a_stride(dims: int, more: int) -> None:
    view = View((1,) * dims, (1,) * max(dims + more, 0), "uint8")
    told = objection(view, 1)
    seen = outcome(lambda: runs_of_view(view, 1, name="v"))
    assert is_told(seen, told or "!") if isinstance(seen, str) else not told


@given(plain_views(), st.integers(0, 5), st.integers(-2, 1), st.booleans())
def test_a_view_that_leaves_its_memory_is_told_with_its_name(
    drawn: tuple[View, int], offset: int, spare: int, is_named: bool
) -> None:
    view, num_blocks = replace(drawn[0], offset_bytes=offset), drawn[1]
    if objection(view, num_blocks) or not isinstance(run_of(view), Run):
        return
    end, size = offset + extent(view), max(1, offset + extent(view) + spare)
    names = ["mine"] if is_named else []
    name = "mine" if is_named else "views[0]"
    for where, told in (
        (1, f"{name}.allocation=1, but must be in range(1)"),
        (
            0,
            f"{name}.shape={view.shape}: the view reaches byte {end}, but must lie "
            f"within the {size} B of allocation 0",
        ),
    ):
        placed = replace(view, allocation=where)
        sizes = [Allocation(size)]
        seen = outcome(partial(check_views, [placed], sizes, num_blocks, names=names))
        assert seen == (told if where or end > size else None)
