"""A process that has compiled nothing: what it compiles and loads, as one line of JSON.

Run with the name of a subject, a number of blocks and a number of ids. The kernels that
are compiled are the files that are new in Triton's cache; those that are loaded are
counted where Triton hands a binary to the driver.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton

from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import Pool
from kvzero.subjects.protocol import WarmsUp, Zeroer
from kvzero.subjects.registry import find_subject

STRIDE, PAGE = 4_096, 1_168
THREADS = 8


class Loads:
    """Counts the binaries that Triton loads."""

    def __init__(self) -> None:
        self.count = 0
        utils = triton.runtime.driver.active.utils
        load: Callable[..., Any] = utils.load_binary  # Any: Triton's own

        def counted(*arguments: Any) -> Any:  # Any: Triton's own
            self.count += 1
            return load(*arguments)

        utils.load_binary = counted


def cached_kernels() -> int:
    """Return the kernels in Triton's cache on disk."""
    return len(list(Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.cubin")))


def build(subject: str, num_blocks: int) -> tuple[Zeroer, torch.Tensor]:
    memory = torch.full((num_blocks * STRIDE,), 1, dtype=torch.uint8, device="cuda")
    layout = Layout(num_blocks, (Allocation(memory.numel()),), (Run(PAGE, STRIDE),))
    zeroer = find_subject(subject).build(Pool(layout, (memory,), memory.device))
    return zeroer, memory


def call_together(zeroer: Zeroer, num_ids: int) -> None:
    """Make calls from threads that start together, each on a stream of its own."""
    barrier = threading.Barrier(THREADS, timeout=60)

    def call(first: int) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own gap
        barrier.wait()
        with torch.cuda.stream(stream):
            zeroer.zero(list(range(first, first + num_ids)))

    threads = [
        threading.Thread(target=call, args=(index * num_ids,))
        for index in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()


def main(subject: str, num_blocks: int, num_ids: int, warm: str) -> None:
    """Build, warm up if asked to, call, and tell what was compiled and loaded."""
    loads = Loads()
    before = cached_kernels()
    zeroer, memory = build(subject, num_blocks)
    if warm == "warm" and isinstance(zeroer, WarmsUp):
        zeroer.warmup()
    warm_kernels, warm_loads = cached_kernels(), loads.count
    call_together(zeroer, num_ids)
    pages = memory.view(num_blocks, STRIDE)[:, :PAGE]
    zeroed = (pages == 0).all(dim=1).nonzero().flatten().tolist()
    told = {
        "compiled": cached_kernels() - before,
        "compiled_in_calls": cached_kernels() - warm_kernels,
        "loaded_in_calls": loads.count - warm_loads,
        "right": zeroed == list(range(THREADS * num_ids)),
        "untouched": bool((memory.view(num_blocks, STRIDE)[:, PAGE:] == 1).all()),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
