"""How far Triton compiles random kernels, and casts of bits that its language lacks.

The footprint needs nothing behind TTIR, which saves two thirds of the time of a kernel;
a GPU needs everything. Either way a kernel called `signed_...` extends bits with their
sign, which Triton's language never asks for and the evaluator must know all the same.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import triton
from triton._C.libtriton import ir

_BIT_CAST = re.compile(r"arith\.extui( %[\w.#]+ : (?:tensor<[\dx]*)?i1>? to)")


@contextmanager
def stages(*, only_ttir: bool) -> Iterator[None]:
    """Compile so far until the block ends, and keep what is cached in a folder."""
    knobs: Any = triton.knobs  # Any: Triton has no types
    with tempfile.TemporaryDirectory() as folder:
        before = knobs.runtime.add_stages_inspection_hook, knobs.cache.dir
        knobs.runtime.add_stages_inspection_hook = partial(_changed, only_ttir)
        knobs.cache.dir = folder
        try:
            yield
        finally:
            knobs.runtime.add_stages_inspection_hook, knobs.cache.dir = before


def _changed(only_ttir: bool, *arguments: Any) -> tuple[str, str]:
    # Triton calls it with nothing for a key of its caches, else with the stages.
    if arguments:
        made = arguments[1]
        make_ttir = made["ttir"]
        made["ttir"] = lambda module, metadata: make_ttir(
            _with_signed_bits(module), metadata
        )
        if only_ttir:
            _shorten(made)
    return ("only-ttir", "only-ttir") if only_ttir else ("signed", "signed")


def _shorten(made: dict[str, Any]) -> None:  # Any: a stage, as Triton has it
    for name in ("ttgir", "llir", "ptx"):
        made[name] = _named
    made["cubin"] = lambda module, metadata: str(_named(module, metadata)).encode()


def _named(module: Any, metadata: dict[str, Any]) -> Any:  # Any: as a stage has it
    metadata.setdefault("shared", 0)
    metadata.setdefault("name", "kernel")
    return module


def _with_signed_bits(module: Any) -> Any:  # Any: a module of MLIR's
    """Return a module whose casts of bits keep their sign, if its name asks for it."""
    text = str(module)
    if "@signed_" not in text:
        return module
    text = _BIT_CAST.sub(r"arith.extsi\1", text)
    with tempfile.NamedTemporaryFile("w", suffix=".ttir") as file:
        file.write(text)
        file.flush()
        changed = ir.parse_mlir_module(file.name, module.context)
    changed.context = module.context
    return changed
