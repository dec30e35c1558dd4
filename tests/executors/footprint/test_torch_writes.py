"""What torch writes, held against torch on real memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvzero.executors.footprint import torch_writes
from kvzero.executors.footprint.arena import arena
from kvzero.executors.footprint.evaluate import LaunchResult
from kvzero.executors.footprint.frame import Allowance, NotJudgedError
from kvzero.executors.footprint.torch_stores import TorchStores
from kvzero.executors.footprint.watch import ArenaWatch
from kvzero.poison import poison_at
from tests.executors.footprint.bench import Bench, one_page_case

SIZE = 512
VIEW = slice(32, 32 + 4 * 3 * 32)
DTYPES = (torch.uint8, torch.int16, torch.float32)
Work = Callable[[torch.Tensor], object]

INDEXED: dict[str, Work] = {
    "zero_": lambda t: t.zero_(),
    "fill_": lambda t: t.fill_(3),
    "fill_ with a tensor": lambda t: t.fill_(torch.tensor(2)),
    "minus zero": lambda t: t[1].fill_(-0.0),
    "copy_": lambda t: t.copy_(torch.arange(t.shape[-1])),
    "copy_ of zeros": lambda t: t.copy_(torch.zeros(3, 1)),
    "a row": lambda t: t.__setitem__(2, 0),
    "a slice": lambda t: t.__setitem__((slice(1, 3), 1), 5),
    "an element": lambda t: t.__setitem__((3, 2, 7), 9),
    "a list": lambda t: t.__setitem__([3, 1, 3], 0),
    "negative ids": lambda t: t.__setitem__(torch.tensor([-1, 0]), 0),
    "no ids": lambda t: t.__setitem__(torch.zeros(0, dtype=torch.int64), 0),
    "inner ids": lambda t: t.__setitem__((slice(None), torch.tensor([2, 0])), 0),
    "last ids": lambda t: t.__setitem__((..., torch.tensor([5, 2])), 4),
    "two lists": lambda t: t.__setitem__(([0, 2], [1, 2]), 0),
    "lists apart": lambda t: t.__setitem__(([0, 2], slice(None), [1, 2]), 6),
    "values": lambda t: t.__setitem__([2, 0], torch.arange(t.shape[-1]).to(t)),
    "values apart": lambda t: t.__setitem__(
        ([0, 2], slice(None), [1, 2]), torch.tensor([[1, 0, 2], [3, 4, 0]]).to(t)
    ),
    "values in front": lambda t: t.view(2, 2, 3, -1).__setitem__(
        (slice(None), [0, 1, 1], slice(None), [0, 1, 2]),
        torch.arange(18).view(3, 2, 3).to(t),
    ),
    "a mask": lambda t: t.__setitem__(torch.tensor([True, False, False, True]), 0),
    "a wide mask": lambda t: t.__setitem__(torch.eye(4, 3, dtype=torch.bool), 8),
    "index_fill_": lambda t: t.index_fill_(0, torch.tensor([1, 3, 1]), 0),
    "index_fill_ inside": lambda t: t.index_fill_(-2, torch.tensor([2]), 1),
    "index_fill_ of a tensor": lambda t: t.index_fill_(
        0, torch.tensor([0]), torch.tensor(3)
    ),
    "masked_fill_": lambda t: t.masked_fill_(torch.eye(4, 3).bool()[:, :, None], 0),
    "transposed": lambda t: t.transpose(0, 2).__setitem__([1, 4], 0),
    "foreach": lambda t: torch._foreach_zero_([t[0], t[2]]),
    "then other values": lambda t: t.zero_()[1].fill_(2),
    "then zeros": lambda t: t.fill_(3)[1].zero_(),
}

REFUSED: dict[str, Work] = {
    "id beyond": lambda t: t.__setitem__([0, 4], 0),
    "id below": lambda t: t.__setitem__(torch.tensor([-5]), 0),
    "index_fill_ beyond": lambda t: t.index_fill_(0, torch.tensor([4]), 0),
    "index_fill_ of int32": lambda t: t.index_fill_(
        0, torch.tensor([1], dtype=torch.int32), 0
    ),
    "mask of another shape": lambda t: t.__setitem__(torch.ones(3).bool(), 0),
    "values of another shape": lambda t: t.__setitem__([0, 1], torch.zeros(3)),
    "values of another type": lambda t: t.__setitem__([0, 1], torch.zeros(8).int()),
    "copy of another shape": lambda t: t.copy_(torch.zeros(2, 2)),
}

UNFOLLOWED: dict[str, tuple[Work, str]] = {
    "scaled": (lambda t: t.mul_(0), "aten::mul_.Tensor"),
    "copied within": (lambda t: t[0].copy_(t[1]), "aten::copy_"),
    "accumulated": (
        lambda t: t.index_put_(
            (torch.tensor([1]),), torch.tensor(0.0), accumulate=True
        ),
        "index_put_ that accumulates",
    ),
}


class Torch:
    """Memory that torch writes under the watch, and the same memory for real."""

    def __init__(
        self, dtype: torch.dtype = torch.uint8, cap: int | None = None
    ) -> None:
        self.bench = Bench(one_page_case(SIZE))
        self.stores = TorchStores(self.bench.shadow, Allowance(cap))
        self.results: list[LaunchResult] = []
        poison = poison_at(self.bench.case.seed, 0, np.arange(SIZE))
        self.real = torch.from_numpy(poison.astype(np.uint8).copy())
        self.watched_view, self.real_view = (
            memory[VIEW].view(dtype).view(4, 3, -1)
            for memory in (self.bench.memory, self.real)
        )

    @contextmanager
    def watched(self) -> Iterator[ArenaWatch]:
        with ArenaWatch(arena(), self.stores.note) as watch:
            yield watch
        self.results += self.stores.settle()

    def bytes_written(self) -> bytes:
        return self.bench.read(0, SIZE)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", INDEXED)
def test_followed_operation_writes_what_torch_writes(
    name: str, dtype: torch.dtype
) -> None:
    here = Torch(dtype)
    with here.watched() as watch:
        INDEXED[name](here.watched_view)
    INDEXED[name](here.real_view)
    assert watch.touched == []
    assert here.bytes_written() == bytes(here.real.numpy())
    assert not here.bench.memory.any()  # nothing was written for real


@given(data=st.data())
def test_any_pages_that_torch_zeroes_are_those(data: st.DataObject) -> None:
    here = Torch()
    page = data.draw(st.integers(1, 16), "page")
    stride = data.draw(st.integers(page, 40), "stride")
    blocks = data.draw(st.integers(1, (SIZE - page) // stride + 1), "blocks")
    ids = data.draw(st.lists(st.integers(-blocks, blocks - 1), max_size=6), "ids")
    listed = torch.tensor(ids, dtype=torch.int64)
    for each in (here.bench.memory, here.real):
        with here.watched():
            each.as_strided((blocks, page), (stride, 1))[listed] = 0
    assert here.bytes_written() == bytes(here.real.numpy())
    again = sum(result.again_bytes for result in here.results)
    assert again == page * (len(ids) - len({i % blocks for i in ids}))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_operation_is_refused_as_by_torch(name: str) -> None:
    here = Torch(torch.float32)
    with pytest.raises((IndexError, RuntimeError)) as theirs:
        REFUSED[name](here.real_view)
    with pytest.raises(type(theirs.value)), here.watched():
        REFUSED[name](here.watched_view)
    assert here.stores.settle() == []


@pytest.mark.parametrize("name", UNFOLLOWED)
def test_operation_that_cannot_be_followed_is_named(name: str) -> None:
    work, told = UNFOLLOWED[name]
    here = Torch(torch.float32)
    with here.watched() as watch:
        work(here.watched_view)
    (touched,) = watch.touched
    assert told in touched
    assert here.results == []


def test_writer_of_torchs_bytes_is_the_line_that_called_torch() -> None:
    here = Torch()
    with here.watched():
        here.watched_view[1] = 0
        here.watched_view[2].fill_(1)
    places = [store.place for result in here.results for store in result.stores]
    assert len(set(places)) == 2
    assert all(place.startswith("test_torch_writes.py:") for place in places)


def test_element_with_several_values_is_not_judged() -> None:
    here = Torch()
    with ArenaWatch(arena(), here.stores.note):
        here.watched_view[[0, 0]] = torch.tensor([[[1]], [[2]]]).byte()
    with pytest.raises(NotJudgedError, match="several values in one call at test_"):
        here.stores.settle()


def test_too_many_elements_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_writes, "MAX_WRITE_ELEMENTS", 8)
    monkeypatch.setattr(torch_writes, "MAX_WRITE_STRETCHES", 8)
    here = Torch()
    with here.watched() as watch:
        here.watched_view[0, 0].fill_(1)
        here.watched_view[..., ::2].zero_()
    told = "32 elements other than zero in one operation"
    assert watch.touched == [told, "192 stretches in one torch operation"]


def test_write_beyond_the_cap_of_a_case_is_not_judged_nor_any_after_it() -> None:
    here = Torch(cap=12)
    with here.watched() as watch:
        here.watched_view[:, 0].zero_()  # four stretches
        here.watched_view[:, ::2, ::2].zero_()  # far more than eight
        here.watched_view[:, 1].zero_()
    assert len(watch.touched) == 2
    assert "more stretches than the cap of 12 programs" in watch.touched[0]
    assert sum(len(store.flat()[0]) for r in here.results for store in r.stores) == 4
