"""Functions that children of a fork server run in tests."""

import mmap
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from kvzero.executors.channel import Channel, Json

KEPT: list[mmap.mmap] = []


def obey(channel: Channel, arguments: Json) -> None:
    """Answer questions about this process, or do what one orders."""
    while True:
        try:
            order = channel.receive()
        except EOFError:
            return
        channel.send(_ORDERS[order["do"]](order, arguments))


def _tell(_order: Json, arguments: Json) -> Json:
    return {
        "arguments": arguments,
        "pid": os.getpid(),
        "group": os.getpgid(0),
        "folder": str(Path.cwd()),
        "path": sys.path,
        "variable": os.environ.get("KVZERO_TEST"),
        "interpreted": os.environ.get("TRITON_INTERPRET"),
        "threads": threading.active_count(),
        "torch": "torch" in sys.modules,
        "streams": [
            str(Path(f"/proc/self/fd/{each}").readlink()) for each in (0, 1, 2)
        ],
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def _exit(order: Json, _arguments: Json) -> Json:
    os._exit(order["code"])


def _signal(order: Json, _arguments: Json) -> Json:
    os.kill(os.getpid(), order["number"])
    signal.pause()


def _hang(_order: Json, _arguments: Json) -> Json:
    signal.pause()


def _take(order: Json, _arguments: Json) -> Json:
    """Take memory, page by page, and keep it while waiting to be ended."""
    taken = [bytearray(b"x") * order["bytes"]]
    signal.pause()
    return len(taken)


def _read_file(order: Json, _arguments: Json) -> Json:
    """Map a file and read every page of it; keep it mapped."""
    with Path(order["path"]).open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    KEPT.append(mapped)
    return sum(mapped[:: mmap.PAGESIZE])


def _share(order: Json, _arguments: Json) -> Json:
    """Take memory that forked processes would share; keep it."""
    taken = mmap.mmap(-1, order["bytes"])
    taken.write(b"x" * order["bytes"])
    KEPT.append(taken)


def _await(order: Json, _arguments: Json) -> Json:
    """Wait until somebody writes a line into a pipe that has a name."""
    with Path(order["pipe"]).open() as pipe:
        return pipe.readline()


def _breed(_order: Json, _arguments: Json) -> Json:
    """Leave a process behind that only its death ends."""
    return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid


def _babble(order: Json, _arguments: Json) -> Json:
    """Write to every socket what no message is."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, bytes.fromhex(order["hex"]))
        except OSError:
            continue
    signal.pause()


_ORDERS = {
    "tell": _tell,
    "exit": _exit,
    "signal": _signal,
    "hang": _hang,
    "take": _take,
    "read": _read_file,
    "share": _share,
    "await": _await,
    "breed": _breed,
    "babble": _babble,
}
