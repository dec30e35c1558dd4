"""A stream that is held busy, so that what follows on it is queued and nothing more.

One program spins until the host sets a flag in pinned memory. It gives up by itself
after a while, so no way out of a test, and no death of its process, leaves a device
that spins: the release needs neither the host nor Python's lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer


@triton.jit(do_not_specialize=["flag_address", "most_ns"])
def spin(flag_address: tl.int64, most_ns: tl.int64):
    """Wait until an int32 at an address is set, or for so many nanoseconds."""
    flag_ptr = flag_address.to(tl.pointer_type(tl.int32))
    begin = globaltimer()
    is_held = tl.load(flag_ptr, volatile=True) == 0
    while is_held:
        is_in_time = globaltimer() - begin < most_ns
        is_held = (tl.load(flag_ptr, volatile=True) == 0) & is_in_time


@dataclass(frozen=True)
class Held:
    """A stream that is held.

    Attributes:
        passed: Recorded on it behind the hold.
    """

    passed: torch.cuda.Event

    def lasts(self) -> bool:
        """Return whether nothing queued behind the hold can have run yet."""
        return not self.passed.query()


class Hold:
    """Holds streams of one NVIDIA GPU, one at a time."""

    def __init__(self, device: torch.device) -> None:
        """Load the kernel: a module that is loaded later would wait for the hold."""
        self._flag = torch.ones(1, dtype=torch.int32, pin_memory=True)
        self._device = device
        with self.on_current_stream(0.0):
            pass
        torch.cuda.synchronize(device)

    @contextmanager
    def on_current_stream(self, most_seconds: float) -> Iterator[Held]:
        """Hold the current stream until the block ends.

        Args:
            most_seconds: When the stream goes on by itself.
        """
        self._flag.zero_()
        with torch.cuda.device(self._device):
            spin[(1,)](self._flag.data_ptr(), int(most_seconds * 1e9), num_warps=1)
            passed = torch.cuda.Event()
            passed.record()
        try:
            yield Held(passed)
        finally:
            self._flag.fill_(1)
