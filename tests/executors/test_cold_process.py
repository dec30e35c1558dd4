"""Triton's cache of compiled kernels, from one process to the next."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.executors.on_gpu import NEEDS_GPU

pytestmark = [*NEEDS_GPU, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 120


def told_by(cache: Path, *arguments: object) -> dict[str, Any]:  # Any: JSON
    """Return what a new process tells that keeps its kernels in a folder."""
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "tests.executors.cold_process"),
            *map(str, arguments),
        ],
        cwd=ROOT,
        env={**os.environ, "TRITON_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    assert told["right"]
    assert told["untouched"]
    return told


def test_a_second_process_compiles_nothing_whatever_its_layout(tmp_path: Path) -> None:
    first = told_by(tmp_path, "kvzero", 64, 1, "warm")
    second = told_by(tmp_path, "kvzero", 1_000, 16, "warm")
    assert first["compiled"] == 1
    for told in (first, second):
        assert (told["compiled_in_calls"], told["loaded_in_calls"]) == (0, 0)
    assert second["compiled"] == 0


def test_cold_calls_from_threads_that_start_together_are_right(tmp_path: Path) -> None:
    told = told_by(tmp_path, "kvzero", 64, 3, "cold")
    assert told["compiled"] == 1


def test_a_variant_of_the_second_process_is_seen(tmp_path: Path) -> None:
    told_by(tmp_path, "count-in-the-jit-key", 64, 1, "warm")
    second = told_by(tmp_path, "count-in-the-jit-key", 256, 16, "warm")
    assert second["compiled"] > 0
    assert second["compiled_in_calls"] > 0


def test_a_kernel_that_is_loaded_in_a_call_is_seen(tmp_path: Path) -> None:
    told = told_by(tmp_path, "never-warmed", 64, 2, "warm")
    assert told["loaded_in_calls"] > 0
