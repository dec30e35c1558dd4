"""Bit patterns of the floating-point formats that NumPy does not know."""

from typing import Any

import numpy as np
import torch

Bits = Any  # a NumPy number or array of a signed integer dtype

TORCH_FLOATS: dict[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E4M3FNUZ": torch.float8_e4m3fnuz,
    "f8E5M2": torch.float8_e5m2,
    "f8E5M2FNUZ": torch.float8_e5m2fnuz,
}


def rounded(values: Any, element: str) -> Bits:
    """Return the bits of the nearest numbers of a format.

    Args:
        values: NumPy floats.
        element: The format's name in TTIR.
    """
    dtype = TORCH_FLOATS[element]
    floats = torch.from_numpy(np.array(values, np.float32).reshape(-1)).to(dtype)
    bits = floats.view(torch.int16 if dtype.itemsize == 2 else torch.int8).numpy()
    return bits.reshape(np.shape(values))[()]


def decoded(bits: Bits, element: str) -> Any:  # Any: NumPy floats
    """Return the numbers, float32, that some bits of a format stand for."""
    flat = torch.from_numpy(np.array(bits).reshape(-1)).view(TORCH_FLOATS[element])
    return flat.to(torch.float32).numpy().reshape(np.shape(bits))[()]
