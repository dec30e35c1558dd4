"""Torch operations on drawn views against torch itself, on real memory."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint import torch_writes
from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.torch_writes import (
    _in_range,
    _picked_shape,
    stretches_of,
)
from tests.executors.footprint.test_torch_writes import SIZE, Torch

DTYPES = (
    torch.uint8,
    torch.int8,
    torch.bool,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.float32,
    torch.int64,
    torch.float64,
    torch.complex64,
)
KINDS = ("zero", "fill", "copy", "masked", "index", "row", "list")
Work = Callable[[torch.Tensor], object]
Index = slice | torch.Tensor


@dataclass
class Geometry:
    """A strided view whose elements never share a byte.

    Attributes:
        dtype: Of its elements.
        offset: First element.
        shape: Before it is sliced and permuted.
        slices: One a dimension.
        order: Of its dimensions.
    """

    dtype: torch.dtype
    offset: int
    shape: list[int]
    slices: list[slice]
    order: list[int]

    def of(self, memory: torch.Tensor) -> torch.Tensor:
        whole = memory.view(self.dtype)[self.offset :]
        block = whole[: int(np.prod(self.shape))].view(self.shape)
        return block[tuple(self.slices)].permute(self.order)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Views of up to three dimensions; shrink to one byte."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(1, 4), max_size=3))
    left = SIZE // dtype.itemsize - int(np.prod(shape))
    begins = [draw(st.integers(0, n - 1)) for n in shape]
    ends = [draw(st.integers(begin, n)) for begin, n in zip(begins, shape)]
    slices = [
        slice(begin, end, draw(st.integers(1, 2))) for begin, end in zip(begins, ends)
    ]
    order = draw(st.permutations(range(len(shape))))
    return Geometry(dtype, draw(st.integers(0, left)), shape, slices, order)


@st.composite
def works(draw: st.DrawFn, name: str, view: torch.Tensor) -> Work:
    """Operations of one kind that write a view, where they can; else it is zeroed."""
    value = draw(st.sampled_from((0, 1, 2, -0.0)))
    if name == "zero" or (name in ("row", "list") and not view.dim()):
        return lambda t: t.zero_()
    if name == "fill":
        return lambda t: t.fill_(value)
    numbers = st.integers(0, 3)
    if name in ("copy", "masked"):
        sizes = [draw(st.sampled_from((1, n))) for n in view.shape]
        count = int(np.prod(sizes))
        drawn = draw(st.lists(numbers, min_size=count, max_size=count))
        source = torch.tensor(drawn, dtype=draw(st.sampled_from(DTYPES[:-1])))
        source = source.view(sizes)
        if name == "copy":
            return lambda t: t.copy_(source)
        return lambda t: t.masked_fill_(source.bool(), value)
    dims = max(view.dim(), 1)
    dim = draw(st.integers(-dims, dims - 1))
    size = view.shape[dim] if view.dim() else 1
    if not size:
        return lambda t: t.zero_()
    ids = draw(st.lists(st.integers(0, size - 1), max_size=4))
    if name == "index":
        return lambda t: t.index_fill_(dim, torch.tensor(ids, dtype=torch.int64), value)
    if name == "row":
        at = draw(st.integers(-size, size - 1))
        return lambda t: t.select(dim, at).fill_(value)
    listed = torch.tensor([draw(st.sampled_from((i, i - size))) for i in ids]).long()
    before: list[Index] = [slice(None)] * (dim % dims)
    return lambda t: t.__setitem__((*before, listed), value)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_torch_writes_the_bytes_that_it_writes_on_real_memory(
    name: str, data: st.DataObject
) -> None:
    here = Torch()
    geometry = data.draw(geometries(), "view")
    for kind in (name, *data.draw(st.lists(st.sampled_from(KINDS), max_size=1))):
        work = data.draw(works(kind, geometry.of(here.real)), "operation")
        work(geometry.of(here.real))
        with here.watched() as watch:
            work(geometry.of(here.bench.memory))
        assert watch.touched == []
    assert here.bytes_written() == bytes(here.real.numpy())
    for result in here.results:
        # A set of bytes: ascending, and no two stretches touch.
        assert (result.zero.starts < result.zero.ends).all()
        assert (result.zero.ends[:-1] < result.zero.starts[1:]).all()


@given(pieces=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=5))
def test_zeros_of_several_operations_are_one_set(pieces: list[tuple[int, int]]) -> None:
    here = Torch()
    with here.watched():
        for begin, size in pieces:
            here.bench.memory[begin : begin + size].zero_()
    covered = {begin + i for begin, size in pieces for i in range(size)}
    zeros = [*here.bench.zeros()]
    assert {at for begin, end in zeros for at in range(begin, end)} == covered
    for result in here.results:
        assert (result.zero.ends[:-1] < result.zero.starts[1:]).all()
    again = sum(result.again_bytes for result in here.results)
    assert again == sum(size for _, size in pieces) - len(covered)


@settings(max_examples=40)
@given(geometry=geometries(), spared=st.integers(-1, 1))
def test_more_elements_than_the_most_are_not_judged(
    geometry: Geometry, spared: int
) -> None:
    here = Torch()
    count = geometry.of(here.real).numel()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_writes, "MAX_WRITE_ELEMENTS", count + spared)
        with here.watched() as watch:
            geometry.of(here.bench.memory).fill_(1)
    assert bool(watch.touched) == (spared < 0)


@settings(max_examples=40)
@given(geometry=geometries(), read=st.sampled_from([torch.clone, torch.sum, torch.neg]))
def test_what_torch_reads_is_named_and_returned(geometry: Geometry, read: Work) -> None:
    here = Torch()
    if geometry.dtype == torch.bool:
        read = torch.clone
    view = geometry.of(here.bench.memory)
    with here.watched() as watch:
        found = read(view)
    theirs = read(geometry.of(here.real))
    assert isinstance(found, torch.Tensor)
    assert isinstance(theirs, torch.Tensor)
    assert len(watch.touched) == 1
    assert (found.shape, found.dtype) == (theirs.shape, theirs.dtype)
    memory = here.bench.memory
    assert found.untyped_storage().data_ptr() != memory.untyped_storage().data_ptr()


@st.composite
def indices(draw: st.DrawFn, view: torch.Tensor) -> tuple[Index, ...]:
    """What stands in brackets: lists that broadcast, masks and slices; few are wrong.

    Shrinks to slices.
    """
    found: list[Index] = []
    shapes = draw(st.sampled_from((((3,), (1,)), ((2, 1), (2,), (2, 2)), ((0,),))))
    # Where nothing is left to be written, torch does not look at the numbers.
    wrong = draw(st.sampled_from((0, 0, 0, 0, 0, 1))) if view.numel() else 0
    while len(found) < 4 and (left := view.shape[sum(map(covered, found)) :]):
        kind = draw(st.sampled_from(("slice", "list", "mask", "wide mask", "end")))
        if kind == "end":
            break
        if kind == "slice":
            found.append(slice(None))
        elif kind == "list":
            shape = draw(st.sampled_from(shapes))
            count = int(np.prod(shape)) if left[0] + wrong else 0
            ids = st.integers(-left[0] - wrong, max(left[0] + wrong, 1) - 1)
            drawn = draw(st.lists(ids, min_size=count, max_size=count))
            if wrong and count:
                drawn[0] = draw(st.sampled_from((left[0], -left[0] - 1)))
            shape = shape if count else (0,)
            found.append(torch.tensor(drawn, dtype=torch.int64).view(shape))
        else:
            sizes = [*left[: 1 if kind == "mask" else 2]]
            sizes[-1] += wrong
            count = int(np.prod(sizes))
            bits = draw(st.lists(st.booleans(), min_size=count, max_size=count))
            found.append(torch.tensor(bits, dtype=torch.bool).view(sizes))
    return tuple(found) or (slice(None),) * bool(view.dim())


def covered(index: Index) -> int:
    """Return how many dimensions an index stands for."""
    is_mask = isinstance(index, torch.Tensor) and index.dtype == torch.bool
    return index.dim() if is_mask else 1  # type: ignore[union-attr]  # a tensor then


@settings(max_examples=70)
@given(data=st.data())
def test_brackets_write_what_torch_writes_on_real_memory(data: st.DataObject) -> None:
    here = Torch()
    geometry = data.draw(geometries(), "view")
    real, watched = (geometry.of(m) for m in (here.real, here.bench.memory))
    where = data.draw(indices(real), "indices")
    try:
        picked = torch.arange(real.numel()).view(real.shape)[where]
    except (IndexError, RuntimeError) as theirs:
        with pytest.raises(type(theirs)), here.watched():
            watched[where] = 0
        return
    sizes = [data.draw(st.sampled_from((1, n)), "size") for n in picked.shape]
    count = int(np.prod(sizes))
    numbers = st.lists(st.integers(0, 2), min_size=count, max_size=count)
    drawn = torch.tensor(data.draw(numbers, "values")).view(sizes).to(real.dtype)
    each = [*zip(picked.reshape(-1).tolist(), drawn.expand(picked.shape).reshape(-1))]
    values = {at: value.item() for at, value in each}
    if any(values[at] != value.item() for at, value in each):
        with pytest.raises(NotJudgedError, match="several values"), here.watched():
            watched[where] = drawn
        return
    real[where] = drawn
    with here.watched() as watch:
        watched[where] = drawn
    assert watch.touched == []
    assert here.bytes_written() == bytes(here.real.numpy())
    again = sum(result.again_bytes for result in here.results)
    assert again == real.element_size() * (len(each) - len(values))


@given(data=st.data())
def test_what_brackets_pick_has_the_shape_that_torch_gives_it(
    data: st.DataObject,
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4), "shape")
    view = torch.zeros(sizes)
    where = data.draw(indices(view), "indices")
    try:
        theirs = view[where].shape
    except (IndexError, RuntimeError):
        return
    picking = [None if isinstance(each, slice) else each for each in where]
    assert _picked_shape(view, _in_range(view, picking)) == [*theirs]


@settings(max_examples=30)
@given(geometry=geometries(), spared=st.integers(-1, 1))
def test_stretches_of_a_view_are_few_and_no_more_than_the_most(
    geometry: Geometry, spared: int
) -> None:
    view = geometry.of(Torch().bench.memory)
    write = stretches_of(view)
    assert write.count == len(write.starts) <= view.numel()
    assert write.count * write.length_bytes == view.numel() * view.element_size()
    assert write.count == 1 or not view.is_contiguous() or not view.numel()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_writes, "MAX_WRITE_STRETCHES", write.count + spared)
        if spared < 0:
            with pytest.raises(NotJudgedError, match="stretches in one torch"):
                stretches_of(view)
        else:
            assert (stretches_of(view).starts == write.starts).all()


Part = tuple[int, int, int]


@settings(max_examples=40)
@given(
    works=st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(0, 2))),
        max_size=3,
    ),
    cap=st.sampled_from((None, 1, 3)),
)
def test_writes_are_settled_in_their_order(
    works: list[list[Part]], cap: int | None
) -> None:
    here = Torch(cap=cap)
    left = 10**6 if cap is None else cap
    again = 0
    for work in works:
        with here.watched() as watch:
            for begin, size, value in work:
                here.bench.memory[begin : begin + size].fill_(value)
        done = []
        for part in work:
            # Every element other than zero, and every stretch of zeros, counts one.
            left -= part[1] if part[2] else bool(part[1])
            done += [part] if left >= 0 else []
        assert len(watch.touched) == len(work) - len(done)
        for begin, size, value in done:
            here.real[begin : begin + size].fill_(value)
        for value, parts in groupby(done, lambda part: part[2]):
            where = [at for b, size, _ in parts for at in range(b, b + size)]
            again += len(where) - len({*where}) if not value else 0
    assert here.bytes_written() == bytes(here.real.numpy())
    assert sum(result.again_bytes for result in here.results) == again


@settings(max_examples=20)
@given(size=st.integers(1, 4), more=st.integers(0, 2), beyond=st.sampled_from((0, 1)))
def test_index_counts_from_either_end_and_no_further(
    size: int, more: int, beyond: int
) -> None:
    view = torch.zeros(size, 2)
    inside = torch.arange(more) % size
    for last in (size - 1 + beyond, -size - beyond):
        index = torch.cat([inside, torch.tensor([last])])
        if beyond:
            with pytest.raises(IndexError, match=f"index {last} is out of bounds"):
                _in_range(view, [index])
        else:
            (found,) = _in_range(view, [index]).values()
            assert found.tolist() == [at % size for at in index.tolist()]
