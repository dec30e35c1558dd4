"""How often a call makes the host wait for the device, as torch notices it.

torch knows of its own copies and synchronisations. What waits behind its back shows
where a stream is held: see `kvzero.executors.repeats`.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

_WAITED = "called a synchronizing"
_PROTOTYPE = "Synchronization debug mode"


@dataclass
class HostWaits:
    """A number of waits that grows while they are counted."""

    count: int = 0


@contextmanager
def counted_host_waits() -> Iterator[HostWaits]:
    """Count waits for a CUDA device until the block ends; other warnings pass."""
    seen = HostWaits()
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield seen
        finally:
            torch.cuda.set_sync_debug_mode(before)
            seen.count = sum(_WAITED in str(warning.message) for warning in caught)
    for warning in caught:
        text = str(warning.message)
        if _WAITED not in text and _PROTOTYPE not in text:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
