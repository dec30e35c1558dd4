"""Where a cache lives: what differs between a GPU and host memory.

On a GPU ids travel through pinned memory of our own, and whatever a kernel reads is
made known to torch's allocator, so that nobody reuses it too early. Host memory needs
neither: there the kernel runs under Triton's interpreter or a driver that records it.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

from kvzero.errors import LayoutError
from kvzero.zeroer.block_ids import ID_BYTES, INTEGER_DTYPES
from kvzero.zeroer.staging import (
    MOST_LANES,
    PAGE_IDS,
    CudaLane,
    HostLane,
    Lane,
    TorchLane,
    host_to_device_copy,
)

MOST_STREAMS = 1024
"""Streams that a zeroer remembers; torch itself has 65 a device."""
_LANES: dict[int, dict[int, Lane]] = {}
"""Lanes by GPU and stream: all zeroers of a process share them."""


class Home(Protocol):
    """The device of a cache, as the zeroer uses it."""

    @property
    def device(self) -> torch.device:
        """Return the device."""

    def is_current(self) -> bool:
        """Return whether it is torch's current device, where Triton launches."""

    def current(self) -> AbstractContextManager[object]:
        """Make it torch's current device."""

    def stream(self, table: torch.Tensor) -> int:
        """Return the current stream's handle; the table outlives its work so far."""

    def is_capturing(self, stream: int) -> bool:
        """Return whether the current stream, so `stream`, is captured into a graph."""

    def hold(self, block_ids: torch.Tensor, stream: int) -> None:
        """Keep ids from reuse until that stream has done its work so far."""

    def lane(self, stream: int, n_blocks: int) -> Lane:
        """Return how that many ids reach the current stream."""

    def pointer(self, tensor: torch.Tensor, first: int) -> Any:  # Any: Triton's
        """Return what a compiled kernel takes for a tensor from an element on."""

    def rehearse(self, block_ids: torch.Tensor) -> None:
        """Load what `converted` needs."""


class HostHome:
    """A cache in host memory: every call is done when it returns."""

    device = torch.device("cpu")
    _lane = HostLane()

    def is_current(self) -> bool:
        """Return True."""
        return True

    def current(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return nullcontext()

    def stream(self, table: torch.Tensor) -> int:
        """Return the number that a recording driver has for its only stream."""
        del table
        return 0

    def is_capturing(self, stream: int) -> bool:
        """Return False: there is no stream."""
        del stream
        return False

    def hold(self, block_ids: torch.Tensor, stream: int) -> None:
        """Do nothing: no work is pending."""

    def lane(self, stream: int, n_blocks: int) -> Lane:
        """Return the one that copies."""
        del stream, n_blocks
        return self._lane

    def pointer(self, tensor: torch.Tensor, first: int) -> Any:  # Any: Triton's
        """Return a tensor, by which a recording driver knows the memory."""
        return tensor.view(-1)[first:] if first else tensor

    def rehearse(self, block_ids: torch.Tensor) -> None:
        """Do nothing: ids in host memory are converted by NumPy."""


class GpuHome:
    """A cache on a GPU, CUDA's or HIP's: calls only queue work.

    Not for two caches: it remembers which streams use the table of one.
    """

    def __init__(self, index: int) -> None:
        """Take the GPU that torch numbers `index`."""
        torch.cuda.current_device()  # makes torch ready, as `current` expects it
        self._index = index
        self.device = torch.device("cuda", index)
        self._streams: dict[int, torch.cuda.Stream] = {}
        self._lanes = _LANES.setdefault(index, {})
        self._any_lane = TorchLane(self.device)

    def is_current(self) -> bool:
        """Return whether this GPU is torch's current device."""
        # torch.cuda.current_device() without its look whether torch is ready.
        return torch._C._cuda_getDevice() == self._index  # noqa: SLF001

    def current(self) -> AbstractContextManager[object]:
        """Return a context with this GPU as torch's current device."""
        return torch.cuda.device(self._index)

    def stream(self, table: torch.Tensor) -> int:
        """Return the current stream's handle, recorded once as a user of the table.

        The record lasts as long as the table's memory does.
        """
        # As Triton does it: `torch.cuda.current_stream` makes an object each time.
        handle = torch._C._cuda_getCurrentRawStream(self._index)  # noqa: SLF001
        if handle not in self._streams:
            if len(self._streams) == MOST_STREAMS:
                self._streams.clear()
            stream = torch.cuda.current_stream(self._index)
            table.record_stream(stream)
            self._streams[handle] = stream
        return handle

    def is_capturing(self, stream: int) -> bool:
        """Return whether this GPU's current stream is captured; needs `current`."""
        # The default stream, which has handle 0, cannot be.
        return stream != 0 and torch.cuda.is_current_stream_capturing()

    def hold(self, block_ids: torch.Tensor, stream: int) -> None:
        """Record a stream that `stream` returned as a user of the ids' memory.

        Free of cost in the allocator where the memory belongs to that very stream.
        """
        block_ids.record_stream(self._streams[stream])

    def lane(self, stream: int, n_blocks: int) -> Lane:
        """Return the lane of a stream, or torch's for what is too long for it."""
        lane = self._lanes.get(stream)
        if lane is None:
            lane = self._new_lane(stream)
        return lane if n_blocks <= PAGE_IDS else self._any_lane

    def pointer(self, tensor: torch.Tensor, first: int) -> int:
        """Return an address: of a tensor Triton asks it, and the driver about it."""
        return tensor.data_ptr() + first * ID_BYTES

    def rehearse(self, block_ids: torch.Tensor) -> None:
        """Convert ids from every dtype: the first use of each loads a kernel."""
        for dtype in INTEGER_DTYPES:
            converted(block_ids.to(dtype))

    def _new_lane(self, stream: int) -> Lane:
        copy = None if torch.version.hip else host_to_device_copy()
        if copy is None or len(self._lanes) >= MOST_LANES:
            return self._any_lane
        return self._lanes.setdefault(stream, CudaLane(self.device, copy))


def converted(block_ids: torch.Tensor) -> torch.Tensor:
    """Return ids of any integer dtype and stride as contiguous int64, on their device.

    A uint64 beyond int64 becomes negative, which is outside every cache as well.
    """
    return block_ids.to(torch.int64).contiguous()


def home_of(device: torch.device | str | int) -> Home:
    """Return the home for a device.

    Raises:
        LayoutError: The zeroer knows no such device.
    """
    found = torch.device(device)
    if found.type == "cpu":
        return HostHome()
    if found.type != "cuda":
        raise LayoutError(
            f"device={found}, but must be a cuda device (CUDA or HIP) or cpu"
        )
    return GpuHome(torch.cuda.current_device() if found.index is None else found.index)
