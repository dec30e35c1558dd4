"""Live tensors of a pool: the bytes of their views, whatever the address."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvzero.layout import Allocation, Layout, Run, View
from kvzero.memory import Pool, live_view
from kvzero.oracle import view_mask
from kvzero.pages import ELEMENT_BYTES
from kvzero.plain_views import views_of_runs

SIZE = 512
DTYPES = sorted(set(ELEMENT_BYTES) - {"complex32"})
"""Without the one that torch warns of."""


def memory(misalignment: int = 0) -> torch.Tensor:
    buffer = torch.zeros(SIZE + 1024, dtype=torch.uint8)
    begin = -buffer.data_ptr() % 512 + misalignment
    return buffer[begin : begin + SIZE]


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor over the same memory in which each element shows its bytes."""
    item = tensor.element_size()
    raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    strides = *(stride * item for stride in tensor.stride()), 1
    at = int(tensor.storage_offset()) * item
    return raw.as_strided((*tensor.shape, item), strides, at)


@given(
    st.sampled_from(DTYPES),
    st.integers(0, 17),
    st.sampled_from([0, 1, 2, 8]),
    st.integers(0, 3),
)
def test_a_live_view_holds_the_bytes_that_the_view_names(
    dtype: str, misalignment: int, offset: int, block: int
) -> None:
    view = View((4, 2, 3), (7, 3, 1), dtype, offset_bytes=offset)
    tensor = live_view(allocation := memory(misalignment), view)
    bytes_of(tensor)[block] = 1
    assert (allocation == 1).equal(view_mask(view, 4, [block], SIZE))
    assert tensor.shape[:3] == view.shape


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_aligned_view_has_its_own_type(dtype: str) -> None:
    tensor = live_view(memory(), View((4, 2), (3, 1), dtype, offset_bytes=16))
    assert tensor.dtype == getattr(torch, dtype)
    assert tensor.stride() == (3, 1)


def test_a_misaligned_view_shows_the_bytes_of_each_element() -> None:
    tensor = live_view(memory(2), View((4, 2), (3, 1), "float32"))
    assert (tensor.dtype, tuple(tensor.shape)) == (torch.uint8, (4, 2, 4))


def pool_of(layout: Layout) -> Pool:
    tensors = tuple(memory(i) for i in range(layout.num_allocations))
    return Pool(layout, tensors, torch.device("cpu"))


def test_a_pool_offers_the_tensors_of_its_views() -> None:
    views = (View((4, 8), (8, 1)), View((4, 2), (2, 1), "uint8", allocation=1))
    layout = Layout(4, (Allocation(SIZE, 2),), (Run(8, 8), Run(2, 2, 0, 1)), (), views)
    pool = pool_of(layout)
    assert [tuple(t.shape) for t in pool.views] == [(4, 8), (4, 2)]
    assert [t.data_ptr() for t in pool.views] == pool.base_addresses.tolist()
    assert pool.kv_views == views
    assert [t.data_ptr() for t in pool.kv_tensors] == pool.base_addresses.tolist()


def test_a_pool_without_views_offers_plain_ones() -> None:
    layout = Layout(4, (Allocation(SIZE),), (Run(8, 16), Run(4, 16, 8)))
    pool = pool_of(layout)
    assert pool.views == ()
    assert pool.kv_views == views_of_runs(layout)
    assert [tuple(t.shape) for t in pool.kv_tensors] == [(4, 8), (4, 4)]
