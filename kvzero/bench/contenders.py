"""Who is measured: subjects built on one memory, and how each is called there.

On the device a contender is called in the cheapest way that it offers: with ids that
lie there already. Where it takes none, but has a `launch` for device ids below its
`zero`, as the shapes of upstream's kernel have, that is called, so that kernels are
compared and not copies of ids. Everyone else gets a list.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch

from kvzero.errors import EnvironmentMissingError, KvzeroError
from kvzero.memory import Pool
from kvzero.subjects.protocol import Subject, WarmsUp, Zeroer
from kvzero.subjects.registry import find_subject

SUBJECTS = ("kvzero", "masked-3d", "flat-1d", "torch-loop", "index-fill", "vllm")


class TimedCall(NamedTuple):
    """Something to time on the device.

    Attributes:
        run: Queues its work on the current stream.
        on_device: It needs nothing of the host, so that a graph may hold it.
    """

    run: Callable[[], object]
    on_device: bool


@runtime_checkable
class LaunchesOnIds(Protocol):
    """A zeroer whose `zero` copies ids to the device and then calls `launch`."""

    def launch(self, ids: torch.Tensor, /) -> None:
        """Launch on device ids, int64, contiguous."""


@dataclass(frozen=True)
class Contender:
    """A subject built on the memory of one layout.

    Attributes:
        subject: Who.
        zeroer: What it built, warm if it can be.
    """

    subject: Subject
    zeroer: Zeroer

    @classmethod
    def on(cls, subject: Subject, pool: Pool) -> "Contender":
        """Return a subject built and warmed up."""
        zeroer = subject.build(pool)
        if isinstance(zeroer, WarmsUp):
            zeroer.warmup()
        return cls(subject, zeroer)

    def device_call(self, block_ids: torch.Tensor) -> TimedCall:
        """Return the call to time.

        Args:
            block_ids: int64, contiguous, on the device.
        """
        zeroer = self.zeroer
        if "device" in self.subject.contract.arrivals:
            return TimedCall(lambda: zeroer.zero(block_ids), on_device=True)
        if isinstance(zeroer, LaunchesOnIds):
            return TimedCall(lambda: zeroer.launch(block_ids), on_device=True)
        return self.host_call(block_ids.tolist())

    def host_call(self, block_ids: Sequence[int]) -> TimedCall:
        """Return the call with a list of ids."""
        return TimedCall(lambda: self.zeroer.zero(block_ids), on_device=False)


def find_subjects(
    names: Sequence[str] | None,
) -> tuple[list[Subject], dict[str, str]]:
    """Return subjects, and of those that are not installed why, by name.

    Args:
        names: Whose, or None: all of `SUBJECTS` that are installed.

    Raises:
        SubjectError: One of the names is not there.
    """
    if names is not None:
        return [find_subject(name) for name in names], {}
    found, missing = [], {}
    for name in SUBJECTS:
        try:
            found.append(find_subject(name))
        except KvzeroError as error:
            missing[name] = str(error).partition(": known are")[0]
    return found, missing


def first_line(error: BaseException) -> str:
    """Return what an exception says in a line."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


class Memset:
    """The yardstick: the driver's own memset of contiguous bytes, on the stream.

    Raises:
        EnvironmentMissingError: There is no CUDA driver.
    """

    def __init__(self) -> None:
        """Load the driver's library, which torch has loaded before."""
        try:
            self._driver: Any = ctypes.CDLL("libcuda.so.1")  # Any: a foreign library
        except OSError as error:
            raise EnvironmentMissingError(
                f"memset needs libcuda.so.1, but it must be there: {error}"
            ) from error

    def call(self, memory: torch.Tensor, size_bytes: int) -> TimedCall:
        """Return the call that clears the first bytes of a tensor.

        Args:
            memory: uint8, contiguous, on the current device.
            size_bytes: How many.
        """
        address = ctypes.c_uint64(memory.data_ptr())
        zero, size = ctypes.c_ubyte(0), ctypes.c_size_t(size_bytes)

        def run() -> None:
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            code = self._driver.cuMemsetD8Async(address, zero, size, stream)
            if code:
                raise EnvironmentMissingError(f"cuMemsetD8Async={code}, but must be 0")

        return TimedCall(run, on_device=True)
