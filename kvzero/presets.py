"""KV-cache layouts of 25 real models and servers, at any number of blocks.

Each is one file below ``preset_layouts/``, found by being there. Each offset, step and
allocation size in it is a number of bytes, or a pair (constant, bytes per block), so a
preset shrinks to a few blocks without changing shape. The full size is what a cache of
the named hardware class would hold; it is an estimate, everything else is read in the
named public sources or derived from them.
"""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from kvzero.errors import LayoutError
from kvzero.layout import MAX_BLOCKS, Allocation, Axis, Layout, Run, check_int

FOLDER = "preset_layouts"
Record = dict[str, Any]  # Any: parsed JSON of our own, checked by `Layout`


@dataclass(frozen=True)
class Preset:
    """One real layout and where it comes from.

    Attributes:
        name: Its name.
        description: What it is, in a sentence or two.
        family: The kind of layout.
        order: The server's name of the physical order, such as ``"LBNHC"``.
        dtype: Element types of the cache.
        tokens_per_block: Tokens of one block.
        hardware: The class of machine that the full size is estimated for.
        num_blocks: Blocks at full size.
        num_segments: Segments, overlaid ones counted once.
        list_sizes: Lengths of block lists that a server would send, by occasion; a
            mean may be below one.
        sources: The public sources.
    """

    name: str
    description: str
    family: str
    order: str
    dtype: str
    tokens_per_block: int
    hardware: str
    num_blocks: int
    num_segments: int
    list_sizes: dict[str, float]
    sources: tuple[str, ...]

    @property
    def largest_list(self) -> int:
        """Return the length of the longest typical block list, at least 1."""
        return max(1, int(max(self.list_sizes.values())))

    def layout(self, num_blocks: int | None = None) -> Layout:
        """Return the layout.

        Args:
            num_blocks: Blocks of the cache, at least 1; by default the full size.

        Raises:
            LayoutError: `num_blocks` is out of range.
        """
        blocks = self.num_blocks if num_blocks is None else num_blocks
        check_int("num_blocks", blocks, 1, MAX_BLOCKS)
        record = _records()[self.name]
        return Layout(
            blocks,
            tuple(_allocation(piece, blocks) for piece in record["allocations"]),
            tuple(_run(run, blocks) for run in record["runs"]),
            widest_per_address=record.get("widest_per_address", False),
        )


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(_records()))


def load_preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        LayoutError: There is none of that name; the known ones and the closest are
            listed.
    """
    if name not in _records():
        close = get_close_matches(name, preset_names(), 1, cutoff=0.3)
        closest = f", the closest is {close[0]}" if close else ""
        raise LayoutError(
            f"preset={name!r}, but must be one of {', '.join(preset_names())}{closest}"
        )
    record = _records()[name]
    layout_fields = ("allocations", "runs", "widest_per_address")
    known = {key: value for key, value in record.items() if key not in layout_fields}
    return Preset(**{**known, "sources": tuple(record["sources"])})


def preset(name: str, num_blocks: int | None = None) -> Layout:
    """Return the layout of a preset; see `load_preset` and `Preset.layout`."""
    return load_preset(name).layout(num_blocks)


@cache
def _records() -> dict[str, Record]:
    """Return the parsed data, by name."""
    folder = files("kvzero").joinpath(FOLDER)
    texts = [file.read_text(encoding="utf-8") for file in folder.iterdir()]
    return {record["name"]: record for record in map(json.loads, texts)}


def _bytes(quantity: int | list[int], num_blocks: int) -> int:
    """Return a quantity at a number of blocks."""
    if isinstance(quantity, int):
        return quantity
    constant, per_block = quantity
    return constant + per_block * num_blocks


def _allocation(piece: Record, num_blocks: int) -> Allocation:
    return Allocation(_bytes(piece["size_bytes"], num_blocks), piece.get("count", 1))


def _run(run: Record, num_blocks: int) -> Run:
    """Return a run; its stride is its page where none is given."""
    page_bytes: int = run["page_bytes"]
    return Run(
        page_bytes,
        run.get("stride_bytes", page_bytes),
        _bytes(run.get("offset_bytes", 0), num_blocks),
        run.get("allocation", 0),
        tuple(
            Axis(
                axis["count"],
                _bytes(axis.get("step_bytes", 0), num_blocks),
                axis.get("step_allocations", 0),
            )
            for axis in run.get("axes", ())
        ),
        run.get("interleaved", False),
    )
