"""Where a byte lies, in the words of its layout: block and byte, padding or guard."""

from dataclasses import dataclass

import numpy as np

from kvzero.layout import Layout, Tile, axes_steps


@dataclass(frozen=True, slots=True)
class Location:
    """What a byte belongs to.

    Attributes:
        owner: ``"block 3"``, ``"padding of block 3"``, ``"guard of allocation 0"``, ...
        byte: Its position there.
        segment: The segment whose page holds it, if any.
    """

    owner: str
    byte: int
    segment: int | None = None

    def __str__(self) -> str:
        """Return both, as failure texts name a byte."""
        return f"{self.owner}, byte {self.byte}"


def locate(layout: Layout, allocation: int | None, offset_bytes: int) -> Location:
    """Return what a byte of a case's memory belongs to.

    Args:
        layout: The layout.
        allocation: The allocation whose bytes or guards hold it, or None.
        offset_bytes: Position from its base, or the address without an allocation.
    """
    if allocation is None:
        return Location("memory outside the case", offset_bytes)
    size = int(layout.allocation_sizes[allocation])
    if offset_bytes < 0:
        return Location(f"guard before allocation {allocation}", offset_bytes)
    if offset_bytes >= size:
        return Location(f"guard after allocation {allocation}", offset_bytes - size)
    return (
        _in_page(layout, allocation, offset_bytes)
        or _in_padding(layout, allocation, offset_bytes)
        or Location(f"allocation {allocation} outside every page", offset_bytes)
    )


def _in_page(layout: Layout, allocation: int, offset_bytes: int) -> Location | None:
    table = layout.table
    distance = offset_bytes - table.offset_bytes
    # The page of an only block may be wider than its stride.
    block = np.minimum(distance // table.stride_bytes, layout.num_blocks - 1)
    byte = distance - block * table.stride_bytes
    holds = (table.allocation == allocation) & (byte < table.page_bytes) & (block >= 0)
    if not holds.any():
        return None
    segment = int(np.argmax(holds))
    return Location(f"block {block[segment]}", int(byte[segment]), segment)


def _in_padding(layout: Layout, allocation: int, offset_bytes: int) -> Location | None:
    for tile in layout.tiles:
        origin = _origin(tile, allocation, offset_bytes)
        if origin is not None:
            block, byte = divmod(offset_bytes - origin, tile.stride_bytes)
            return Location(f"padding of block {block}", byte)
    return None


def _origin(tile: Tile, allocation: int, offset_bytes: int) -> int | None:
    """Return the origin of the repetition of a tile that holds a byte, if any."""
    step_bytes, step_allocations = axes_steps(tile.axes)
    origins = tile.origin_bytes + step_bytes
    distance = offset_bytes - origins
    holds = (tile.allocation + step_allocations == allocation) & (distance >= 0)
    holds &= distance < tile.count * tile.stride_bytes
    return int(origins[np.argmax(holds)]) if holds.any() else None
