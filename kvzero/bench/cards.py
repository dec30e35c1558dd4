"""Where calls are timed: what the benchmark asks of a device, and the GPU."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import torch

from kvzero.bench.contenders import Memset, TimedCall
from kvzero.bench.empty_kernel import do_nothing
from kvzero.bench.records import EMPTY, MEMSET
from kvzero.bench.timing import device_sampler, medians_us
from kvzero.errors import EnvironmentMissingError

HEADROOM_BYTES = 6 * 2**30
"""Left free on a GPU: copies of pages at work, graphs, what subjects make."""


class Times(NamedTuple):
    """Times of calls that took turns.

    Attributes:
        us: Median of each, by name.
        by_events: Who was timed by events around calls, being no graph's.
    """

    us: dict[str, float]
    by_events: frozenset[str]


class Card(Protocol):
    """A device with memory and a clock."""

    @property
    def device(self) -> torch.device:
        """Return the device."""

    def free_bytes(self) -> int:
        """Return the memory that may be asked for."""

    def wait(self) -> None:
        """Wait until all work is done.

        Raises:
            EnvironmentMissingError: The device is dead.
        """

    def yardsticks(self, memory: torch.Tensor, size_bytes: int) -> dict[str, TimedCall]:
        """Return calls that bound what a zeroer can do, `MEMSET` among them.

        Args:
            memory: Contiguous, uint8; its first bytes are cleared.
            size_bytes: How many of them.
        """

    def times(self, calls: Mapping[str, TimedCall], rounds: int) -> Times:
        """Return the times of calls that have been made before."""


class Gpu:
    """torch's current GPU."""

    def __init__(self) -> None:
        """Load what memset needs."""
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._memset = Memset()
        self._in_no_graph: set[str] = set()

    def free_bytes(self) -> int:
        """Return the free memory, less some headroom."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self.device)[0] - HEADROOM_BYTES

    def wait(self) -> None:
        """Wait until all work is done."""
        try:
            torch.cuda.synchronize(self.device)
        except RuntimeError as error:
            raise EnvironmentMissingError(f"{self.device} died: {error}") from error

    def yardsticks(self, memory: torch.Tensor, size_bytes: int) -> dict[str, TimedCall]:
        """Return memset, and a kernel that does nothing."""
        empty = TimedCall(lambda: do_nothing[(1,)](num_warps=1), on_device=True)
        return {MEMSET: self._memset.call(memory, size_bytes), EMPTY: empty}

    def times(self, calls: Mapping[str, TimedCall], rounds: int) -> Times:
        """Return the times of replays, and of rows of calls that no graph can hold.

        Who could not be captured once is not tried again.
        """
        samplers, by_events = {}, set()
        for name, call in calls.items():
            may = call.on_device and name not in self._in_no_graph
            tried = call._replace(on_device=may)
            samplers[name], in_graph = device_sampler(tried, self.device)
            if not in_graph:
                by_events.add(name)
        self._in_no_graph |= by_events
        return Times(medians_us(samplers, rounds), frozenset(by_events))
