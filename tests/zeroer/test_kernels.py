"""The kernel zeroes what the table says, and compiles to the stores it is meant to."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.compiler import compile as compile_kernel
from triton.runtime.jit import create_function_from_signature

from kvzero.zeroer.chunks import (
    CHUNK_BYTES,
    LINE_BYTES,
    MORE_BYTES,
    ROW_FIELDS,
)
from kvzero.zeroer.kernels import zero_chunks
from kvzero.zeroer.plan import NUM_WARPS

TARGETS = [
    GPUTarget("cuda", 80, 32),
    GPUTarget("cuda", 90, 32),
    GPUTarget("cuda", 100, 32),
    GPUTarget("hip", "gfx942", 64),
    GPUTarget("hip", "gfx1100", 32),
]


def compiled(target: GPUTarget, *, several: bool) -> Any:  # Any: Triton has no types
    types = ["*i64", "*i64", "i64", *["i32"] * 4, *["constexpr"] * 5]
    constants = {
        "SEVERAL_BLOCKS": several,
        "CHUNK_BYTES": CHUNK_BYTES,
        "MORE_BYTES": MORE_BYTES,
        "LINE_BYTES": LINE_BYTES,
        "ROW_FIELDS": ROW_FIELDS,
    }
    source = ASTSource(
        zero_chunks, dict(zip(zero_chunks.arg_names, types, strict=True)), constants
    )
    return compile_kernel(source, target=target, options={"num_warps": NUM_WARPS})


@pytest.mark.slow
def test_interpreted_kernel_zeroes_exactly_the_listed_pages() -> None:
    script = Path(__file__).with_name("interpreted.py")
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_body_of_a_chunk_is_stored_16_bytes_a_thread(several: bool) -> None:
    ptx = compiled(TARGETS[1], several=several).asm["ptx"]
    stores = re.findall(r"st\.global\S*", ptx)
    body = (CHUNK_BYTES + MORE_BYTES) // (16 * 32 * NUM_WARPS)
    assert [".".join(s.split(".")[-2:]) for s in stores] == [
        *["v4.b32"] * body,
        "global.b8",
        "global.b8",
    ]
    assert all("evict_first" in store for store in stores[:body])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_kernel_compiles_for_every_target(target: GPUTarget) -> None:
    for several in (False, True):
        assert compiled(target, several=several).metadata.target == target


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_arguments_of_any_kind_have_one_cache_key(target: GPUTarget) -> None:
    binder = create_function_from_signature(
        zero_chunks.signature, zero_chunks.params, make_backend(target)
    )
    # One storage over 2 GiB, which a HIP key would tell from a small one.
    huge = torch.empty(2**28 + 1, dtype=torch.int64, device="meta")
    small = torch.empty(64, dtype=torch.int64)
    constants = (True, CHUNK_BYTES, MORE_BYTES, LINE_BYTES, ROW_FIELDS)
    keys = {
        str(binder(rows, ids, blocks, count, each, flag, 1 - flag, *constants)[1])
        for rows in (small, huge)
        for ids in (small, small[1:], huge)
        for blocks in (0, 1, 15, 16, 2**31 - 1, 2**31, 2**40)
        for count in (0, 1, 16, 2**31 - 1)
        for each in (1, 2, 8)
        for flag in (0, 1)
    }
    assert len(keys) == 1
