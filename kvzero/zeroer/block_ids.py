"""What counts as a list of block ids, and the refusal of everything else.

A host list is checked before anything is launched, and before it is converted: as int64
a bool or 1.7 would be an id like any other, and a large uint64 would be negative.
"""

import marshal
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kvzero.errors import BlockIdError

INTEGER_DTYPES = frozenset(
    (
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
    )
)
LONGEST_SHOWN_BITS = 256
"""Ints beyond it are named by their length: Python refuses to print the longest."""

LONG_LIST = 32
"""Ids from which `marshal` is the faster way: 1,024 take 29 instead of 57 us."""
PART_IDS = 1024
"""Ids that are searched for a bad one together."""
MARSHAL_VERSION = 2
"""Of its format: the last one without references, so every int is written out."""
MARSHAL_INT_BYTES = 5
ID_BYTES = 8
_PACK = [struct.Struct(f"{n}q").pack for n in range(LONG_LIST)]
"""What makes the bytes of that many ids."""

AnyArray = np.ndarray[Any, Any]  # Any: a shape and a dtype still to be checked


def host_block_ids(block_ids: object, num_blocks: int) -> bytes:
    """Return the bytes of a block list as kernels read it, each id inside the cache.

    Args:
        block_ids: A list, tuple, range or other sequence of ints, a NumPy array or a
            torch tensor in host memory.
        num_blocks: Blocks of the cache.

    Returns:
        `ID_BYTES` for each id: an int64 of the host's byte order.

    Raises:
        BlockIdError: It is anything else, or an id is outside the cache.
    """
    if isinstance(block_ids, (list, tuple)):
        return _of_list(block_ids, num_blocks)
    if isinstance(block_ids, np.ndarray):
        return _inside(_integers(block_ids), num_blocks)
    if isinstance(block_ids, torch.Tensor):
        return _inside(_integers(_array_of_tensor(block_ids)), num_blocks)
    if isinstance(block_ids, range):
        return _of_range(block_ids, num_blocks)
    if isinstance(block_ids, Sequence) and not isinstance(
        block_ids, (str, bytes, bytearray, memoryview)
    ):
        return _of_list(tuple(block_ids), num_blocks)
    raise BlockIdError(
        f"block_ids={_shown(block_ids)}, but must be a list, tuple, range, array or "
        f"tensor of ints"
    )


def are_as_kernels_read_them(block_ids: torch.Tensor, device: torch.device) -> bool:
    """Return whether a kernel may read a tensor's memory as block ids, as it is."""
    return (
        block_ids.dtype is torch.int64
        and block_ids.device == device
        and block_ids.ndim == 1
        and block_ids.is_contiguous()
        and block_ids.data_ptr() % block_ids.element_size() == 0
    )


def check_device_block_ids(block_ids: torch.Tensor, device: torch.device) -> None:
    """Refuse a tensor that no kernel could read as block ids; its values stay unread.

    Raises:
        BlockIdError: Its device, dtype, shape or alignment is wrong.
    """
    if block_ids.device != device:
        raise BlockIdError(
            f"block_ids.device={block_ids.device}, but must be {device} or cpu: ids "
            f"are read where the cache lies"
        )
    _check_shape_and_dtype(block_ids)
    if block_ids.data_ptr() % block_ids.element_size():
        raise BlockIdError(
            f"block_ids begins at address {block_ids.data_ptr():#x}, but must begin at "
            f"a multiple of its element size, {block_ids.element_size()} B"
        )


def _check_shape_and_dtype(block_ids: torch.Tensor) -> None:
    if block_ids.ndim != 1:
        raise _not_flat(tuple(block_ids.shape))
    # An empty tensor is an empty list, whatever its dtype: torch.tensor([]) is float32.
    if block_ids.dtype not in INTEGER_DTYPES and block_ids.numel():
        raise _not_integer(block_ids.dtype)


def _of_list(
    block_ids: Sequence[Any],  # Any: elements are checked here
    num_blocks: int,
) -> bytes:
    """Return the bytes of a list or a tuple; the usual ones take the short ways."""
    n_blocks = len(block_ids)
    if n_blocks >= LONG_LIST:
        array = _array_of_small_ints(block_ids)
        if array is not None:
            return _inside(array, num_blocks)
    elif set(map(type, block_ids)) == {int}:
        if min(block_ids) >= 0 and max(block_ids) < num_blocks:
            return _PACK[n_blocks](*block_ids)
    elif not n_blocks:
        return b""
    return _inside(_array_of_ints(block_ids, num_blocks), num_blocks)


def _array_of_ints(
    block_ids: Sequence[Any],  # Any: elements are checked here
    num_blocks: int,
) -> AnyArray:
    if set(map(type, block_ids)) != {int}:
        _check_types(block_ids)
        block_ids = [int(block_id) for block_id in block_ids]
    try:
        return np.array(block_ids, np.int64)
    except OverflowError:
        raise _first_outside(block_ids, num_blocks) from None


def _check_types(block_ids: Sequence[Any]) -> None:  # Any: what is checked
    for position, block_id in enumerate(block_ids):
        if isinstance(block_id, (bool, np.bool_)) or not isinstance(
            block_id, (int, np.integer)
        ):
            raise BlockIdError(
                f"block_ids[{position}]={_shown(block_id)}, but must be an int: a "
                f"{type(block_id).__name__} is no block id"
            )


def _first_outside(block_ids: Sequence[int], num_blocks: int) -> BlockIdError:
    """Return the refusal of the first bad id of a list in which there is one."""
    begin = 0
    # Built-in functions pass over the many good ids in front of it.
    while begin + LONG_LIST <= len(block_ids):
        part = block_ids[begin : begin + PART_IDS]
        if min(part) < 0 or max(part) >= num_blocks:
            break
        begin += len(part)
    while 0 <= block_ids[begin] < num_blocks:
        begin += 1
    return _outside(begin, block_ids[begin], num_blocks)


def _array_of_small_ints(
    block_ids: Any,  # Any: elements are checked here
) -> AnyArray | None:
    """Return a list or tuple as int32, or None unless all are ints that fit it.

    `marshal` writes both as 5 bytes and their elements, and such an int as the letter i
    and 4 bytes. So where there is an i for each element, every fifth byte, the first
    element is such an int, hence the second, and so on: all are seen and converted in a
    single pass.
    """
    try:
        written = marshal.dumps(block_ids, MARSHAL_VERSION)
    except ValueError:  # something that marshal does not know
        return None
    if written[MARSHAL_INT_BYTES::MARSHAL_INT_BYTES] != b"i" * len(block_ids):
        return None
    first = MARSHAL_INT_BYTES + 1
    return np.ndarray(len(block_ids), "<i4", written, first, MARSHAL_INT_BYTES)


def _of_range(block_ids: range, num_blocks: int) -> bytes:
    """Return the ids of a range, checked by its ends before it takes memory."""
    if not block_ids:
        return b""
    first, step = block_ids[0], block_ids.step
    if not 0 <= first < num_blocks:
        raise _outside(0, first, num_blocks)
    if not 0 <= block_ids[-1] < num_blocks:
        inside = -(-(num_blocks - first) // step) if step > 0 else first // -step + 1
        raise _outside(inside, block_ids[inside], num_blocks)
    return np.arange(first, block_ids.stop, step, dtype=np.int64).tobytes()


def _array_of_tensor(block_ids: torch.Tensor) -> AnyArray:
    if block_ids.device.type != "cpu":
        raise BlockIdError(
            f"block_ids.device={block_ids.device}, but must be cpu: ids are read where "
            f"the cache lies"
        )
    _check_shape_and_dtype(block_ids)
    return block_ids.numpy() if block_ids.numel() else np.zeros(0, np.int64)


def _integers(given: AnyArray) -> NDArray[np.integer]:
    if given.ndim != 1:
        raise _not_flat(given.shape)
    if not given.size:
        return np.zeros(0, np.int64)
    if given.dtype.kind not in "iu":
        raise _not_integer(given.dtype)
    return given


def _inside(given: NDArray[np.integer], num_blocks: int) -> bytes:
    """Return the bytes of ids as int64 if all are in the cache."""
    # The bytes are those of int64; a negative id is larger than any other so.
    unsigned = given.astype(np.uint64, copy=False)
    # `argmax` has half the overhead of `max`.
    if unsigned.size and unsigned.item(unsigned.argmax()) >= num_blocks:
        position = int(np.argmax(unsigned >= num_blocks))
        raise _outside(position, int(given[position]), num_blocks)
    return unsigned.tobytes()


def _outside(position: int, block_id: int, num_blocks: int) -> BlockIdError:
    return BlockIdError(
        f"block_ids[{position}]={_shown(block_id)}, but must be in "
        f"range(num_blocks={num_blocks}): block ids count from 0 within one cache."
    )


def _not_flat(shape: tuple[int, ...]) -> BlockIdError:
    return BlockIdError(
        f"block_ids.shape={shape}, but must have one dimension: pass a flat list of ids"
    )


def _not_integer(dtype: object) -> BlockIdError:
    return BlockIdError(
        f"block_ids.dtype={dtype}, but must be an integer dtype: a bool or a float is "
        f"no block id"
    )


def _shown(value: object) -> str:
    """Return a value as a message can hold it."""
    if isinstance(value, int) and value.bit_length() > LONGEST_SHOWN_BITS:
        return f"an int of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
