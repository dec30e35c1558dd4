"""The differential witness finds bugs that are planted in the evaluator."""

from collections.abc import Iterator

import pytest

from tests.executors.footprint.differential import Compiled, witness
from tests.executors.footprint.planted_bugs import BUGS, kernels_needed
from tests.executors.footprint.random_campaign import batches

FEW = (
    "unsigned compared as signed",
    "no wrap at 32 bits: products saturate",
    "truncation saturates",
    "store too narrow",
    "program id of wrong axis",
)


@pytest.fixture(scope="module")
def kernels() -> Iterator[list[Compiled]]:
    with witness() as made:
        (batch,) = batches(made, seed=1, count=10)
        yield batch


@pytest.mark.slow
@pytest.mark.parametrize("bug", FEW)
def test_planted_bug_is_caught(bug: str, kernels: list[Compiled]) -> None:
    assert kernels_needed(bug, kernels) is not None


@pytest.mark.slow
def test_without_a_bug_nothing_is_caught(kernels: list[Compiled]) -> None:
    # sanity check
    assert [kernel.disagreement() for kernel in kernels] == [None] * len(kernels)


def test_twenty_bugs_are_planted() -> None:
    assert len(BUGS) >= 20
