"""The class of an installed vLLM, or one clear line why there is none.

The class is private and moves, so what is relied on is checked before it is used: the
version, the place, and the parameters of its constructor. vLLM looks for a GPU when it
is imported, and hides Triton where it finds none, unless `CUDA_VISIBLE_DEVICES` is set
and empty: so it is, during the import, on a machine without one.

Source: vllm 0.33.0, ``vllm/v1/worker/utils.py`` and ``vllm/triton_utils/importing.py``.
"""

import inspect
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch

from kvzero.errors import EnvironmentMissingError

OLDEST = (0, 33)
"""The first release whose class is known; older ones plan and launch differently."""
NEWEST = (0, 33)
"""The last release against which this was checked."""
CLASS_MODULE = "vllm.v1.worker.utils"
COMPILED = "vllm._C_stable_libtorch"
"""Compiled operations, hundreds of megabytes; a closure leaves them out."""
PARAMETERS = (
    "device",
    "attn_groups_iter",
    "kernel_block_sizes",
    "static_forward_context",
    "num_blocks",
    "runner_only_attn_layers",
)
METHODS = ("zero_block_ids", "warmup")


class Release(NamedTuple):
    """What an installed vLLM offers.

    Attributes:
        version: Its version.
        zeroer: The class under test.
        group: Its class of attention groups.
        spec: Its class of full attention's cache specifications.
        backend: Its base class of attention backends.
        notes: How a run differs from one inside an engine.
    """

    version: str
    zeroer: Any  # Any: vLLM's own classes, which are no dependency of kvzero
    group: Any
    spec: Any
    backend: Any
    notes: tuple[str, ...]


@cache
def installed_release() -> Release:
    """Return what the installed vLLM offers; imported once, which takes seconds.

    Raises:
        EnvironmentMissingError: There is none, it is unknown, or it cannot be imported.
    """
    found = _installed_version()
    notes = [f"vllm {found}: {CLASS_MODULE}.KVBlockZeroer, unmodified"]
    notes += _newer(found)
    notes += _other_torch(found)
    with _import_conditions():
        notes += _without_compiled_part(found)
        module = _imported(found, CLASS_MODULE)
        backend = _imported(found, "vllm.v1.attention.backend")
        interface = _imported(found, "vllm.v1.kv_cache_interface")
        notes += _without_pinned_memory(found)
    zeroer = _named(found, module, "KVBlockZeroer")
    _check_class(found, zeroer)
    _check_triton(found)
    return Release(
        found,
        zeroer,
        _named(found, module, "AttentionGroup"),
        _named(found, interface, "FullAttentionSpec"),
        _named(found, backend, "AttentionBackend"),
        tuple(notes),
    )


def _installed_version() -> str:
    try:
        found = version("vllm")
    except PackageNotFoundError:
        raise EnvironmentMissingError(
            "vllm is not installed, but subject 'vllm' must find "
            f"{_text(OLDEST)}.0 or newer: run `tox -e vllm`, or see docs/vllm.md"
        ) from None
    if _release(found) < OLDEST:
        raise EnvironmentMissingError(
            f"vllm={found}, but must be {_text(OLDEST)}.0 or newer: kvzero does not "
            f"know the zeroer of that version"
        )
    return found


def _release(text: str) -> tuple[int, ...]:
    """Return major and minor version; an unreadable version counts as the oldest."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return tuple(int(part) for part in found.groups()) if found else (0, 0)


def _text(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def _newer(found: str) -> list[str]:
    if _release(found) <= NEWEST:
        return []
    return [f"vllm {found} is newer than {_text(NEWEST)}, the last that was read"]


def _other_torch(found: str) -> list[str]:
    """Return a note where the release asks for another torch than the one here."""
    wanted = [r for r in requires("vllm") or () if re.match(r"torch\s*==", r)]
    pinned = wanted[0].partition("==")[2].split(";")[0].strip() if wanted else ""
    if not pinned or torch.__version__.split("+")[0] == pinned:
        return []
    return [f"vllm {found} asks for torch {pinned}; this is {torch.__version__}"]


@contextmanager
def _import_conditions() -> Iterator[None]:
    """Let vLLM keep Triton without a GPU, and keep its warnings from being errors."""
    hidden = "CUDA_VISIBLE_DEVICES"
    before = os.environ.get(hidden)
    if not torch.cuda.is_available():
        os.environ[hidden] = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if before is None:
            os.environ.pop(hidden, None)
        else:
            os.environ[hidden] = before


def _imported(found: str, name: str) -> Any:  # Any: a module of vLLM
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:  # an import may raise anything
        first = next(iter(str(error).splitlines()), "")
        raise EnvironmentMissingError(
            f"vllm={found}, but {name} cannot be imported: {type(error).__name__}: "
            f"{first}: docs/vllm.md lists what it needs"
        ) from error


def _named(found: str, module: Any, name: str) -> Any:  # Any: a module, its class
    try:
        return getattr(module, name)
    except AttributeError:
        raise EnvironmentMissingError(
            f"vllm={found}, but {module.__name__} must have {name}: it has moved in a "
            f"version that kvzero does not know"
        ) from None


def _check_class(found: str, zeroer: Any) -> None:  # Any: the class under test
    taken = tuple(inspect.signature(zeroer).parameters)
    if taken != PARAMETERS:
        raise EnvironmentMissingError(
            f"vllm={found}: KVBlockZeroer takes ({', '.join(taken)}), but must take "
            f"({', '.join(PARAMETERS)}): kvzero does not know this version"
        )
    missing = [name for name in METHODS if not hasattr(zeroer, name)]
    if missing:
        raise EnvironmentMissingError(
            f"vllm={found}: KVBlockZeroer lacks {', '.join(missing)}: kvzero does not "
            f"know this version"
        )


def _check_triton(found: str) -> None:
    if not getattr(import_module("vllm.triton_utils"), "HAS_TRITON", False):
        raise EnvironmentMissingError(
            f"vllm={found} was imported without Triton, so its kernel does not exist: "
            f"import it with one GPU, or with an empty CUDA_VISIBLE_DEVICES"
        )


def _without_compiled_part(found: str) -> list[str]:
    """Leave vLLM without a platform where its compiled part is not, and note it.

    Its CUDA platform imports that part before anything else. The zeroer needs neither.
    """
    if not torch.cuda.is_available() or find_spec(COMPILED) is not None:
        return []
    unspecified = _imported(found, "vllm.platforms.interface").UnspecifiedPlatform()
    _imported(found, "vllm.platforms")._current_platform = unspecified  # noqa: SLF001 - vLLM has no public way to choose
    return [f"{COMPILED} is not here: vllm was imported as on an unknown platform"]


def _without_pinned_memory(found: str) -> list[str]:
    """Stage ids in pageable memory where there is no GPU, and return a note of it.

    vLLM decides by the platform, not by asking torch, that memory can be pinned; torch
    cannot do it without a GPU. The switch is vLLM's own, beside the class.
    """
    if torch.cuda.is_available():
        return []
    helpers = _imported(found, "vllm.utils.torch_utils")
    if not getattr(helpers, "PIN_MEMORY", False):
        return []
    helpers.PIN_MEMORY = False
    return ["no GPU: ids are staged in pageable memory, not in pinned memory"]
