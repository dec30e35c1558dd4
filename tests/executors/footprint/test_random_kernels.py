"""Random kernels must leave the same bytes on the footprint and in the interpreter."""

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.executors.footprint.differential import Witness, witness
from tests.executors.footprint.random_blocks import draw_kernel
from tests.executors.footprint.random_campaign import (
    NEVER_DRAWN,
    Campaign,
    batches,
)
from tests.executors.footprint.random_kernels import (
    REGION_BYTES,
    Draft,
    RandomKernel,
    opening,
)

SEEDED = 12
DRAWN = 8


@pytest.fixture(scope="module")
def both_sides() -> Iterator[Witness]:
    with witness() as made:
        yield made


@pytest.mark.slow
def test_random_kernels_leave_the_bytes_that_the_interpreter_leaves(
    both_sides: Witness,
) -> None:
    campaign = Campaign()
    for batch in batches(both_sides, seed=7, count=SEEDED):
        for compiled in batch:
            campaign.add(compiled)
    differences = [(c.kernel.source, text) for c, text in campaign.disagreements]
    assert differences == []
    assert not NEVER_DRAWN.keys() & campaign.ops.keys()
    for feature in ("loop or branch", "wrap", "promise"):
        assert campaign.marks[feature], feature


@pytest.mark.slow
@given(random=st.randoms(use_true_random=False))
@settings(
    max_examples=DRAWN,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_drawn_kernels_agree_and_shrink(both_sides: Witness, random: Random) -> None:
    (compiled,) = both_sides.batch([draw_kernel(random)])
    assert compiled.disagreement() is None, compiled.kernel.source


def test_a_kernel_depends_on_its_seed_alone() -> None:
    # sanity check
    one, other = (draw_kernel(Random("9/4"), "kernel") for _ in range(2))
    assert one == other
    assert one.source.count("def kernel(") + one.source.count("def signed_kernel(") == 1


def a_kernel(*lines: str) -> RandomKernel:
    draft = Draft(Random(1), lanes=8, rows=4)
    return RandomKernel(
        name="kernel",
        opening=opening(draft, "kernel"),
        blocks=tuple(f"    {line}\n" for line in lines),
        grid=(2, 1, 1),
        n32=40,
        n64=2**40,
        seed=3,
        in_arena=True,
        marks=frozenset(),
    )


def test_a_wrong_byte_is_a_disagreement(both_sides: Witness) -> None:
    # sanity check
    (compiled,) = both_sides.batch([a_kernel("tl.store(base + lanes, p.to(tl.int8))")])
    assert compiled.disagreement() is None
    assert compiled.expected is not None
    compiled.expected[REGION_BYTES + 3] ^= 1
    assert "byte 3 of program 1 is 1, in the interpreter 0" in str(
        compiled.disagreement()
    )


@pytest.mark.slow
def test_the_interpreter_misreads_values_of_atomics_that_run_backwards(
    both_sides: Witness,
) -> None:
    """Triton 3.7.1's interpreter reads past lanes that NumPy holds back to front.

    Why random kernels hand atomics a new array. Where this fails, Triton has mended it.
    """
    scan = "tl.associative_scan(lanes, 0, both, reverse=True)"
    store = f"tl.atomic_xchg(base.to(tl.pointer_type(tl.int32)) + lanes, {scan}%s)"
    plain, copied = (
        both_sides.batch([a_kernel(store % end)])[0] for end in ("", " + 0")
    )
    assert copied.disagreement() is None
    assert copied.expected is not None
    last = copied.expected[:32].view(np.int32)
    assert last.tolist() == [0, 0, 0, 0, 4, 4, 6, 7]
    assert plain.disagreement() is not None
