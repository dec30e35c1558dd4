"""The fork server: children that stand where this process stands, and end with it."""

import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from kvzero.executors.fork_server import (
    Child,
    ChildGoneError,
    ForkServer,
    death_of,
    shared_fork_server,
)
from kvzero.observation import Death

pytestmark = pytest.mark.slow  # whichever comes first starts the server
MANY = 60.0
Fork = Callable[..., Child]


@pytest.fixture
def fork(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fork]:
    """Return what forks children that obey orders; they are ended afterwards."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    children: list[Child] = []

    def forked(arguments: object = None, **options: Any) -> Child:
        server = shared_fork_server()
        children.append(server.fork("forked_targets:obey", arguments, **options))
        return children[-1]

    yield forked
    for child in children:
        child.stop()


def order(child: Child, what: str, *, seconds: float = MANY, **more: Any) -> Any:
    return child.ask({"do": what, **more}, deadline_seconds=seconds)


def death(child: Child, what: str, **more: Any) -> Death:
    with pytest.raises(ChildGoneError) as caught:
        order(child, what, **more)
    return caught.value.death


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that is dead may not be reaped yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def test_a_child_stands_where_this_process_stands(
    fork: Fork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVZERO_TEST", "here")
    child = fork({"n": 1})
    told = order(child, "tell")
    assert told["arguments"] == {"n": 1}
    assert told["pid"] == told["group"] == child.pid != os.getpid()
    assert told["folder"] == str(tmp_path)
    assert told["path"][0] == str(Path(__file__).parent)
    assert told["variable"] == "here"
    assert told["torch"]
    assert told["threads"] == 1
    assert set(told["streams"]) == {"/dev/null"}
    assert child.resident_bytes > 2**20


def test_a_child_has_variables_of_its_own(fork: Fork) -> None:
    child = fork(environment={"KVZERO_TEST": "mine"})
    assert order(child, "tell")["variable"] == "mine"
    assert order(fork(), "tell")["variable"] is None


def test_a_child_inherits_no_sockets_of_its_siblings(fork: Fork) -> None:
    first = order(fork(), "tell")["descriptors"]
    for _ in range(5):
        last = order(fork(), "tell")["descriptors"]
    assert first == last


def test_a_death_says_how(fork: Fork) -> None:
    assert death(fork(), "exit", code=0).what == "process-exited"
    assert death(fork(), "exit", code=7).text == "process died: exit code 7"
    segfault = death(fork(), "signal", number=int(signal.SIGSEGV))
    assert segfault == Death("killed-by-sigsegv", "process died: signal 11 (SIGSEGV)")


@pytest.mark.parametrize("code", [-64, -11, -6, 0, 1])
def test_an_exit_code_is_a_death(code: int) -> None:
    what = death_of(code).what
    assert what == what.lower()
    assert " " not in what


def test_a_child_that_does_not_answer_is_ended(fork: Fork) -> None:
    child = fork()
    seen = death(child, "hang", seconds=0.05)
    assert seen == Death("process-hung", "process hung: no answer in 0.05 s")
    assert not is_running(child.pid)
    assert child.resident_bytes == 0


def starving(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Let children have had no CPU from a first look to the next; then do something."""
    looks = count()

    def starved_seconds(_child: Child) -> float:
        if not next(looks):
            return 0.0
        then()
        return monotonic()

    monkeypatch.setattr(Child, "starved_seconds", property(starved_seconds))


def test_a_child_that_waits_for_a_cpu_may_answer_later(
    fork: Fork, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR)
    monkeypatch.setattr("kvzero.executors.fork_server.MOST_PATIENCE", math.inf)
    starving(monkeypatch, lambda: os.write(pipe, b"late\n"))
    told = order(fork(), "await", pipe=str(tmp_path / "pipe"), seconds=0.01)
    os.close(pipe)
    assert told == "late\n"


def test_a_child_that_waits_for_a_cpu_for_ever_is_ended(
    fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    starving(monkeypatch, lambda: None)
    assert death(fork(), "hang", seconds=0.01).what == "process-hung"


def test_a_child_tells_how_long_it_had_no_cpu(fork: Fork) -> None:
    child = fork()
    assert order(child, "tell")
    assert child.starved_seconds >= 0.0
    child.stop()
    assert child.starved_seconds == 0.0


def test_a_child_that_takes_too_much_memory_is_ended(fork: Fork) -> None:
    child = fork()
    most = child.resident_bytes + 2**26
    with pytest.raises(ChildGoneError) as caught:
        child.ask(
            {"do": "take", "bytes": 2**27}, deadline_seconds=MANY, memory_bytes=most
        )
    assert caught.value.death.what == "out-of-memory"
    assert not is_running(child.pid)


def test_memory_that_is_shared_counts_and_a_file_does_not(
    fork: Fork, tmp_path: Path
) -> None:
    size = 2**26
    (tmp_path / "file").write_bytes(b"x" * size)
    child = fork()
    before = child.resident_bytes
    order(child, "read", path=str(tmp_path / "file"))
    assert child.resident_bytes < before + size // 2
    order(child, "share", bytes=size)
    assert child.resident_bytes >= before + size


@pytest.mark.parametrize("garbage", [b"{\n", b"\x00\xff\n"])
def test_a_child_that_talks_nonsense_is_ended(fork: Fork, garbage: bytes) -> None:
    child = fork()
    assert death(child, "babble", hex=garbage.hex()).what == "answer-garbled"
    assert not is_running(child.pid)


def test_what_a_child_has_started_ends_with_it(fork: Fork) -> None:
    child = fork()
    left = order(child, "breed")
    assert is_running(left)
    watched = os.pidfd_open(left)
    child.stop()
    wait_until_gone(watched)  # it is killed by then, but may not have had a CPU to die


def test_a_dead_child_leaves_the_others_alone(fork: Fork) -> None:
    first, second = fork(), fork()
    death(first, "exit", code=1)
    assert order(second, "tell")["pid"] == second.pid


def test_threads_fork_at_the_same_time(fork: Fork) -> None:
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: order(fork(), "tell")["pid"], range(12)))
    assert len(set(told)) == 12


def test_a_server_that_was_killed_is_replaced(fork: Fork) -> None:
    # sanity check of the harness itself: the machine may kill any process
    server = ForkServer(interpreted=True)
    child = server.fork("forked_targets:obey", None)
    assert order(child, "tell")["torch"]
    server._process.kill()
    server._process.wait()
    assert death(child, "tell").what in ("process-killed", "killed-by-sigkill")
    assert not server.is_alive
    assert order(fork(), "tell")["torch"]
    server.close()


PARENT = """
import signal, sys
sys.path.insert(0, {folder!r})
from kvzero.executors.fork_server import ForkServer
server = ForkServer(interpreted=True)
child = server.fork("forked_targets:obey", None)
left = child.ask({{"do": "breed"}}, deadline_seconds=60)
child.channel.send({{"do": "hang"}})
print(server._process.pid, child.pid, left, flush=True)
signal.pause()
"""


def test_a_killed_parent_leaves_no_process_behind() -> None:
    script = PARENT.format(folder=str(Path(__file__).parent))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 3
        watched = [os.pidfd_open(pid) for pid in pids]
        parent.kill()
    for descriptor in watched:
        wait_until_gone(descriptor)
    assert not any(is_running(pid) for pid in pids)


def wait_until_gone(descriptor: int) -> None:
    """Wait until the process of a descriptor has ended."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    assert waiting.poll(60_000), "the process lives on"
    os.close(descriptor)
