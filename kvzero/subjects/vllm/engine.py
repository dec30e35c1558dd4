"""What vLLM's engine would hand to its zeroer, made of the views of a case.

The engine binds one tensor to each attention layer, blocks first, and describes layers
of one kind by a group with a specification. A block of several kernel blocks shows in
the tensor, whose first dimension counts kernel blocks, and in the sizes that group and
runner name. Of a layer the zeroer reads its tensor only, of a specification its block
size; the rest is filled in as the engine would.

Source: vllm 0.33.0, ``vllm/v1/worker/utils.py``: `allocate_kv_cache`,
`prepare_kernel_block_sizes` and the constructor of `KVBlockZeroer`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from kvzero.layout import View
from kvzero.memory import Pool
from kvzero.pages import ELEMENT_BYTES
from kvzero.subjects.vllm.release import Release

KERNEL_BLOCK_TOKENS = 16
"""Tokens of a kernel block: what most backends take."""

Kind = tuple[tuple[int, ...], torch.dtype, int]
"""Shape without blocks, element type and kernel blocks per block of a layer."""


class Family(NamedTuple):
    """Views that differ only in where they begin, and lie evenly apart.

    Attributes:
        first: The first one.
        size: How many there are.
        step_bytes: From one to the next; of a single view any number.
    """

    first: View
    size: int
    step_bytes: int


class Engine(NamedTuple):
    """Arguments of the zeroer's constructor, as the runner names them.

    Attributes:
        attn_groups: Groups of layers, one for each kind.
        kernel_block_sizes: Tokens of a kernel block, one for each group.
        static_forward_context: Layers by name.
    """

    attn_groups: list[Any]  # Any: vLLM's groups
    kernel_block_sizes: list[int]
    static_forward_context: dict[str, Any]


def engine_of(pool: Pool, release: Release) -> Engine:
    """Return the groups and layers of a pool's views.

    Args:
        pool: The memory; where its layout has no views, plain ones of its runs.
        release: The classes of vLLM.
    """
    kinds: defaultdict[Kind, list[str]] = defaultdict(list)
    layers: dict[str, Any] = {}
    for family in families_of(pool.kv_views):
        tensors = _layers_of(pool, family)
        kind = _kind_of(family.first, tensors[0])
        for tensor in tensors:
            name = f"model.layers.{len(layers)}.self_attn.attn"
            layers[name] = SimpleNamespace(kv_cache=tensor)
            kinds[kind].append(name)
    groups = [
        release.group(release.backend, names, _spec(kind, release), index)
        for index, (kind, names) in enumerate(kinds.items())
    ]
    return Engine(groups, [KERNEL_BLOCK_TOKENS] * len(groups), layers)


def families_of(views: Sequence[View]) -> list[Family]:
    """Return the families of views, in order."""
    families: list[Family] = []
    for view in views:
        last = families[-1] if families else None
        if last is None or not _continues(last, view):
            families.append(Family(view, 1, 0))
            continue
        step = last.step_bytes or view.offset_bytes - last.first.offset_bytes
        families[-1] = Family(last.first, last.size + 1, step)
    return families


def _continues(family: Family, view: View) -> bool:
    """Return whether a view is the next one of a family."""
    distance = view.offset_bytes - family.first.offset_bytes
    if distance <= 0 or distance % ELEMENT_BYTES[view.dtype]:
        return False
    if family.size > 1 and distance != family.size * family.step_bytes:
        return False
    return _form(view) == _form(family.first)


def _form(view: View) -> tuple[object, ...]:
    """Return all of a view but where in its allocation it begins."""
    split = view.kernel_blocks_per_block
    return view.shape, view.strides, view.dtype, view.block_dim, split, view.allocation


def _layers_of(pool: Pool, family: Family) -> tuple[torch.Tensor, ...]:
    """Return the tensors of a family, blocks first, taken from one with layers first.

    So the engine makes them; and ten thousands cost little.
    """
    first = family.first
    together = replace(
        first,
        shape=(family.size, *first.shape),
        strides=(family.step_bytes // ELEMENT_BYTES[first.dtype], *first.strides),
        block_dim=first.block_dim + 1,
    )
    return pool.tensor_of(together).movedim(together.block_dim, 1).unbind()


def _kind_of(view: View, tensor: torch.Tensor) -> Kind:
    """Return what layers of one group have in common."""
    return tuple(tensor.shape[1:]), tensor.dtype, view.kernel_blocks_per_block


def _spec(kind: Kind, release: Release) -> Any:  # Any: vLLM's specification
    shape, dtype, kernel_blocks = kind
    elements = max(prod(shape) // KERNEL_BLOCK_TOKENS, 1)
    return release.spec(
        block_size=KERNEL_BLOCK_TOKENS * kernel_blocks,
        num_kv_heads=1,
        head_size=elements,
        head_size_v=0,
        dtype=dtype,
    )
