"""How the ids of a call reach the subject, and what its caller does with them after.

A buffer that is larger than the list is filled between the ids with an id that the list
does not hold, so that a subject which ignores offset or step zeroes a wrong block. Once
a call has returned, its caller may reuse the memory that held the ids: `reuse_ids` does
so at once, so that a subject which still reads it zeroes a wrong block too.
"""

from typing import Any

import numpy as np
import torch

from kvzero.case import REFUSED_DTYPES, Call

_LARGEST_FILLER = 127  # fits every dtype of ids


def block_ids_for(
    call: Call, device: torch.device | str, num_blocks: int | None = None
) -> Any:  # Any: a list, an array or a tensor, as the call says
    """Return what a call hands to the subject: a fresh list, array or tensor.

    Args:
        call: The call.
        device: Device of the case's memory, for ids that arrive there.
        num_blocks: Blocks of the cache: the gaps of a buffer then hold a legal id.
    """
    if call.arrival == "list":
        return _as_list(call.expand(), call.dtype)
    end_el = call.offset_el + call.num_ids * call.step_el
    listed = slice(call.offset_el, end_el, call.step_el)
    array = _buffer(call, num_blocks)
    if call.arrival == "array":
        return array[listed]
    tensor = torch.from_numpy(array)
    if call.arrival == "pinned" and torch.cuda.is_available():
        tensor = tensor.pin_memory()
    elif call.arrival == "device":
        tensor = tensor.to(device)
    return tensor[listed]


def reuse_ids(block_ids: Any, num_blocks: int) -> None:  # Any: see `block_ids_for`
    """Overwrite ids in host memory, as their caller may once a call has returned."""
    if isinstance(block_ids, torch.Tensor) and block_ids.device.type != "cpu":
        return
    if not len(block_ids):
        return
    # As NumPy sees it: torch refuses to read a uint64 beyond int64 as an int.
    ids = block_ids.numpy() if isinstance(block_ids, torch.Tensor) else block_ids
    shown = ids[: _LARGEST_FILLER + 1]
    values = set(shown if isinstance(ids, list) else shown.tolist())
    filler = _filler(values, num_blocks)
    ids[:] = [filler] * len(ids) if isinstance(ids, list) else filler


def _as_list(ids: list[int], dtype: str) -> list[Any]:  # Any: bools, floats or ints
    if dtype == "bool":
        return [bool(i) for i in ids]
    if dtype in REFUSED_DTYPES:
        return [float(i) for i in ids]
    return ids


def _buffer(
    call: Call, num_blocks: int | None
) -> np.ndarray[Any, Any]:  # Any: each dtype of ids
    """Return the whole buffer: the ids at their offset and step, a filler elsewhere."""
    size = call.offset_el + call.num_ids * call.step_el + 1
    listed = set(call.blocks(_LARGEST_FILLER + 1).tolist())
    buffer: np.ndarray[Any, Any]  # Any: as above
    with np.errstate(over="ignore"):  # float16 holds large ids as infinity
        buffer = np.full(size, _filler(listed, num_blocks), np.dtype(call.dtype))
        buffer[call.offset_el : size - 1 : call.step_el] = _as_array(call)
    return buffer


def _as_array(call: Call) -> Any:  # Any: int64, or a list where that is too narrow
    """Return the block list as NumPy can copy it, without an int of Python's each."""
    ends = (r.start + n * r.step for r in call.ids for n in (0, r.count))
    if not all(-(2**63) <= end < 2**63 for end in ends):
        return call.expand()
    parts = [run.start + run.step * np.arange(run.count) for run in call.ids]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _filler(listed: set[int], num_blocks: int | None) -> int:
    """Return the first id that the list does not hold, 0 if it holds all.

    Args:
        listed: Those of its ids, at least, that may be the result.
        num_blocks: Blocks of the cache; None: any id will do.
    """
    limit = _LARGEST_FILLER + 1 if num_blocks is None else num_blocks
    candidates = range(min(limit, _LARGEST_FILLER + 1))
    return next((i for i in candidates if i not in listed), 0)
