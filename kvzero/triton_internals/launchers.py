"""The classes of Triton's launchers, through which every launch of a process goes."""

from kvzero.triton_internals.dry import DryDriver
from kvzero.triton_internals.internals import internal, internal_module

_PLACES = (
    ("triton.backends.nvidia.driver", "CudaLauncher", "cuda"),
    ("triton.backends.amd.driver", "HIPLauncher", "hip"),
)


def launcher_types() -> dict[type, str | None]:
    """Return the classes and their backends; a dry launcher knows its own.

    No driver is asked for, because that would initialise a device.

    Raises:
        EnvironmentMissingError: Triton's internals have moved.
    """
    types: dict[type, str | None] = {DryDriver.launcher_cls: None}
    for place, name, backend in _PLACES:
        types[internal(internal_module(place), name)] = backend
    return types
