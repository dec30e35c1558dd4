"""The depth of the language: evaluated as the interpreter does, or refused by name."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvzero.executors.footprint.control import trip_counts
from kvzero.executors.footprint.frame import NotJudgedError
from tests.executors.footprint import depth_kernels, order_kernels
from tests.executors.footprint.bench import Bench, ints
from tests.executors.footprint.test_witness import evaluate
from tests.executors.footprint.witness_kernels import run_all

_ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def interpreted(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, NDArray[np.uint8]]:
    target = tmp_path_factory.mktemp("depth") / "bytes.npz"
    script = Path(depth_kernels.__file__)
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join(
            [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
    }
    subprocess.run([sys.executable, script, target], check=True, env=environment)
    return dict(np.load(target))


@pytest.mark.slow
def test_depth_of_the_language_agrees_with_the_interpreter(
    interpreted: dict[str, NDArray[np.uint8]],
) -> None:
    evaluated = run_all(evaluate, depth_kernels.launches())  # type: ignore[no-untyped-call]  # a module of kernels
    different = [
        name
        for name, found in interpreted.items()
        if not np.array_equal(evaluated[name], found)
    ]
    assert different == []
    assert len(evaluated) == len(depth_kernels.GRIDS) * 13


@pytest.mark.filterwarnings("ignore:tl.cat.can_reorder:UserWarning")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("takes_work", "the result of an atomic that several programs or lanes share"),
        ("takes_work_one_by_one", "the result of an atomic that several programs"),
        ("exchanges", "different values exchanged on one address"),
        ("adds_floats", "the result of an atomic that several programs"),
        ("mixes_kinds", "atomics of several kinds on one address"),
        ("loads_a_counter", "load at .* of what the atomic at .* changes"),
        ("stores_and_counts", "on what its own program stores"),
        ("cats", r"tt.cat \(its lanes may come in any order\)"),
        ("sums_floats", "tt.reduce of f32"),
    ],
)
def test_what_depends_on_an_order_is_not_judged_by_name_and_line(
    name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "takes_work_one_by_one":
        monkeypatch.setattr("kvzero.executors.footprint.evaluate.PART_PROGRAMS", 1)
    kernel = getattr(order_kernels, name)
    bench = Bench()
    words = bench.memory.view(torch.int32)
    with pytest.raises(
        NotJudgedError, match=rf"{reason}.*|.* at order_kernels.py:\d+"
    ) as raised:
        bench.launch(lambda: kernel[(4,)](words, 3, LANES=8))
    assert "order_kernels.py:" in str(raised.value)


@pytest.mark.parametrize("name", ["counts_what_another_stores", "peeks_at_a_counter"])
def test_atomic_that_meets_plain_accesses_of_others_is_a_race(name: str) -> None:
    kernel = getattr(order_kernels, name)
    bench = Bench()
    words = bench.memory.view(torch.int32)
    result = bench.launch(lambda: kernel[(4,)](words, 3, LANES=8))
    assert {m.kind for m in result.missteps} == {"race"}


def test_shared_counter_in_memory_of_the_subject_is_counted_for_real() -> None:
    bench = Bench()
    counter = ints(5, 7)
    bench.launch(lambda: order_kernels.counts[(3, 5)](counter, 0, LANES=8))
    assert counter.tolist() == [20, 7]


def test_atomic_outside_all_memory_is_a_bad_load() -> None:
    bench = Bench()
    words = bench.memory.view(torch.int32)
    result = bench.launch(lambda: order_kernels.counts[(1,)](words, 1024, LANES=8))
    assert [m.kind for m in result.missteps] == ["bad-load"]


@pytest.mark.parametrize(
    ("low", "high", "step", "trips"),
    [(0, 10, 3, 4), (5, 5, 1, 0), (6, 5, 1, 0), (0, -1, 2**30, 4), (-2, -1, 1, 1)],
)
def test_unsigned_bounds_count_without_a_sign(
    low: int, high: int, step: int, trips: int
) -> None:
    bounds = (np.int32(low), np.int32(high), np.int32(step))
    assert int(trip_counts(*bounds, is_unsigned=True)) == trips


@given(st.floats(width=32, allow_nan=False))
@settings(max_examples=25, deadline=None)
def test_bf16_is_stored_as_torch_rounds_it(number: float) -> None:
    bench = Bench()
    bench.launch(lambda: order_kernels.stores_bf16[(1,)](bench.memory, number))
    expected = torch.tensor([number, 0.3, 1]).to(torch.bfloat16)
    expected[2] -= expected[0]
    assert bench.read(0, 6) == bytes(expected.view(torch.uint8).numpy())


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, 448.0, -0.015625])
def test_fp8_is_stored_where_the_number_is_exact(number: float) -> None:
    bench = Bench()
    bench.launch(lambda: order_kernels.stores_fp8[(1,)](bench.memory, number))
    first = torch.tensor([number]).to(torch.float8_e4m3fn).view(torch.uint8)
    second = torch.tensor([-1.75]).to(torch.float8_e5m2).view(torch.uint8)
    assert bench.read(0, 2) == bytes([int(first), int(second)])


@pytest.mark.parametrize("number", [1.03, 1000.0])
def test_fp8_that_would_be_rounded_is_not_judged(number: float) -> None:
    bench = Bench()
    with pytest.raises(NotJudgedError, match=r"tt.fp_to_fp on f8E4M3FN at order_"):
        bench.launch(lambda: order_kernels.stores_fp8[(1,)](bench.memory, number))
