"""Child processes that cost milliseconds, and how each of them ends.

A `ForkServer` is a process that has imported torch, Triton and kvzero and forks a
`Child` on request, which runs a function ``target(channel, arguments)`` and talks JSON.
A child that dies, hangs, takes too much memory or talks nonsense ends in one exception
that says which. Nothing outlives this process, however it ends: the server kills a
child when this end of its lifeline closes, and itself leaves when its socket does.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from signal import Signals
from threading import Lock
from time import monotonic

from kvzero.errors import EnvironmentMissingError
from kvzero.executors.channel import Channel, GarbledError, Json
from kvzero.executors.fork_server_process import NO_FORK, NUMBER
from kvzero.observation import Death

START_SECONDS = 120.0
"""Time for the server's imports, which take 3 s where nothing else runs."""
FORK_SECONDS = 30.0
KILL_SECONDS = 10.0
"""Time for the system to end a killed child and to give its memory back."""
WATCH_SECONDS = 0.02
"""Time between two looks at a child's memory: a core fills some 40 MB in it."""
MOST_PATIENCE = 10.0
"""How many times a deadline may pass on the clock while the child waits for a CPU: so
much for a machine with ten times as much to do as it can."""
_OWN = re.compile("RssAnon:|RssShmem:")
_FORKABLE = {
    # A process with threads must not be forked, and one that has started CUDA neither.
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}


class ChildGoneError(Exception):
    """The child is dead, by itself or because it was ended; `death` says how."""

    def __init__(self, death: Death) -> None:
        """Take what is known of its end."""
        super().__init__(death.text)
        self.death = death


class ForkServer:
    """A process that forks children.

    Attributes:
        versions: Versions of Triton and torch there.
    """

    def __init__(
        self, *, interpreted: bool = False, imports: tuple[str, ...] = ()
    ) -> None:
        """Start it and wait until it is ready.

        Args:
            interpreted: Triton kernels run in Triton's interpreter, which has to be
                chosen before Triton is imported.
            imports: Modules that children want besides; none may start CUDA.

        Raises:
            EnvironmentMissingError: It cannot be started.
        """
        ours, theirs = socket.socketpair()
        self._control = ours
        self._lock = Lock()
        environment = {**os.environ, **_FORKABLE, "PYTHONPATH": _import_path()}
        if interpreted:
            environment["TRITON_INTERPRET"] = "1"
        with theirs, tempfile.TemporaryFile() as complaints:
            process = subprocess.Popen(
                [sys.executable, "-m", _SERVER, str(theirs.fileno()), *imports],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process alone
            )
            self.close = weakref.finalize(self, _end_server, process, ours, os.getpid())
            self.versions = _await_ready(ours, complaints.fileno())
        self._process = process
        self._variables = {"TRITON_INTERPRET": "1"} if interpreted else {}

    @property
    def is_alive(self) -> bool:
        """Return whether it can fork."""
        return self._process.poll() is None

    def fork(
        self,
        target: str,
        arguments: Json,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> "Child":
        """Return a new child, which stands where this process stands now.

        It has this process's environment variables, import path and folder, no standard
        streams, and a process group of its own. Threads may fork at the same time.

        Args:
            target: ``module:function``, which is called with the child's `Channel` and
                the arguments; when it returns, the child ends.
            arguments: JSON.
            environment: More environment variables, such as ``CUDA_VISIBLE_DEVICES``.

        Raises:
            EnvironmentMissingError: The server is dead, or the system forks no more.
        """
        channel, channel_there = socket.socketpair()
        lifeline, lifeline_there = socket.socketpair()
        with channel_there, lifeline_there:
            try:
                with self._lock:
                    ends = [channel_there.fileno(), lifeline_there.fileno()]
                    socket.send_fds(self._control, [b"f"], ends)
            except OSError:
                channel.close()
                lifeline.close()
                raise EnvironmentMissingError(
                    "fork server=dead, but must live to start a child: start another"
                ) from None
        child = Child(channel, lifeline)
        variables = {**os.environ, **self._variables, **(environment or {})}
        start = {
            "target": target,
            "arguments": arguments,
            "environment": variables,
            "path": _import_path().split(os.pathsep),
            "folder": str(Path.cwd()),
        }
        with suppress(OSError):  # it is dead already, as the first question shows
            child.channel.send(start)
        return child


class Child:
    """A forked process, seen from the one that asked for it.

    Attributes:
        pid: Its process id.
        channel: What it is talked to by.
    """

    def __init__(self, channel: socket.socket, lifeline: socket.socket) -> None:
        """Take over both sockets; `ForkServer.fork` does this.

        Raises:
            EnvironmentMissingError: The system forks no more, or the server is dead.
        """
        self.channel = Channel(channel)
        self._lifeline = lifeline
        self._close = weakref.finalize(self, _close_all, channel, lifeline)
        try:
            self.pid = self._told(FORK_SECONDS) or NO_FORK
        except OSError:
            self.pid = NO_FORK
        if self.pid == NO_FORK:
            self._close()
            raise EnvironmentMissingError(
                "fork=refused, but must succeed: the machine is out of processes or "
                "memory, or the fork server died"
            )

    @property
    def resident_bytes(self) -> int:
        """Return the memory of its own that it takes now; 0 once it is dead.

        Pages of files are not counted: they are everyone's, the system can drop them,
        and how many of a library's are mapped depends on what other processes read.
        """
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if _OWN.match(line)) * 1024

    @property
    def starved_seconds(self) -> float:
        """Return how long it could have run and had no CPU; 0 where Linux cannot tell.

        Its first thread's time, which is the one that answers.
        """
        try:
            return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def ask(
        self,
        message: Json,
        *,
        deadline_seconds: float,
        memory_bytes: int | None = None,
    ) -> Json:
        """Return the child's answer to a message.

        Args:
            message: JSON.
            deadline_seconds: Time for the answer. Sleeping counts, and waiting for a
                GPU; not waiting for a CPU that others use, up to `MOST_PATIENCE`.
            memory_bytes: Resident memory that it may take meanwhile, or None.

        Raises:
            ChildGoneError: It died, or was ended because it broke a rule.
        """
        is_over = self._deadline(deadline_seconds)
        self.channel.socket.settimeout(deadline_seconds)
        try:
            self.channel.send(message)
            while not self._answered():
                if is_over():
                    raise TimeoutError
                self._check_memory(memory_bytes)
            return self.channel.take()
        except GarbledError as error:
            self.stop()
            death = Death("answer-garbled", f"process answered with {error}")
            raise ChildGoneError(death) from None
        except TimeoutError:
            self.stop()
            text = f"process hung: no answer in {deadline_seconds:g} s"
            raise ChildGoneError(Death("process-hung", text)) from None
        except (EOFError, OSError):
            raise ChildGoneError(self.death()) from None

    def stop(self) -> None:
        """Kill it with all that it has started, and wait until it itself is gone."""
        with suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)
            self._told(KILL_SECONDS)
        self._close()

    def _deadline(self, seconds: float) -> Callable[[], bool]:
        """Return what says whether a deadline that begins now is over."""
        began, starved = monotonic(), self.starved_seconds

        def is_over() -> bool:
            passed = monotonic() - began
            if passed < seconds or passed >= seconds * MOST_PATIENCE:
                return passed >= seconds
            return passed - (self.starved_seconds - starved) >= seconds

        return is_over

    def _answered(self) -> bool:
        """Return whether the answer is there, after waiting a moment for it."""
        if self.channel.has_message:
            return True
        with DefaultSelector() as selector:
            selector.register(self.channel.socket, EVENT_READ)
            return bool(selector.select(WATCH_SECONDS)) and self.channel.read()

    def _check_memory(self, memory_bytes: int | None) -> None:
        if memory_bytes is None:
            return
        taken = self.resident_bytes
        if taken > memory_bytes:
            self.stop()
            text = f"process ran out of memory: it took over {memory_bytes:,} B"
            raise ChildGoneError(Death("out-of-memory", text))

    def death(self) -> Death:
        """Return how it died, once its end of the channel is closed."""
        try:
            code = self._told(KILL_SECONDS)
        except TimeoutError:
            self.stop()
            return Death("answer-garbled", "process closed its connection and lived on")
        self._close()
        if code is None:
            return Death("process-killed", "process died with its fork server")
        return death_of(code)

    def _told(self, seconds: float) -> int | None:
        """Return the next number on the lifeline; None where there is none to come."""
        self._lifeline.settimeout(seconds)
        told = self._lifeline.recv(NUMBER.size)
        return NUMBER.unpack(told)[0] if len(told) == NUMBER.size else None


def death_of(code: int) -> Death:
    """Return what an exit code says; below 0 it is a signal."""
    if code >= 0:
        return Death("process-exited", f"process died: exit code {code}")
    try:
        name = Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    what = f"killed-by-{name.lower().replace(' ', '-')}"
    return Death(what, f"process died: signal {-code} ({name})")


_shared: dict[tuple[int, bool], ForkServer] = {}
_sharing = Lock()


def shared_fork_server(
    *, interpreted: bool = False, imports: tuple[str, ...] = ()
) -> ForkServer:
    """Return this process's fork server, started at the first need.

    Args:
        interpreted: As for `ForkServer`; there is one server of each kind.
        imports: As for `ForkServer`, where this call starts it; else a child imports
            what it wants by itself.
    """
    key = os.getpid(), interpreted  # a forked process must not use its parent's
    with _sharing:
        server = _shared.get(key)
        if server is None or not server.is_alive:
            server = _shared[key] = ForkServer(interpreted=interpreted, imports=imports)
        return server


_SERVER = "kvzero.executors.fork_server_process"


def _import_path() -> str:
    """Return this process's import path; the empty entry is the current folder."""
    return os.pathsep.join(path or str(Path.cwd()) for path in sys.path)


def _await_ready(control: socket.socket, complaints: int) -> str:
    """Return the server's versions once it is ready."""
    control.settimeout(START_SECONDS)
    try:
        versions: str = Channel(control).receive()["versions"]
    except (EOFError, TimeoutError, GarbledError) as error:
        said = os.pread(complaints, 2**20, 0).decode(errors="replace").splitlines()
        raise EnvironmentMissingError(
            f"fork server={type(error).__name__}, but must start in "
            f"{START_SECONDS:g} s: {said[-1] if said else 'it said nothing'}"
        ) from None
    control.settimeout(None)
    return versions


def _end_server(
    process: "subprocess.Popen[bytes]", control: socket.socket, owner: int
) -> None:
    """Let a server go: it ends its children, then itself."""
    control.close()
    if os.getpid() != owner:
        return
    try:
        process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _close_all(*ends: socket.socket) -> None:
    for end in ends:
        end.close()
