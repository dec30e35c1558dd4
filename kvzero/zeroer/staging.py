"""How block ids of the host reach a stream of a GPU, while nothing waits for it.

A copy is made when its stream gets there, from whatever the host's memory holds by then
(an H200 delivered overwritten ids at every size; design.md, section 8). So ids are
copied from pinned memory of ours in which nothing changes: each list lies behind the
one before it, in a page that is given up once it is full. torch's allocator hands a
page out again only when all work before its last copy is done, which it learns from
that copy. On the device one buffer a stream is enough: what comes later on a stream
waits for what came before.
"""

import ctypes
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, Protocol

import numpy as np
import torch

from kvzero.zeroer.block_ids import ID_BYTES

PAGE_IDS = 8192
"""Ids of one page and of the buffer on the device. Longer lists are rare, and then it
is not their copy that takes time."""
PAGE_BYTES = PAGE_IDS * ID_BYTES
MOST_LANES = 64
"""Lanes of one device. Programs that use more streams than that have made them anew
again and again; these go the slower way, instead of costing memory for good."""


class Lane(Protocol):
    """A way for ids to one stream."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Return what to hold from `put` until the ids' kernel is queued."""

    def put(self, block_ids: bytes) -> torch.Tensor:
        """Return an int64 tensor that begins with the ids of these bytes."""


class HostLane:
    """The way to kernels that run on host memory: a copy."""

    lock = nullcontext()

    def put(self, block_ids: bytes) -> torch.Tensor:
        """Return a copy."""
        return torch.from_numpy(np.frombuffer(block_ids, np.int64).copy())


class TorchLane:
    """The way to any stream by torch's means: 10 us slower, for lists of any length."""

    lock = nullcontext()

    def __init__(self, device: torch.device) -> None:
        """Take the device; the stream is the current one at each call."""
        self._device = device

    def put(self, block_ids: bytes) -> torch.Tensor:
        """Return ids that were copied through pinned memory of their own."""
        ids = np.frombuffer(block_ids, np.int64)
        pinned = torch.empty(len(ids), dtype=torch.int64, pin_memory=True)
        pinned.numpy()[:] = ids
        return pinned.to(self._device, non_blocking=True)


class CudaLane:
    """The way to one stream of a CUDA device: one call of the driver.

    Attributes:
        lock: Keeps the ids of one thread from those of another on the same stream.
    """

    def __init__(self, device: torch.device, copy: Any) -> None:  # Any: ctypes
        """Make a lane of torch's current stream, which must be one of the device's.

        Args:
            device: The device.
            copy: The driver's function, from `host_to_device_copy`.
        """
        self.lock = Lock()
        self._stream = torch.cuda.current_stream(device).cuda_stream
        self._copy = copy
        self._used = 0
        self._ids = torch.empty(PAGE_IDS, dtype=torch.int64, device=device)
        self._address = self._ids.data_ptr()
        self._begin_page()

    def put(self, block_ids: bytes) -> torch.Tensor:
        """Return the buffer; it holds these ids until the next call on the stream.

        Args:
            block_ids: At most `PAGE_BYTES`.
        """
        size = len(block_ids)
        begin = self._used
        if begin + size > PAGE_BYTES:
            # torch, which knows nothing of our copies, learns from this one how long
            # they take. It is overwritten by the copy of the ids.
            self._ids[:1].copy_(self._page[:1], non_blocking=True)
            self._begin_page()
            begin = 0
        self._used = end = begin + size
        self._view[begin:end] = block_ids
        if self._copy(self._address, self._page_address + begin, size, self._stream):
            # torch does it, or its error says what is wrong with the device.
            ids = self._page[begin // ID_BYTES : end // ID_BYTES]
            self._ids[: len(ids)].copy_(ids, non_blocking=True)
        return self._ids

    def _begin_page(self) -> None:
        self._page = torch.empty(PAGE_IDS, dtype=torch.int64, pin_memory=True)
        # It stores faster than an array. Any: arrays are no buffers to type checkers.
        array: Any = self._page.numpy()
        self._view = memoryview(array).cast("B")
        self._page_address = self._page.data_ptr()
        self._used = 0


def host_to_device_copy() -> Any:  # Any: a function of ctypes
    """Return CUDA's asynchronous copy to the device, or None where there is none.

    It takes two addresses, a size in bytes and a stream, and returns 0 for success.
    """
    try:
        copy = ctypes.CDLL("libcuda.so.1").cuMemcpyHtoDAsync_v2
    except (OSError, AttributeError):
        return None
    copy.argtypes = (
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_size_t,
        ctypes.c_uint64,
    )
    return copy
