"""Who may take how much of a GPU: processes that share one agree through files.

A process claims memory before it takes it, and waits while the claims of others leave
too little. A claim is a file that its owner keeps locked, so that one whose owner died
is told from one that stands, and is dropped by whoever meets it. What is very large
runs alone among the large.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic, sleep

from kvzero.errors import EnvironmentMissingError

LARGE_BYTES = 2**30
ALONE_BYTES = 16 * 2**30
"""Presets take up to 24 GB: two at once would leave a common GPU too little."""
DEADLINE_SECONDS = 900.0
"""Several presets may be waited for, each some seconds with all its calls."""
_POLL_SECONDS = 0.02
_DIGITS = 20  # of a number of bytes
_NUMBERS = count()
_DEVICES = "CUDA_VISIBLE_DEVICES"


@dataclass
class Claim:
    """Memory that a process may take, until it lets go of it or dies.

    Attributes:
        size_bytes: How much.
        path: The file that says so.
        descriptor: Of that file, locked.
    """

    size_bytes: int
    path: Path
    descriptor: int

    def release(self) -> None:
        """Let go of the memory."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


@dataclass(frozen=True)
class Ledger:
    """The claims on one GPU.

    Attributes:
        folder: Where they are kept; the same for all processes that share the GPU.
        capacity_bytes: What all claims together may come to.
    """

    folder: Path
    capacity_bytes: int

    def claim(self, size_bytes: int, deadline_seconds: float | None = None) -> Claim:
        """Wait until so much memory is left by others, and claim it.

        Args:
            size_bytes: How much.
            deadline_seconds: How long to wait; by default `DEADLINE_SECONDS`.

        Raises:
            EnvironmentMissingError: That was not so in time.
        """
        limit = DEADLINE_SECONDS if deadline_seconds is None else deadline_seconds
        deadline = monotonic() + limit
        while True:
            with self._locked():
                others = self._others()
                if self._may_take(size_bytes, others):
                    return self._write(size_bytes)
            if monotonic() >= deadline:
                raise EnvironmentMissingError(
                    f"claim of {size_bytes:,} B, but other processes have claimed "
                    f"{sum(others):,} B of {self.capacity_bytes:,} B of this GPU for "
                    f"{limit:g} s: run fewer workers"
                )
            sleep(_POLL_SECONDS)

    def claimed_bytes(self) -> int:
        """Return what all standing claims come to."""
        with self._locked():
            return sum(self._others())

    def _may_take(self, size_bytes: int, others: Sequence[int]) -> bool:
        if size_bytes + sum(others) > self.capacity_bytes and others:
            return False
        largest = max(others, default=0)
        is_alone = size_bytes < ALONE_BYTES or largest < LARGE_BYTES
        leaves_alone = largest < ALONE_BYTES or size_bytes < LARGE_BYTES
        return is_alone and leaves_alone

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes from the ledger; held for microseconds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _others(self) -> list[int]:
        """Return the size of each claim that stands; drop those of the dead."""
        sizes = []
        for path in self.folder.glob("*.claim"):
            try:
                descriptor = os.open(path, os.O_RDWR)
            except FileNotFoundError:  # its owner has just let go
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
            except BlockingIOError:
                sizes.append(int(os.pread(descriptor, _DIGITS, 0)))
            finally:
                os.close(descriptor)
        return sizes

    def _write(self, size_bytes: int) -> Claim:
        path = self.folder / f"{os.getpid()}-{next(_NUMBERS)}.claim"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, str(size_bytes).encode())
        return Claim(size_bytes, path, descriptor)


def ledger_of(key: str, capacity_bytes: int) -> Ledger:
    """Return the ledger of a GPU on this machine, for this user.

    Args:
        key: What tells the GPU from others, in every process alike.
        capacity_bytes: What all claims on it may come to.
    """
    name = "".join(c if c.isalnum() or c in "-." else "_" for c in key)
    folder = Path(tempfile.gettempdir(), f"kvzero-gpus-{os.getuid()}", name)
    return Ledger(folder, capacity_bytes)


def devices_of_worker(
    worker: int, environment: Mapping[str, str], present: int
) -> str | None:
    """Return the `CUDA_VISIBLE_DEVICES` of one of several workers, None to leave it.

    All of the caller's devices stay visible, in an order that begins with the worker's
    own: its index, modulo their number.

    Args:
        worker: Index of the worker.
        environment: The caller's environment.
        present: GPUs of the machine.
    """
    given = environment.get(_DEVICES)
    devices = [*map(str, range(present))] if given is None else given.split(",")
    if len(devices) < 2:
        return None
    first = worker % len(devices)
    return ",".join((*devices[first:], *devices[:first]))


def devices_present() -> int:
    """Return how many NVIDIA GPUs this machine or container shows."""
    return len([*Path("/dev").glob("nvidia[0-9]*")])
