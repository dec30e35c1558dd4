"""Poison: what memory holds before a call, as a function of (seed, allocation, offset).

A dword of poison is its index, moved by a key of (seed, allocation) and scattered by an
affine map modulo 255**4, written as four digits from 1 to 255: no byte is zero, and no
two dwords of one allocation are equal for 16.9 GB. About one dword in 128 is replaced
by a planted one: mostly NaN in fp32, bf16 and fp16 at once (again without a zero byte),
and about one in 800 an infinity or a negative zero. Those hold zero bytes by nature,
where a wrong or a missing zero byte cannot be seen, so they are kept rare.

The formula uses only operators that NumPy arrays and torch tensors share. It never sees
an address, so the same case holds the same bytes on every executor.
"""

from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Ints = Any  # a NumPy array or torch tensor of int64: shared operators, no shared type

PERIOD_DWORDS = 255**4
"""Dwords after which the poison of one allocation repeats."""

# Coprime to 255, and small enough that its product with any index fits an int64.
_MULTIPLIER = 1_640_531_527
_LOWEST = 0x01010101

# A planted dword is one whose scattered index has a small remainder modulo a prime, so
# that plants keep no step with any page size.
_PLANT_MODULUS = 4093
_NAN_PLANTS = 27
_NAN_HALVES = 0x7F817F81
"""The smallest dword whose halves are NaN in bf16 and fp16; as fp32 it is one too."""
_NAN_PAYLOADS = 127

ZERO_HOLDING_PLANTS = (
    0x7F800000,  # +Inf in fp32
    0x7C00FC00,  # -Inf, +Inf in fp16
    0xFF807F80,  # +Inf, -Inf in bf16 (no zero byte, but kept with its kind)
    0x80000000,  # -0.0 in fp32
    0x80008000,  # -0.0 in bf16 and fp16
)
"""Infinities and negative zeros: a zeroer that tests ``x != 0`` must fail on them."""

_PLANTS = _NAN_PLANTS + len(ZERO_HOLDING_PLANTS)

PIECE_BYTES = 64 * 2**20
"""Bytes filled at once on a GPU: eight times that is the working memory."""
_CPU_PIECE_BYTES = 2**17  # the int64 working set then stays in a core's cache

_MASK64 = 2**64 - 1


def poison_key(seed: int, allocation: int) -> int:
    """Return how far the poison of one allocation is moved, in dwords."""
    # splitmix64's finaliser: neighbouring seeds and allocations give unrelated keys.
    value = (seed * 0x9E3779B97F4A7C15 + allocation * 0xD1B54A32D192ED03) & _MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK64
    return (value ^ (value >> 31)) % PERIOD_DWORDS


def poison_dwords(keyed_index: Ints) -> Ints:
    """Return poison dwords, as int64 from 0 to 2**32 - 1.

    Args:
        keyed_index: Dword index (offset // 4) plus the `poison_key` of its allocation.
    """
    scattered = keyed_index % PERIOD_DWORDS * _MULTIPLIER % PERIOD_DWORDS
    first = scattered // 255
    second = first // 255
    third = second // 255
    # The digits d of base 255, plus one each: sum((d[i] + 1) * 256**i), simplified.
    dwords = scattered + first + second * 256 + third * 65536 + _LOWEST
    chance = scattered % _PLANT_MODULUS
    if isinstance(dwords, np.ndarray):
        planted = np.nonzero(chance < _PLANTS)
        dwords[planted] = _planted(
            dwords[planted], chance[planted], first[planted], second[planted]
        )
        return dwords
    # A device would have to wait for the host to choose: there, choose everywhere.
    return _planted(dwords, chance, first, second)


def _planted(dwords: Ints, chance: Ints, first: Ints, second: Ints) -> Ints:
    """Replace the dwords whose chance says so, in place."""
    nans = first % _NAN_PAYLOADS + second % _NAN_PAYLOADS * 65536 + _NAN_HALVES
    dwords += (nans - dwords) * (chance < _NAN_PLANTS)
    for index, plant in enumerate(ZERO_HOLDING_PLANTS):
        dwords[chance == _NAN_PLANTS + index] = plant
    return dwords


def poison_bytes(offsets: Ints, keys: Ints) -> Ints:
    """Return the poison at byte offsets as int64, with one key or one key a byte.

    Args:
        offsets: Offsets from the base of their allocation, int64, of any sign.
        keys: The `poison_key` of their allocation or allocations.
    """
    dwords = poison_dwords((offsets >> 2) + keys)
    return (dwords >> ((offsets & 3) * 8)) & 255


@overload
def poison_at(
    seed: int, allocation: int, offsets: NDArray[np.int64]
) -> NDArray[np.uint8]: ...
@overload
def poison_at(
    seed: int, allocation: int, offsets: "torch.Tensor"
) -> "torch.Tensor": ...
def poison_at(seed: int, allocation: int, offsets: Ints) -> Ints:
    """Return the poison at byte offsets of one allocation, as uint8.

    Args:
        seed: Seed of the case.
        allocation: Index of the allocation.
        offsets: Offsets from its base, int64: any int, below 0 and beyond the size
            in guards; a NumPy array or a torch tensor.

    Returns:
        An array of the same kind and shape, uint8.
    """
    values = poison_bytes(offsets, poison_key(seed, allocation))
    if isinstance(values, np.ndarray):
        return values.astype(np.uint8)
    return values.to(_torch_uint8())


def fill_poison(
    tensor: "torch.Tensor", seed: int, allocation: int, first_offset: int
) -> None:
    """Fill a contiguous uint8 tensor with the poison of one allocation, in pieces.

    Args:
        tensor: The memory, on any device.
        seed: Seed of the case.
        allocation: Index of the allocation.
        first_offset: Offset of the tensor's first byte from the allocation's base.
    """
    import torch

    key = poison_key(seed, allocation)
    if tensor.device.type == "cpu":
        _fill_array(tensor.numpy(), key, first_offset)
        return
    for begin in range(0, tensor.numel(), PIECE_BYTES):
        part = tensor[begin : begin + PIECE_BYTES]
        skipped, lowest, end = _dword_range(first_offset + begin, part.numel())
        index = torch.arange(lowest + key, end + key, device=tensor.device)
        stored = poison_dwords(index).to(torch.int32).view(torch.uint8)
        part.copy_(stored[skipped:][: part.numel()])


def _fill_array(array: NDArray[np.uint8], key: int, first_offset: int) -> None:
    for begin in range(0, len(array), _CPU_PIECE_BYTES):
        part = array[begin : begin + _CPU_PIECE_BYTES]
        skipped, lowest, end = _dword_range(first_offset + begin, len(part))
        dwords = poison_dwords(np.arange(lowest + key, end + key))
        part[:] = dwords.astype(np.uint32).view(np.uint8)[skipped:][: len(part)]


def _dword_range(first_offset: int, length: int) -> tuple[int, int, int]:
    """Return the bytes to skip, and the dwords that hold a stretch of bytes."""
    return first_offset & 3, first_offset >> 2, (first_offset + length + 3) >> 2


def _torch_uint8() -> "torch.dtype":
    import torch

    return torch.uint8
