"""Ways to run a subject on a case and report what it did.

`footprint` evaluates Triton's IR with no GPU, `device` runs on one, `host` runs on CPU
memory with Triton's interpreter.
"""

from typing import Protocol

from kvzero.case import Case
from kvzero.errors import EnvironmentMissingError
from kvzero.observation import Observation
from kvzero.subjects.protocol import Subject

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


def executor_named(name: str | None, *, max_programs: int | None = None) -> Executor:
    """Return the executor of a name, or the default one.

    Args:
        name: One of `EXECUTOR_NAMES`, or None.
        max_programs: Programs that are evaluated for one case at most, where programs
            are evaluated one way or another.

    Raises:
        EnvironmentMissingError: It needs a GPU and there is none.
    """
    name = name or default_executor_name()
    if name == "footprint":
        from kvzero.executors.footprint import FootprintExecutor

        return FootprintExecutor(max_programs=max_programs)
    if name == "host":
        from kvzero.executors.host import HostExecutor

        return HostExecutor()
    from kvzero.executors.device import DeviceExecutor, device_available

    if not device_available():
        raise EnvironmentMissingError(
            "executor='device', but torch finds no GPU here: use --executor footprint"
        )
    return DeviceExecutor()
