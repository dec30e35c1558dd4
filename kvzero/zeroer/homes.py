"""Where a cache lives: what differs between a GPU and host memory.

On a GPU ids travel through pinned memory of our own, and whatever a kernel reads is
made known to torch's allocator, so that nobody reuses it too early. Host memory needs
neither: there the kernel runs under Triton's interpreter or a driver that records it.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import numpy as np
import torch

from kvzero.errors import LayoutError
from kvzero.layout import Int64Array
from kvzero.zeroer.block_ids import INTEGER_DTYPES

_ALREADY_CURRENT = nullcontext()


class Home(Protocol):
    """The device of a cache, as the zeroer uses it."""

    @property
    def device(self) -> torch.device:
        """Return the device."""

    def current(self) -> AbstractContextManager[object]:
        """Make it torch's current device, which is where Triton launches."""

    def is_capturing(self) -> bool:
        """Return whether the current stream is captured into a CUDA graph."""

    def stage(self, block_ids: Int64Array) -> torch.Tensor:
        """Return ids of the host as a tensor here; the array may change at once."""

    def hold(self, *tensors: torch.Tensor) -> None:
        """Keep memory from reuse until the current stream has done its work so far."""

    def rehearse(self, block_ids: torch.Tensor) -> None:
        """Load what `converted` needs."""


class HostHome:
    """A cache in host memory: every call is done when it returns."""

    device = torch.device("cpu")

    def current(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return _ALREADY_CURRENT

    def is_capturing(self) -> bool:
        """Return False: there is no stream."""
        return False

    def stage(self, block_ids: Int64Array) -> torch.Tensor:
        """Return a copy of the ids."""
        return torch.from_numpy(block_ids.copy())

    def hold(self, *tensors: torch.Tensor) -> None:
        """Do nothing: no work is pending."""

    def rehearse(self, block_ids: torch.Tensor) -> None:
        """Do nothing: ids in host memory are converted by NumPy."""


class GpuHome:
    """A cache on a GPU, CUDA's or HIP's: calls only queue work."""

    def __init__(self, index: int) -> None:
        """Take the GPU that torch numbers `index`."""
        self._index = index
        self.device = torch.device("cuda", index)

    def current(self) -> AbstractContextManager[object]:
        """Return a context with this GPU as torch's current device."""
        if torch.cuda.current_device() == self._index:
            return _ALREADY_CURRENT
        return torch.cuda.device(self._index)

    def is_capturing(self) -> bool:
        """Return whether this GPU's current stream is captured; needs `current`."""
        return torch.cuda.is_current_stream_capturing()

    def stage(self, block_ids: Int64Array) -> torch.Tensor:
        """Copy ids through pinned memory of torch's own, reused only after the copy.

        A copy from pinned memory of the caller would read it after `zero` has returned:
        seen on an H200 at every size (design.md, section 8).
        """
        pinned = torch.empty(len(block_ids), dtype=torch.int64, pin_memory=True)
        np.copyto(pinned.numpy(), block_ids)
        return pinned.to(self.device, non_blocking=True)

    def hold(self, *tensors: torch.Tensor) -> None:
        """Record the current stream as a user of the tensors' memory.

        Free of cost in the allocator where the memory belongs to that very stream.
        """
        stream = torch.cuda.current_stream(self._index)
        for tensor in tensors:
            tensor.record_stream(stream)

    def rehearse(self, block_ids: torch.Tensor) -> None:
        """Convert ids from every dtype: the first use of each loads a kernel."""
        for dtype in INTEGER_DTYPES:
            converted(block_ids.to(dtype))


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
