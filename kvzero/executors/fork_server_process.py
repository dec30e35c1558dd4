"""The fork server's own process: it imports everything once, then only forks.

It never touches a GPU: a process that is forked after CUDA has started cannot use it. A
request is one byte with two sockets. The *channel* goes to the new child, whose first
message says what to run. The *lifeline* stays here: the child's process id and, when it
has died, its status are written to it, and when its far end closes, because the parent
wants the child dead or is dead itself, the child is killed. Only this process, which
reaps the children, kills them, so no other process is ever hit by a reused id.
"""

import array
import ctypes
import gc
import importlib
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from struct import Struct
from typing import NoReturn

from kvzero.executors.channel import Channel, Json

NUMBER = Struct("<q")
"""A process id, and later a status, on a lifeline."""
NO_FORK = -1
"""Stands for the process id where the system refused to fork."""
IMPORTS = (
    "torch",
    "kvzero.casefile",
    "kvzero.executors.host",
    "kvzero.executors.isolated_worker",
    "kvzero.subjects.faults",
    "kvzero.triton_internals",
)
"""What children want; importing it is what makes a fresh process slow."""
COMPILED_IMPORTS = (
    "numpy.ctypeslib",
    "torch._dynamo",  # where it is there, a watch keeps compiled code as written
    "triton.compiler.code_generator",
    "kvzero.executors.device",
    "kvzero.executors.footprint",
)
"""What children want besides where kernels are compiled."""
_PR_SET_PDEATHSIG = 1
_WAKE_BYTES = 4096  # as many deaths as are told at once; more are told again


class Forker:
    """Forks children on request, and tells how each of them ends."""

    def __init__(self, control: socket.socket) -> None:
        """Take requests from a socket."""
        self._control = control
        self._lifelines: dict[int, socket.socket] = {}
        self._selector = DefaultSelector()
        self._selector.register(control, EVENT_READ)
        self._deaths, self._wakes = socket.socketpair()
        for end in (self._deaths, self._wakes):
            end.settimeout(0)
        self._selector.register(self._deaths, EVENT_READ)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Serve until the control socket closes; then nothing is left behind."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._end(key.data)
                elif key.fileobj is self._deaths:
                    self._deaths.recv(_WAKE_BYTES)
                elif not self._take_request():
                    self._kill_all()
                    return
            self._reap()

    def _take_request(self) -> bool:
        """Fork one child; return whether there was a request."""
        size = array.array("i", [0]).itemsize
        try:
            message, control, _, _ = self._control.recvmsg(
                1, socket.CMSG_SPACE(2 * size)
            )
        except ConnectionResetError:
            return False
        if not message:
            return False
        descriptors = array.array("i")
        for _, _, data in control:
            descriptors.frombytes(data)
        channel, lifeline = (socket.socket(fileno=each) for each in descriptors)
        self._fork(channel, lifeline)
        return True

    def _fork(self, channel: socket.socket, lifeline: socket.socket) -> None:
        try:
            pid = os.fork()
        except OSError:
            pid = NO_FORK
        if pid == 0:
            lifeline.close()
            self._forget()
            _be_child(channel)
        channel.close()
        with suppress(OSError):  # nobody listens: the parent is dying
            lifeline.sendall(NUMBER.pack(pid))
        if pid == NO_FORK:
            lifeline.close()
            return
        self._lifelines[pid] = lifeline
        self._selector.register(lifeline, EVENT_READ, pid)

    def _forget(self) -> None:
        """Give up, in a child, all that belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self._control, self._deaths, self._wakes):
            end.close()
        for lifeline in self._lifelines.values():
            lifeline.close()
        self._selector.close()

    def _end(self, pid: int) -> None:
        """Kill a child whose lifeline was let go; its death is told as any other."""
        self._selector.unregister(self._lifelines[pid])
        _kill(pid)

    def _kill_all(self) -> None:
        for pid in self._lifelines:
            _kill(pid)

    def _reap(self) -> None:
        """Tell of each child that has died, and end what it has left behind."""
        while self._lifelines:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return
            _kill(found.si_pid)
            _, status = os.waitpid(found.si_pid, 0)
            lifeline = self._lifelines.pop(found.si_pid, None)
            if lifeline is None:
                continue
            with suppress(KeyError, ValueError):
                self._selector.unregister(lifeline)
            with suppress(OSError):  # the parent no longer cares
                lifeline.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
            lifeline.close()


def _kill(pid: int) -> None:
    """Kill a child that is not reaped yet, with all processes of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _be_child(end: socket.socket) -> NoReturn:
    """Run what the first message names, then leave without cleaning up."""
    code = 1
    try:
        _settle()
        channel = Channel(end)
        start = channel.receive()
        _move_to(start)
        module, _, name = start["target"].partition(":")
        getattr(importlib.import_module(module), name)(channel, start["arguments"])
        code = 0
    finally:
        os._exit(code)


def _settle() -> None:
    """Make this process one that may die at any moment and harm nobody."""
    os.setsid()
    server = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server or server == 1:  # it died before it could say so
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # where memory ends, a child is what may go
        Path("/proc/self/oom_score_adj").write_text("1000")
    # What a subject prints must not get into anyone's output.
    silent = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silent, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's


def _move_to(start: Json) -> None:
    """Stand where the parent stands: its environment, import path and folder."""
    wanted: dict[str, str] = start["environment"]
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)
    sys.path[:] = start["path"]
    importlib.invalidate_caches()
    with suppress(OSError):  # the folder may be gone
        os.chdir(start["folder"])


def main() -> None:
    """Import everything, say so, and serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    wanted = (
        *IMPORTS,
        *(() if interpreted else COMPILED_IMPORTS),
        *sys.argv[2:],  # as whoever started it asked
    )
    modules = {name: importlib.import_module(name) for name in wanted}
    torch, internals = modules["torch"], modules["kvzero.triton_internals"]
    # Other processes want the other cores: waiting for them costs more than it wins.
    torch.set_num_threads(1)
    versions = f"triton {internals.TRITON_VERSION}, torch {torch.__version__}"
    if not interpreted:
        internals.warm_cache_key()
    gc.collect()
    gc.freeze()  # or each child copies every page that its collector looks at
    Channel(control).send({"versions": versions})
    Forker(control).serve()


if __name__ == "__main__":
    main()
