"""Poison is a function of (seed, allocation, offset) that no zero hides in."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvzero.poison import (
    PERIOD_DWORDS,
    fill_poison,
    poison_at,
    poison_bytes,
    poison_dwords,
    poison_key,
)

SEEDS = st.integers(0, 2**64)
ALLOCATIONS = st.integers(0, 2**20)
OFFSETS = st.integers(-(2**46), 2**46)


@given(SEEDS, ALLOCATIONS, st.lists(OFFSETS, min_size=1, max_size=20))
def test_numpy_and_torch_agree(seed: int, allocation: int, offsets: list[int]) -> None:
    array = poison_at(seed, allocation, np.array(offsets, np.int64))
    tensor = poison_at(seed, allocation, torch.tensor(offsets, dtype=torch.int64))
    assert array.dtype == np.uint8
    assert tensor.dtype == torch.uint8
    assert tensor.tolist() == array.tolist()


@given(SEEDS, ALLOCATIONS, OFFSETS, st.integers(0, 3000), st.integers(0, 7))
def test_filled_memory_holds_the_poison_of_its_offsets(
    seed: int, allocation: int, first: int, size: int, misalignment: int
) -> None:
    memory = torch.zeros(size + 8, dtype=torch.uint8)
    fill_poison(memory[misalignment : misalignment + size], seed, allocation, first)
    filled = memory[misalignment : misalignment + size].numpy()
    expected = poison_at(seed, allocation, first + np.arange(size))
    assert filled.tolist() == expected.tolist()
    assert not memory[misalignment + size :].any()


def test_a_fill_of_many_pieces_has_no_seams() -> None:
    memory = torch.zeros(2**18 * 3 + 5, dtype=torch.uint8)
    fill_poison(memory, 1, 2, -9)
    assert (memory.numpy() == poison_at(1, 2, np.arange(len(memory)) - 9)).all()


@given(SEEDS, ALLOCATIONS, OFFSETS)
def test_dwords_without_a_plant_are_distinct_and_hold_no_zero(
    seed: int, allocation: int, first: int
) -> None:
    index = np.arange(first, first + 20_000) + poison_key(seed, allocation)
    dwords = poison_dwords(index)
    high = dwords >> 16
    planted = (high & 0x7F80 == 0x7F80) | (dwords & 0x7FFFFFFF == 0)
    planted |= np.isin(dwords, [0x7C00FC00, 0x80008000])
    plain = dwords[~planted]
    assert len(np.unique(plain)) == len(plain)
    assert (poison_bytes(index[~planted] * 4, 0) != 0).all()


def test_dwords_repeat_after_their_period_only() -> None:
    index = np.array([5, 5 + PERIOD_DWORDS, 5 + PERIOD_DWORDS // 2])
    dwords = poison_dwords(index)
    assert dwords[0] == dwords[1] != dwords[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_floats_of_each_width_hold_nan_infinity_and_negative_zero(
    dtype: torch.dtype,
) -> None:
    memory = torch.empty(2**18, dtype=torch.uint8)
    fill_poison(memory, 0, 0, 0)
    floats = memory.view(dtype)
    assert floats.isnan().any()
    assert floats.isinf().any()
    assert ((floats == 0) & floats.signbit()).any()


def test_plants_and_zero_bytes_are_rare() -> None:
    memory = torch.empty(2**20, dtype=torch.uint8)
    fill_poison(memory, 7, 3, 0)
    nans = memory.view(torch.float32).isnan().float().mean()
    assert 1 / 150 < nans < 1 / 60
    assert (memory == 0).float().mean() < 1 / 1000


@pytest.mark.parametrize("page", [16, 512, 4096, 1168])
def test_plants_keep_no_step_with_pages(page: int) -> None:
    memory = poison_at(0, 0, np.arange(page * 4000)).view(np.uint32)
    is_nan = (memory & 0x7F807F80) == 0x7F807F80
    columns = is_nan.reshape(-1, page // 4).sum(0)
    assert columns.min() > 10


def test_seeds_and_allocations_give_unrelated_poison() -> None:
    offsets = np.arange(4096)
    one = poison_at(1, 0, offsets)
    for seed, allocation in [(2, 0), (1, 1), (0, 1)]:
        assert (poison_at(seed, allocation, offsets) == one).mean() < 0.05
