"""The evaluator and Triton's interpreter must leave the same bytes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.executors.footprint import witness_kernels
from tests.executors.footprint.bench import Bench
from tests.executors.footprint.witness_kernels import launches, run_all

Tensors = tuple[torch.Tensor, ...]


@pytest.fixture(scope="module")
def interpreted(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, NDArray[np.uint8]]:
    target = tmp_path_factory.mktemp("witness") / "bytes.npz"
    script = Path(witness_kernels.__file__)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, script, target], check=True, env=environment)
    return dict(np.load(target))


def evaluate(name: str, launch: Callable[[Tensors], object], tensors: Tensors) -> None:
    result = Bench().launch(lambda: launch(tensors))
    assert result.missteps == (), name
    assert not len(result.zero.starts), name
    assert not len(result.other), name


@pytest.mark.slow
def test_evaluator_leaves_the_bytes_that_the_interpreter_leaves(
    interpreted: dict[str, NDArray[np.uint8]],
) -> None:
    evaluated = run_all(evaluate, launches())  # type: ignore[no-untyped-call]  # a module of kernels
    assert evaluated.keys() == interpreted.keys()
    assert len(interpreted) >= 40
    different = [
        n for n in interpreted if not np.array_equal(evaluated[n], interpreted[n])
    ]
    assert different == []
