"""Runs back to views: plain strided tensors for engines that want tensors.

The views of a layout that was drawn or written as runs are not known. These views have
the same pages, so an engine that makes its own table from tensors can be put under test
on any layout.
"""

from kvzero.errors import LayoutError
from kvzero.layout import Axis, Layout, Run, View, axes_steps
from kvzero.pages import ELEMENT_BYTES, check_element


def views_of_runs(layout: Layout, *, dtype: str = "uint8") -> tuple[View, ...]:
    """Return plain strided views whose pages are the layout's, in order of its runs.

    A run is one view, its axes as outer dimensions, where a strided tensor can say so:
    axes that step over whole blocks of one allocation, or kernel blocks. Elements of
    any other axis become views of their own.

    Args:
        layout: The layout; its own views are not looked at.
        dtype: Element type of the views.

    Raises:
        LayoutError: A page, stride, step or offset is no multiple of the element size.
    """
    views = []
    for index, run in enumerate(layout.runs):
        views.extend(_views_of_run(run, layout.num_blocks, dtype, f"runs[{index}]"))
    return tuple(views)


def _views_of_run(run: Run, num_blocks: int, dtype: str, name: str) -> list[View]:
    """Return the views of one run."""
    axes, kernel_blocks = [axis for axis in run.axes if axis.count > 1], 1
    if axes and _counts_kernel_blocks(axes[-1], run):
        kernel_blocks = axes.pop().count
    outer: list[Axis] = []
    # Peeled from the last axis inwards, so that single views stay in table order.
    while axes and _steps_over_blocks(axes[-1], run):
        outer.insert(0, axes.pop())
    at, where = axes_steps(tuple(axes))
    element = _element_of(run, dtype, kernel_blocks, name)
    shape = *(axis.count for axis in outer), num_blocks * kernel_blocks
    steps = *(axis.step_bytes for axis in outer), run.stride_bytes // kernel_blocks
    return [
        View(
            (*shape, run.page_bytes // element),
            (*(step // element for step in steps), 1),
            dtype,
            block_dim=len(outer),
            kernel_blocks_per_block=kernel_blocks,
            allocation=run.allocation + allocation,
            offset_bytes=run.offset_bytes + offset,
        )
        for offset, allocation in zip(at.tolist(), where.tolist())
    ]


def _counts_kernel_blocks(axis: Axis, run: Run) -> bool:
    return (
        not axis.step_allocations
        and axis.step_bytes * axis.count == run.stride_bytes
        and run.page_bytes <= axis.step_bytes
    )


def _steps_over_blocks(axis: Axis, run: Run) -> bool:
    return not axis.step_allocations and axis.step_bytes > run.stride_bytes


def _element_of(run: Run, dtype: str, kernel_blocks: int, name: str) -> int:
    """Return the size of an element that divides all that a view of a run counts."""
    check_element(dtype, name)
    element = ELEMENT_BYTES[dtype]
    counted = {
        "page_bytes": run.page_bytes,
        "stride_bytes": run.stride_bytes // kernel_blocks,
        "offset_bytes": run.offset_bytes,
        **{f"axes[{i}].step_bytes": a.step_bytes for i, a in enumerate(run.axes)},
    }
    for field, value in counted.items():
        if value % element:
            raise LayoutError(
                f"{name}.{field}={value}, but must be a multiple of the {element} B of "
                f"{dtype}: take uint8 views"
            )
    return element
