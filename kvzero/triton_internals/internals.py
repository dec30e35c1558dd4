"""Where Triton keeps what it does not promise, and one error where that has moved.

Nothing but this package imports any of it from Triton.
"""

from importlib import import_module
from typing import Any, NoReturn

import triton

from kvzero.errors import EnvironmentMissingError

_MOVED = (
    "triton={version}, but kvzero needs {name}, which is not where Triton 3.6 to 3.9 "
    "have it: install one of those, or a newer kvzero"
)
try:
    from triton.backends.compiler import GPUTarget as GPUTarget
    from triton.backends.driver import DriverBase as DriverBase
    from triton.compiler import CompiledKernel as CompiledKernel
    from triton.runtime import cache as compile_cache
    from triton.runtime import driver as _driver
    from triton.runtime.cache import get_cache_manager as get_cache_manager
except ImportError as error:
    said = str(error).partition(" (")[0]
    raise EnvironmentMissingError(
        _MOVED.format(version=triton.__version__, name=f"an internal ({said})")
    ) from error

Internal = Any  # an object of Triton's, which ships no type information

TRITON_VERSION: str = triton.__version__


def _moved(name: str) -> NoReturn:
    raise EnvironmentMissingError(_MOVED.format(version=TRITON_VERSION, name=name))


def internal(owner: object, name: str) -> Internal:
    """Return an attribute of one of Triton's objects, or say that it has moved."""
    try:
        return getattr(owner, name)
    except AttributeError:
        _moved(f"{getattr(owner, '__name__', type(owner).__name__)}.{name}")


def internal_module(place: str) -> Internal:
    """Return one of Triton's modules, or say that it has moved."""
    try:
        return import_module(place)
    except ImportError:
        _moved(place)


def driver_config() -> Internal:
    """Return the object that knows the active driver."""
    # `triton.runtime.driver` is the object that `triton.runtime.driver` (the module)
    # holds under the same name: what an import finds depends on who came first.
    config: Internal = _driver
    return config if hasattr(config, "set_active") else internal(config, "driver")


def warm_cache_key() -> None:
    """Read all of Triton's files, as its first compilation does, for what forks later.

    It saves each child 0.3 s; a Triton that has no such function is as good.
    """
    getattr(compile_cache, "triton_key", lambda: None)()
