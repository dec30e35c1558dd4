"""A Ray cluster that works on slices: the one module that imports Ray, when asked to.

Ray decides where a slice runs, and runs it again elsewhere if its node is lost; here is
only what connects, submits and says in one line what went wrong. The function that is
sent travels by value, so that a node without kvzero says so.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Thread
from typing import Any

from kvzero.campaign.slices import Brought, code_version
from kvzero.errors import EnvironmentMissingError, InternalError, KvzeroError

Json = Any  # a JSON document
Ray = Any  # the module, or something of it: it is an extra, with types of its own

ANSWER_SECONDS = 10.0
"""Time for an address to answer at all."""
JOIN_SECONDS = 45.0
"""Time for joining a cluster; after a minute without one, Ray ends the process."""
LEAVE_SECONDS = 20.0
RETRIES = 10
"""How often a slice is worked again whose node or process was lost."""


@dataclass
class RayTask:
    """A slice that Ray works on.

    Attributes:
        cluster: What it was submitted to.
        reference: Ray's reference to its result.
    """

    cluster: "RayCluster"
    reference: Ray

    def wait(self, seconds: float) -> bool:
        """Return whether it is done, after some time at most."""
        done, _ = self.cluster.ray.wait([self.reference], timeout=seconds)
        return bool(done)

    def result(self) -> Brought:
        """Return what it brought, once it is done.

        Raises:
            KvzeroError: It could not be worked, or was lost too often.
        """
        ray = self.cluster.ray
        try:
            brought: Brought = ray.get(self.reference)
        except ray.exceptions.RayTaskError as error:
            raise self.cluster.told(error.cause) from error
        except ray.exceptions.RayError as error:
            text = str(error).partition("\n")[0]
            raise EnvironmentMissingError(
                f"ray={self.cluster.address}, but must work on a slice in one of "
                f"{RETRIES + 1} tries: {text}"
            ) from error
        return brought

    def cancel(self) -> None:
        """Let it go, wherever it is."""
        self.cluster.ray.cancel(self.reference, force=True)


@dataclass
class RayCluster:
    """A Ray cluster that this process has joined.

    Attributes:
        ray: The module.
        address: As it was given.
        executor: Decides what a slice takes: one CPU, or one GPU.
        nodes: Ids of the nodes that were seen alive.
    """

    ray: Ray
    address: str
    executor: str
    nodes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Make what is sent of `carry`."""
        takes = {"num_cpus": 0, "num_gpus": 1} if self._kind == "GPU" else {}
        self._carry = self.ray.remote(
            **{"num_cpus": 1, **takes},
            max_retries=RETRIES,
            scheduling_strategy="SPREAD",
        )(_carrier())
        self._see_nodes()

    @property
    def _kind(self) -> str:
        return "GPU" if self.executor == "device" else "CPU"

    @property
    def slots(self) -> int:
        """Return how many slices may run at the same time.

        Raises:
            EnvironmentMissingError: None may.
        """
        number = int(self.ray.cluster_resources().get(self._kind, 0))
        if number < 1:
            raise EnvironmentMissingError(
                f"ray={self.address}, but must have a {self._kind} for "
                f"executor={self.executor!r}: add a node that has one"
            )
        return number

    def submit(self, work: str, arguments: Json, seconds: float) -> RayTask:
        """Begin a slice; Ray finds a node for it."""
        self._see_nodes()
        reference = self._carry.remote(work, code_version(), arguments, seconds)
        return RayTask(self, reference)

    def note(self) -> str:
        """Return what a reader of the result must know of the nodes."""
        alive = self._see_nodes()
        lost = len(self.nodes - alive)
        text = f"ran on {len(self.nodes)} nodes of Ray at {self.address}"
        if lost:
            text += f", of which {lost} were lost: their slices ran again elsewhere"
        return text

    def told(self, cause: BaseException) -> KvzeroError:
        """Return the error for what a slice raised on a node."""
        if isinstance(cause, KvzeroError):
            return cause
        if isinstance(cause, ImportError):
            return EnvironmentMissingError(
                f"ray={self.address}, but must import kvzero {code_version()} on every "
                f"node: {cause}: install the same kvzero[harness] there"
            )
        return InternalError(f"a slice raised {type(cause).__name__}: {cause}")

    def _see_nodes(self) -> set[str]:
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        self.nodes |= alive
        return alive


def _carrier() -> Callable[..., Any]:  # Any: a `Brought`, whose name must not travel
    """Return a function that is sent by value, since it has no name to import."""

    def carry(work: str, code: str, arguments: object, seconds: float) -> object:
        from kvzero.campaign.slices import carried_out

        return carried_out(work, code, arguments, seconds)

    return carry


@contextmanager
def ray_cluster(address: str, executor: str | None) -> Iterator[RayCluster]:
    """Join a Ray cluster, and leave it at the end.

    Args:
        address: ``HOST:PORT`` of its head, ``auto`` (the one that this machine is a
            node of) or ``local`` (one of this machine alone, which ends with us).
        executor: Name of the executor; None: the device where the cluster has a GPU.

    Raises:
        EnvironmentMissingError: Ray is missing, or the address does not answer.
    """
    if find_spec("ray") is None:
        raise EnvironmentMissingError(
            f"ray={address}, but Ray is missing: pip install 'kvzero[ray]'"
        )
    _check_answers(address)
    with redirect_stdout(sys.stderr):  # where Ray tells of lost nodes in a thread
        import ray

        _join(ray, address)
        try:
            if executor is None:
                has_gpu = bool(ray.cluster_resources().get("GPU"))
                executor = "device" if has_gpu else "footprint"
            yield RayCluster(ray, address, executor)
        finally:
            with suppress(EnvironmentMissingError):  # there is nothing left to lose
                _within(LEAVE_SECONDS, address, ray.shutdown)


def _join(ray: Ray, address: str) -> None:
    """Join a cluster, or start one on this machine, which tells nobody of its use."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        # In this very thread: what it starts is killed with the thread that started it.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(address=address, include_dashboard=False, **quiet)
    else:
        _within(JOIN_SECONDS, address, lambda: ray.init(address=address, **quiet))


def _check_answers(address: str) -> None:
    """Refuse an address that nobody listens at: Ray would try for a minute."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not port.isdecimal():
        raise EnvironmentMissingError(
            f"ray={address!r}, but must be auto, local or the HOST:PORT of a cluster's "
            f"head: run kvzero on one of its nodes"
        )
    try:
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise EnvironmentMissingError(
            f"ray={address}, but must answer: {error}"
        ) from None


def _within(seconds: float, address: str, action: Callable[[], object]) -> None:
    """Do something in a thread of its own, which is left behind if it hangs.

    Raises:
        EnvironmentMissingError: It failed, or took too long.
    """
    failed: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as error:  # Ray may leave the process, too
            failed.append(error)

    thread = Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise EnvironmentMissingError(
            f"ray={address}, but must answer within {seconds:.0f} s: is it a Ray "
            f"cluster's head?"
        )
    if failed:
        text = str(failed[0]).strip().partition("\n")[0]
        raise EnvironmentMissingError(
            f"ray={address}, but must be a cluster to join: "
            f"{type(failed[0]).__name__}: {text}"
        ) from failed[0]
