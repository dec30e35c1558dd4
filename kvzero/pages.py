"""From one view to its pages: one rule for every physical order.

One dimension of a view counts blocks. Dimensions whose stride exceeds the block stride
lie outside the block, and each of their elements is a segment of its own. All others
lie inside: the page is the span from their first to their last byte, holes included,
because that is what engines clear. The rule covers every physical order in use, from
K/V planes outside the blocks to blocks that hold all layers.
"""

from kvzero.errors import LayoutError
from kvzero.layout import (
    MAX_BLOCKS,
    MAX_BYTES,
    MAX_SEGMENTS,
    Axis,
    Run,
    View,
    check_int,
)

ELEMENT_BYTES = {
    "bool": 1,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element, by torch's name of the dtype."""

MAX_DIMENSIONS = 64
"""Dimensions of a view; torch has no more."""


def runs_of_view(view: View, num_blocks: int, *, name: str = "view") -> tuple[Run, ...]:
    """Return the segments of a view as runs: outer dimensions, then kernel blocks.

    Args:
        view: The view.
        num_blocks: Blocks of the cache.
        name: What errors call the view.

    Raises:
        LayoutError: A dimension is expanded or runs backwards, does not count the
            blocks, or makes blocks interleave; the view and dimension are named.
    """
    check_view(view, num_blocks, name)
    element = ELEMENT_BYTES[view.dtype]
    kernel_blocks = view.kernel_blocks_per_block
    step = _block_step_bytes(view)
    page = element
    axes: list[Axis] = []
    for dim in _wide_dims(view):
        size, stride = view.shape[dim], view.strides[dim] * element
        if stride > step:
            check_int(f"{name}.shape[{dim}]", size, 1, MAX_SEGMENTS)
            axes.append(Axis(size, stride))
        else:
            page += (size - 1) * stride
            if page > step and view.shape[view.block_dim] > 1:
                raise LayoutError(
                    f"{name}.shape[{dim}]={size}, but must end before the next block: "
                    f"with it a page spans {page} B of a block stride of {step} B"
                )
    if kernel_blocks > 1:
        check_int(f"{name}.kernel_blocks_per_block", kernel_blocks, 1, MAX_SEGMENTS)
        axes.append(Axis(kernel_blocks, step))
    # Where there is one block its stride means nothing, but must hold the page.
    stride = max(kernel_blocks * step, page)
    run = Run(page, stride, view.offset_bytes, view.allocation, tuple(axes))
    check_int(f"{name}: its segments", run.segments, 1, MAX_SEGMENTS)
    return (run,)


def check_view(view: View, num_blocks: int, name: str) -> None:
    """Refuse a view that is no plain strided tensor of the given blocks.

    Args:
        view: The view.
        num_blocks: Blocks of the cache.
        name: What errors call the view.

    Raises:
        LayoutError: The view, and the dimension where there is one, are named.
    """
    check_int("num_blocks", num_blocks, 0, MAX_BLOCKS)
    check_element(view.dtype, name)
    dims = len(view.shape)
    check_int(f"{name}: its dimensions", dims, 1, MAX_DIMENSIONS)
    if len(view.strides) != dims:
        raise LayoutError(
            f"{name}.strides={view.strides}, but must be {dims} numbers, one for each "
            f"dimension of its shape {view.shape}"
        )
    check_int(f"{name}.block_dim", view.block_dim, 0, dims - 1)
    check_int(f"{name}.offset_bytes", view.offset_bytes, 0, MAX_BYTES)
    check_int(f"{name}.allocation", view.allocation, 0, MAX_BYTES)
    kernel_blocks = view.kernel_blocks_per_block
    check_int(f"{name}.kernel_blocks_per_block", kernel_blocks, 1, MAX_BYTES)
    for dim in range(dims):
        _check_dim(view, dim, name)
    size = view.shape[view.block_dim]
    if size != num_blocks * kernel_blocks:
        raise LayoutError(
            f"{name}.shape[{view.block_dim}]={size}, but must be num_blocks * "
            f"kernel_blocks_per_block = {num_blocks} * {kernel_blocks}: it is the "
            f"block dimension"
        )


def _check_dim(view: View, dim: int, name: str) -> None:
    size, stride = view.shape[dim], view.strides[dim]
    smallest = 0 if dim == view.block_dim else 1
    check_int(f"{name}.shape[{dim}]", size, smallest, MAX_BYTES)
    longest = MAX_BYTES // ELEMENT_BYTES[view.dtype]
    check_int(f"{name}.strides[{dim}]", stride, -longest, longest)
    if stride < 1 and size > 1:
        why = "it runs backwards" if stride else "the dimension is expanded"
        raise LayoutError(
            f"{name}.strides[{dim}]={stride}, but must be at least 1 where the "
            f"dimension has {size} elements: {why}"
        )
    check_int(
        f"{name}: extent of dimension {dim} in bytes",
        max(size - 1, 0) * stride * ELEMENT_BYTES[view.dtype],
        0,
        MAX_BYTES,
    )


def check_element(dtype: str, name: str) -> None:
    """Refuse an element type that `ELEMENT_BYTES` does not hold.

    Raises:
        LayoutError: It does not; the known ones are listed.
    """
    if dtype not in ELEMENT_BYTES:
        raise LayoutError(
            f"{name}.dtype={dtype!r}, but must be one of {', '.join(ELEMENT_BYTES)}"
        )


def _wide_dims(view: View) -> list[int]:
    """Return the dimensions beside the blocks that have more than one element."""
    return [d for d, n in enumerate(view.shape) if d != view.block_dim and n > 1]


def _block_step_bytes(view: View) -> int:
    """Return the bytes from one kernel block to the next.

    A dimension of one element may have any stride; one that cannot be a step is
    replaced by the view's whole extent, so that nothing lies outside the only block.
    """
    step = view.strides[view.block_dim] * ELEMENT_BYTES[view.dtype]
    return step if step > 0 else max(extent_bytes(view), 1)


def extent_bytes(view: View) -> int:
    """Return the bytes from a view's first to its last, inclusive."""
    if 0 in view.shape:
        return 0
    last = sum((n - 1) * s for n, s in zip(view.shape, view.strides))
    return (last + 1) * ELEMENT_BYTES[view.dtype]
