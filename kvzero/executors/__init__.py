"""Ways to run a subject on a case and report what it did.

`footprint` evaluates Triton's IR with no GPU, `device` runs on one, `host` runs on CPU
memory with Triton's interpreter. Each can run in a worker process, `isolated`, which a
subject may kill.
"""

from typing import TYPE_CHECKING, Protocol

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.subjects.protocol import Subject

if TYPE_CHECKING:
    from kvzero.executors.isolated import Isolation

EXECUTOR_NAMES = ("device", "footprint", "host")


class Executor(Protocol):
    """A way to run a subject on a case."""

    @property
    def name(self) -> str:
        """Return the name that ``--executor`` takes."""

    def fits(self, case: Case) -> bool:
        """Return whether the case's memory can be had here."""

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case."""


def default_executor_name() -> str:
    """Return ``"device"`` where there is a GPU, else ``"footprint"``."""
    from kvzero.executors.device import device_available

    return "device" if device_available() else "footprint"


def executor_named(
    name: str | None,
    *,
    max_programs: int | None = None,
    isolation: "Isolation | None" = None,
) -> Executor:
    """Return the executor of a name, or the default one.

    Args:
        name: One of `EXECUTOR_NAMES`, or None.
        max_programs: Programs that are evaluated for one case at most, where programs
            are evaluated one way or another.
        isolation: Run cases in a worker process, and how; None: in this process,
            except the host executor, which needs a process of its own.

    Raises:
        EnvironmentMissingError: It needs a GPU and there is none.
    """
    name = name or default_executor_name()
    if isolation is None and name != "host":
        return executor_in_process(name, max_programs=max_programs)
    from kvzero.executors.isolated import IsolatedExecutor

    return IsolatedExecutor(name, max_programs=max_programs, isolation=isolation)


def executor_in_process(
    name: str, *, max_programs: int | None = None, memory_bytes: int | None = None
) -> Executor:
    """Return the executor of a name, to run in this very process.

    Args:
        name: One of `EXECUTOR_NAMES`; the host executor wants a process that was
            started with ``TRITON_INTERPRET=1``.
        max_programs: As for `executor_named`.
        memory_bytes: Resident memory that this process may take, if it is limited.

    Raises:
        EnvironmentMissingError: It needs a GPU and there is none.
    """
    if name == "footprint":
        from kvzero.executors.footprint import FootprintExecutor

        return FootprintExecutor(max_programs=max_programs)
    if name == "host":
        from kvzero.executors.host import HostExecutor

        return HostExecutor(max_programs=max_programs, memory_bytes=memory_bytes)
    from kvzero.executors.device import DeviceExecutor

    return DeviceExecutor()
