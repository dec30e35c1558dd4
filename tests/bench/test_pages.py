"""Families of pages against the oracle: the same bytes, each once."""

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from kvzero.bench.layouts import bench_layouts
from kvzero.bench.pages import bytes_of_block, page_families, progressions
from kvzero.case import Call, Case, IdRun
from kvzero.layout import Layout
from kvzero.oracle import must_be_zero
from kvzero.strategies import layouts

SMALL = layouts(max_bytes=2**16, max_programs_hint=64)


def oracle_bytes(layout: Layout, blocks: int) -> torch.Tensor:
    """Return a mask of all memory, allocation after allocation."""
    sizes = layout.allocation_sizes
    bases = np.cumsum(sizes) - sizes
    pages = must_be_zero(Case(layout, (Call((IdRun(0, blocks),)),)), 0, bases)
    mask = torch.zeros(int(sizes.sum()), dtype=torch.bool)
    for begin, end in zip(pages.starts.tolist(), pages.ends.tolist()):
        mask[begin:end] = True
    return mask


@settings(max_examples=60)
@given(SMALL, st.integers(0, 4))
def test_families_cover_what_the_oracle_says_once(layout: Layout, blocks: int) -> None:
    table = layout.table
    for allocation in set(table.allocation.tolist()):
        strides = table.stride_bytes[table.allocation == allocation]
        assume(len(set(strides.tolist())) == 1)
    blocks = min(blocks, layout.num_blocks)
    assume(int(layout.allocation_sizes.sum()) < 2**22)
    expected = oracle_bytes(layout, blocks)
    # Guards keep the widest word inside the storage.
    raws = [torch.zeros(size + 8, dtype=torch.uint8) for size in _sizes(layout)]
    for family in page_families(layout):
        pages = family.view(raws[family.allocation], layout.num_blocks)
        pages[:blocks] += torch.ones((), dtype=pages.dtype)
    written = torch.cat([raw[:-8] for raw in raws]) if raws else torch.zeros(0)
    if blocks:
        assert int(expected.sum()) == blocks * bytes_of_block(layout)
    assert not bool((written.bool() & ~expected).any())


def _sizes(layout: Layout) -> list[int]:
    return [int(size) for size in layout.allocation_sizes]


@pytest.mark.parametrize("name", [layout.name for layout in bench_layouts()])
def test_bytes_of_a_measured_block_are_the_oracles(name: str) -> None:
    (bench_layout,) = bench_layouts([name])
    layout = bench_layout.make(min(bench_layout.num_blocks, 9))
    sizes = layout.allocation_sizes
    case = Case(layout, (Call((IdRun(8, 3, -3),)),))
    pages = must_be_zero(case, 0, np.cumsum(sizes + 1) - sizes)
    assert pages.total_bytes == 3 * bytes_of_block(layout)


@given(st.lists(st.integers(0, 60), unique=True, min_size=1).map(sorted))
@example([0, 10, 20, 100, 110, 120])
@example([5])
def test_progressions_hold_each_number_once_in_order(values: list[int]) -> None:
    found = list(progressions(np.array(values, np.int64)))
    listed = [first + i * step for first, step, count in found for i in range(count)]
    assert listed == values


def test_an_even_row_is_one_progression() -> None:
    assert list(progressions(np.arange(0, 65536 * 7, 7))) == [(0, 7, 65536)]


@settings(max_examples=40)
@given(SMALL)
def test_words_divide_everything_that_they_must(layout: Layout) -> None:
    for family in page_families(layout):
        word = family.word_bytes
        assert word in (1, 2, 4, 8)
        parts = (family.offset_bytes, family.step_bytes, family.stride_bytes)
        assert all(part % word == 0 for part in (*parts, family.page_bytes))
