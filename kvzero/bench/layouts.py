"""What is measured: the presets, four made layouts, and lengths of block lists.

The made layouts are the worst that is known of their kinds: pages that alternate
between wide and narrow in allocations of their own, the same pages side by side in one
allocation, the same with padding between them, and one wide page among many narrow
ones, where a grid as long as the widest page is nearly all programs without work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvzero.errors import LayoutError
from kvzero.layout import Allocation, Axis, Layout, Run
from kvzero.presets import load_preset, preset_names

FEW_BLOCKS = (1, 4, 16, 512)
LIST_SIZES = (1, 16, 64, 1024)
"""Lengths of lists at which the host's time is compared."""
PACKED = "mixed181-packed"
"""Where it is."""
WIDE_BYTES = 9344 * 4
NARROW_BYTES = 292 * 4
"""The widest and the narrowest page of the launch that overflowed (vLLM 52058)."""
PADDING_BYTES = 64
"""Between padded pages, as in DeepSeek-V4: neighbours do not touch, nor merge."""
HUGE_BYTES = 2**21
SMALL_BYTES = 2**10
MIXED_BLOCKS = 1024
WIDE_BLOCKS = 24_000


@dataclass(frozen=True)
class BenchLayout:
    """A layout with the block lists that it is measured with.

    Attributes:
        name: Its name; a preset's where it is one.
        make: Returns the layout with some number of blocks.
        num_blocks: Blocks at full size.
        own_sizes: Lengths of lists beside `FEW_BLOCKS`, always measured.
        model_sizes: Typical lengths of a model, left out where time is short.
    """

    name: str
    make: Callable[[int], Layout]
    num_blocks: int
    own_sizes: tuple[int, ...] = ()
    model_sizes: tuple[int, ...] = ()

    def within(self, most_bytes: int | None) -> Layout:
        """Return the layout with as many blocks as fit, at most its full size.

        Args:
            most_bytes: Bytes that all allocations may have together, or no limit.
        """
        if most_bytes is None:
            return self.make(self.num_blocks)
        one, two = (_total_bytes(self.make(n)) for n in (1, 2))
        return self.make(fitting_blocks(self.num_blocks, one, two - one, most_bytes))

    def sizes(
        self, num_blocks: int, chosen: Sequence[int] | None = None, *, quick: bool
    ) -> tuple[int, ...]:
        """Return the lengths to measure, ascending, each cut to the pool.

        Args:
            num_blocks: Blocks of the pool.
            chosen: Instead of the usual ones.
            quick: Leave out those of the model.
        """
        usual = *FEW_BLOCKS, *self.own_sizes, *(() if quick else self.model_sizes)
        wanted = usual if chosen is None else chosen
        return tuple(sorted({min(size, num_blocks) for size in wanted}))


def fitting_blocks(most: int, first: int, each: int, most_bytes: int) -> int:
    """Return how many blocks fit, where each after the first needs `each` bytes more.

    Raises:
        LayoutError: Not even one does.
    """
    if first > most_bytes:
        raise LayoutError(
            f"one block of {first} B, but must fit the {most_bytes} B that are free"
        )
    return min(most, 1 + (most_bytes - first) // each)


def _total_bytes(layout: Layout) -> int:
    return int(layout.allocation_sizes.sum())


def bench_layouts(names: Sequence[str] | None = None) -> tuple[BenchLayout, ...]:
    """Return the layouts of some names, or all: the made ones, then the presets.

    Raises:
        LayoutError: There is no layout of a name.
    """
    if names is None:
        names = (*MADE_LAYOUTS, *preset_names())
    return tuple(
        MADE_LAYOUTS[name] if name in MADE_LAYOUTS else _of_preset(name)
        for name in names
    )


def _of_preset(name: str) -> BenchLayout:
    preset = load_preset(name)
    sizes = sorted(
        {int(n) for n in preset.list_sizes.values() if n >= 1 and n % 1 == 0}
    )
    made = preset.layout
    return BenchLayout(name, made, preset.num_blocks, model_sizes=tuple(sizes))


def mixed_separate(num_blocks: int) -> Layout:
    """Return 181 segments of alternating pages in an allocation each."""
    wide = Allocation(WIDE_BYTES * num_blocks)
    narrow = Allocation(NARROW_BYTES * num_blocks)
    runs = (
        Run(WIDE_BYTES, WIDE_BYTES, axes=(Axis(91, step_allocations=2),)),
        Run(
            NARROW_BYTES,
            NARROW_BYTES,
            allocation=1,
            axes=(Axis(90, step_allocations=2),),
            interleaved=True,
        ),
    )
    return Layout(num_blocks, (*(wide, narrow) * 90, wide), runs)


def mixed_packed(num_blocks: int) -> Layout:
    """Return 181 segments of alternating pages, side by side in each block."""
    return _side_by_side(num_blocks, padding_bytes=0)


def mixed_padded(num_blocks: int) -> Layout:
    """Return the packed segments with padding between any two pages."""
    return _side_by_side(num_blocks, PADDING_BYTES)


def _side_by_side(num_blocks: int, padding_bytes: int) -> Layout:
    step = WIDE_BYTES + NARROW_BYTES + 2 * padding_bytes
    stride = 91 * step - NARROW_BYTES - padding_bytes
    narrow_at = WIDE_BYTES + padding_bytes
    runs = (
        Run(WIDE_BYTES, stride, axes=(Axis(91, step),)),
        Run(NARROW_BYTES, stride, narrow_at, axes=(Axis(90, step),), interleaved=True),
    )
    return Layout(num_blocks, (Allocation(stride * num_blocks),), runs)


def one_wide(num_blocks: int) -> Layout:
    """Return one segment of 2 MiB and 180 of 1 KiB, in an allocation each."""
    allocations = (
        Allocation(HUGE_BYTES * num_blocks),
        Allocation(SMALL_BYTES * num_blocks, 180),
    )
    small = (Axis(180, step_allocations=1),)
    runs = (
        Run(HUGE_BYTES, HUGE_BYTES),
        Run(SMALL_BYTES, SMALL_BYTES, allocation=1, axes=small),
    )
    return Layout(num_blocks, allocations, runs)


MADE_LAYOUTS = {
    made.name: made
    for made in (
        BenchLayout("mixed181-separate", mixed_separate, MIXED_BLOCKS),
        BenchLayout(PACKED, mixed_packed, MIXED_BLOCKS, LIST_SIZES),
        BenchLayout("mixed181-padded", mixed_padded, MIXED_BLOCKS),
        BenchLayout("wide1-narrow180", one_wide, WIDE_BLOCKS, (23_000,)),
    )
}
