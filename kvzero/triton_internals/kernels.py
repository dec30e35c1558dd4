"""Compiled variants and their launches, as every way to see them reports them."""

import inspect
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from kvzero.errors import EnvironmentMissingError
from kvzero.limits import Fate, LaunchShape, launch_fate
from kvzero.observation import Launch
from kvzero.triton_internals.internals import (
    GPUTarget,
    Internal,
    get_cache_manager,
    internal,
)

_CUDA_WARP = 32


def gpu_target(platform: str) -> GPUTarget:
    """Return Triton's target of a platform such as ``"cuda:90"`` or ``"hip:gfx942"``.

    Raises:
        EnvironmentMissingError: It is neither a CUDA capability nor a HIP architecture.
    """
    backend, _, arch = platform.partition(":")
    if backend == "cuda" and arch.isdecimal():
        return GPUTarget("cuda", int(arch), _CUDA_WARP)
    if backend == "hip" and arch.startswith("gfx"):
        return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    raise EnvironmentMissingError(
        f"platform={platform!r}, but must be cuda:CAPABILITY or hip:gfxARCH for Triton "
        f"to compile for it"
    )


def platform_of(target: GPUTarget) -> str:
    """Return the platform of one of Triton's targets."""
    return f"{target.backend}:{target.arch}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A run-time parameter of a compiled variant: its name and Triton's type of it."""

    name: str
    type_name: str


class Kernel:
    """A compiled variant.

    Attributes:
        name: Name of the kernel.
        place: File and line of its definition.
        variant: Triton's hash of the variant.
        platform: What it is compiled for.
        constants: Compile-time arguments, by name.
        parameters: Run-time parameters; tuples are flattened.
    """

    def __init__(self, source: Internal, metadata: Internal) -> None:
        """Read what is fixed for every launch of the variant."""
        self._source = source
        self._function = getattr(source, "fn", None)
        self._signature = tuple(internal(source, "signature").items())
        self.name: str = internal(metadata, "name")
        self.variant: str = internal(metadata, "hash")
        self.target: GPUTarget = internal(metadata, "target")
        self.platform = platform_of(self.target)
        self.num_warps: int = internal(metadata, "num_warps")
        self.num_ctas: int = getattr(metadata, "num_ctas", 1)
        self.place = _definition_place(self._function)
        self.constants = self._read_constants()
        self.parameters = tuple(
            Parameter(str(name), type_name)
            for name, type_name in _flat(self._signature)
        )

    def arguments(self, values: Sequence[object]) -> list[object]:
        """Return the run-time arguments, in the order of `parameters`."""
        types = [type_name for _, type_name in self._signature]
        return [value for value, _ in _flat(list(zip(values, types)))]

    @cached_property
    def ttir(self) -> str | None:
        """Return the variant's TTIR, or None if Triton no longer has it."""
        for compiled in self._cached_variants():
            if getattr(compiled, "hash", None) == self.variant:
                return str(internal(compiled, "asm")["ttir"])
        group = get_cache_manager(self.variant).get_group(f"{self.name}.json") or {}
        paths = [path for name, path in group.items() if name.endswith(".ttir")]
        return Path(paths[0]).read_text() if paths else None

    def _cached_variants(self) -> Iterator[Internal]:
        caches = getattr(self._function, "device_caches", {})
        for cache in list(caches.values()):
            yield from list(cache[0].values())

    def _read_constants(self) -> tuple[tuple[str, object], ...]:
        names = getattr(self._function, "arg_names", ())
        constants: dict[Any, object] = getattr(self._source, "constants", {})
        return tuple(
            (".".join([names[path[0]], *map(str, path[1:])]), value)
            for path, value in sorted(constants.items(), key=lambda item: item[0])
        )


def _flat(pairs: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, str]]:
    """Yield (value or name, type) of what exists at run time; tuples are opened."""
    for value, type_name in pairs:
        if isinstance(type_name, tuple):
            named = isinstance(value, str)
            parts = [f"{value}.{i}" for i in range(len(type_name))] if named else value
            yield from _flat(list(zip(parts, type_name)))
        elif type_name != "constexpr":
            yield value, type_name


def _definition_place(function: Internal) -> str:
    python = inspect.unwrap(getattr(function, "fn", None) or (lambda: None))
    code = getattr(python, "__code__", None)
    if function is None or code is None:
        return "an unknown line"
    line = code.co_firstlineno
    try:
        source, line = inspect.getsourcelines(python)
    except (OSError, TypeError):
        source = []
    decorators = next(
        (i for i, text in enumerate(source) if re.match(r"\s*def\b", text)), 0
    )
    return f"{PurePath(code.co_filename).name}:{line + decorators}"


@dataclass(frozen=True)
class LaunchEvent:
    """One launch on its way to the device.

    Attributes:
        kernel: The compiled variant.
        shape: Grid, warps and CTAs.
        arguments: Run-time arguments in the order of `Kernel.parameters`: tensors,
            ints, floats.
        fate: What the platform does with it.
        limit: Name of the limit that decides, if any.
    """

    kernel: Kernel
    shape: LaunchShape
    arguments: list[object]
    fate: Fate
    limit: str | None

    def launch(self, call: int) -> Launch:
        """Return the record of the launch, made by the given call."""
        return Launch(
            call=call,
            kernel=self.kernel.name,
            place=self.kernel.place,
            shape=self.shape,
            fate=self.fate,
            limit=self.limit,
            variant=self.kernel.variant,
            target=self.kernel.platform,
            constants=self.kernel.constants,
        )


OnLaunch = Callable[[LaunchEvent], None]


def event_of(
    kernel: Kernel, grid: Sequence[int], values: Sequence[object]
) -> LaunchEvent:
    """Return a launch of a kernel, with what its platform does with it."""
    x, y, z = (operator.index(size) for size in grid)
    shape = LaunchShape((x, y, z), kernel.num_warps, kernel.num_ctas)
    fate, limit = launch_fate(shape, kernel.target.backend)
    if min(x, y, z) < 0:
        fate = "skipped"
    name = limit.name if limit else None
    return LaunchEvent(kernel, shape, kernel.arguments(values), fate, name)
