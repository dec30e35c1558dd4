"""One call in one's own test: does a function zero exactly the pages of some blocks?

`assert_zeroes` takes live KV tensors, on a CPU or a GPU, and any function of block ids.
The whole storages of the tensors are filled with poison while the function runs and
compared byte for byte afterwards, so that the rest of a storage guards the pages in it.
What lies beyond a storage belongs to others: it cannot be poisoned and is not looked
at, and the result says how much room there was.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from kvzero.case import Call, Case, id_runs
from kvzero.errors import PropertyFailure
from kvzero.executors.comparing import Difference
from kvzero.executors.live import LiveTrial, live_storages
from kvzero.layout import Layout, expand_runs
from kvzero.observation import ByteSpan, CallObservation, Observation
from kvzero.oracle import zeroed_blocks
from kvzero.pages import runs_of_view
from kvzero.properties import BYTE_PROPERTIES, Broken, judge
from kvzero.properties.verdict import labelled
from kvzero.properties.wording import counted
from kvzero.subjects.protocol import Contract
from kvzero.views import tiles_of_views
from kvzero.zeroer.block_ids import check_device_block_ids, host_block_ids

MOST_IDS = 32
"""Ids that the line to paste spells out."""

BlockIds = Any  # whatever the function takes: a list, an array, a tensor
KVTensors = Iterable[torch.Tensor | Sequence[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Zeroed:
    """What `assert_zeroes` judged, all of it right.

    Attributes:
        blocks: Distinct blocks listed.
        segments: Segments that each of them has.
        zero_bytes: Bytes that had to be zero and are.
        untouched_bytes: Bytes that had to stay as they were and did.
        guard_bytes: For each storage, its bytes before the first and after the last
            page of any block: all that guards against writes past the ends.
    """

    blocks: int
    segments: int
    zero_bytes: int
    untouched_bytes: int
    guard_bytes: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        """Return it as a sentence."""
        return (
            f"{counted(self.zero_bytes, 'byte')} of {counted(self.blocks, 'block')} "
            f"zero, {counted(self.untouched_bytes, 'byte')} untouched; guards: "
            f"{_guards_text(self.guard_bytes)}"
        )


def assert_zeroes(
    zero_fn: Callable[[BlockIds], object],
    tensors: KVTensors,
    *,
    ids: BlockIds,
    block_dim: int | Sequence[int] = 0,
    kernel_blocks_per_block: int | Sequence[int] = 1,
    num_blocks: int | None = None,
    padding_may_be_touched: bool = False,
    restore: bool = True,
    seed: int = 0,
) -> Zeroed:
    """Assert that a function zeroes the listed blocks of KV tensors and nothing else.

    The function is called once, with `ids` as they are. While it runs, the storages of
    the tensors hold poison, so nothing else may use them. Afterwards the pages of the
    listed blocks are zero and every other byte is what it was before; after a failure
    every byte is.

    Args:
        zero_fn: Takes the block ids.
        tensors: One entry a layer: a tensor, or a tuple of tensors such as (K, V).
        ids: What the function gets: a list, array or tensor of block ids. Ids on the
            device that lie outside the cache must write nothing.
        block_dim: The dimension that counts blocks, for all or for each entry.
        kernel_blocks_per_block: Kernel blocks of one block, for all or for each entry.
        num_blocks: Blocks of the cache; by default as the first tensor says.
        padding_may_be_touched: Padding between a listed block and the next may be
            zeroed too.
        restore: Keep a copy of the storages, on the CPU where the device is full, and
            put it back. Without it they are left as the function left them.
        seed: Seed of the poison.

    Returns:
        What was judged.

    Raises:
        PropertyFailure: A listed byte is not zero, or another byte changed; an
            `AssertionError` whose text says where.
        LayoutError: The tensors are no KV cache that has memory on one device.
        BlockIdError: `ids` are no block ids of the cache.
    """
    __tracebackhide__ = True  # pytest then shows the text at the caller's line
    entries = tensors if isinstance(tensors, torch.Tensor) else list(tensors)
    layout = Layout.from_tensors(
        entries,
        block_dim=block_dim,
        kernel_blocks_per_block=kernel_blocks_per_block,
        num_blocks=num_blocks,
    )
    if padding_may_be_touched:
        layout = replace(layout, tiles=tiles_of_views(layout.views, layout.num_blocks))
    call = _call(ids, layout.num_blocks)
    case = Case(
        layout, (call,), seed=seed, padding_may_be_touched=padding_may_be_touched
    )
    named = dict(_named(entries))
    trial = LiveTrial(case, live_storages(named))
    seen = trial.run(zero_fn, ids, restore=restore)
    if seen.missed.count or seen.touched.count:
        name = getattr(zero_fn, "__qualname__", repr(zero_fn))
        asked = _Asked(name, tuple(named), block_dim, kernel_blocks_per_block)
        raise PropertyFailure(_failure_text(trial, seen, asked))
    return Zeroed(
        len(zeroed_blocks(call, layout.num_blocks)),
        len(layout.table),
        *trial.byte_counts(),
        guard_bytes(layout),
    )


def guard_bytes(layout: Layout) -> tuple[tuple[int, int], ...]:
    """Return the bytes before the first and after the last page of each allocation."""
    table, sizes = layout.table, layout.allocation_sizes
    begin, end = sizes.copy(), np.zeros_like(sizes)
    last = max(layout.num_blocks - 1, 0) * table.stride_bytes
    np.minimum.at(begin, table.allocation, table.offset_bytes)
    np.maximum.at(end, table.allocation, table.offset_bytes + last + table.page_bytes)
    return tuple(zip(begin.tolist(), (sizes - end).tolist()))


def _guards_text(guards: Sequence[tuple[int, int]]) -> str:
    if not guards:
        return "none, there is no memory"
    before, after = (min(side) for side in zip(*guards))
    least = "" if len(guards) == 1 else "at least "
    return (
        f"{least}{before} B before and {after} B after the pages in "
        f"{counted(len(guards), 'storage')}; memory beyond a storage was not looked at"
    )


def _call(ids: BlockIds, num_blocks: int) -> Call:
    """Return ids as a call, refused where no function could be asked to zero them."""
    if not isinstance(ids, torch.Tensor) or ids.device.type == "cpu":
        taken = np.frombuffer(host_block_ids(ids, num_blocks), np.int64)
        return Call(id_runs(taken.tolist()))
    check_device_block_ids(ids, ids.device)
    return Call(id_runs(ids.tolist()), "device")


def _named(entries: KVTensors) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor with its name, in the order of the layout's views."""
    for index, entry in enumerate(entries):
        if isinstance(entry, torch.Tensor):
            yield f"tensors[{index}]", entry
        else:
            yield from ((f"tensors[{index}][{i}]", t) for i, t in enumerate(entry))


class _Asked(NamedTuple):
    """What was asked of `assert_zeroes`, for its message."""

    function: str
    names: tuple[str, ...]
    block_dim: int | Sequence[int]
    kernel_blocks_per_block: int | Sequence[int]

    def again(self, call: Call) -> str:
        """Return the call of `assert_zeroes` as a line to paste."""
        ids = call.expand() if call.num_ids <= MOST_IDS else f"[{call.num_ids} ids]"
        told = f"block_dim={self.block_dim}"
        if self.kernel_blocks_per_block != 1:
            told += f", kernel_blocks_per_block={self.kernel_blocks_per_block}"
        return f"kvzero.assert_zeroes({self.function}, tensors, {told}, ids={ids})"


def _failure_text(trial: LiveTrial, seen: Difference, asked: _Asked) -> str:
    """Return the located explanation of what a function did wrong."""
    layout, environment = (
        trial.case.layout,
        f"{trial.device}, torch {torch.__version__}",
    )
    call = CallObservation(None, True, seen.missed, seen.touched, seen.changed)  # noqa: FBT003 - positional fields of a dataclass
    observation = Observation(
        asked.function, "assert_zeroes", "machine", environment, (call,)
    )
    wrong = dict(zip(BYTE_PROPERTIES, (seen.missed, seen.touched)))
    lines = []
    for result in judge(trial.case, observation, Contract()):
        if isinstance(result, Broken) and result.property in wrong:
            owner = _tensor_of(layout, wrong[result.property].spans[0], asked.names)
            for violation in result.violations:
                lines += violation.lines(*owner)
    lines += labelled(
        ("ran", f"{asked.function} on {environment}"),
        ("guards", _guards_text(guard_bytes(layout))),
        ("again", asked.again(trial.case.calls[0])),
    )
    return "\n".join(lines)


def _tensor_of(
    layout: Layout, span: ByteSpan, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the first tensor one of whose blocks holds the first byte of a span."""
    for name, view in zip(names, layout.views):
        table = expand_runs(runs_of_view(view, layout.num_blocks))
        distance = span.offset_bytes - table.offset_bytes
        block = np.minimum(distance // table.stride_bytes, layout.num_blocks - 1)
        inside = (block >= 0) & (
            distance - block * table.stride_bytes < table.page_bytes
        )
        if view.allocation == span.allocation and inside.any():
            yield "tensor", name
            return
