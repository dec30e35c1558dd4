"""`assert_zeroes` on live tensors: right functions pass, wrong ones are located."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvzero.assertions import Zeroed, assert_zeroes
from kvzero.errors import BlockIdError, LayoutError, PropertyFailure
from kvzero.executors.device import device_available
from kvzero.layout import Layout
from kvzero.memory import Pool
from kvzero.strategies.views import view_layouts

gpu = pytest.mark.skipif(not device_available(), reason="torch finds no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, gpu])]

Zero = Callable[[Any], object]


def filled(*shape: int, device: str = "cpu") -> torch.Tensor:
    """Return a tensor of ones, which no zeroer may leave in a listed block."""
    return torch.ones(shape, device=device)


def by_index_fill(tensors: Sequence[torch.Tensor], dim: int = 0) -> Zero:
    """Return a right function, the plainest there is."""

    def zero(ids: Any) -> None:
        for tensor in tensors:
            index = torch.as_tensor(ids, dtype=torch.int64, device=tensor.device)
            tensor.index_fill_(dim, index, 0)

    return zero


def nothing(ids: Any) -> None:
    """Do what no zeroer may: nothing."""
    del ids


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# Families of layouts: a name, the block dimension, and how the tensors are made.
FAMILIES: dict[str, tuple[int, int, Callable[[str], list[torch.Tensor]]]] = {
    "one tensor a layer": (0, 1, lambda d: [filled(6, 4, 3, device=d) for _ in "ab"]),
    "planes outermost": (1, 1, lambda d: [filled(2, 6, 4, 3, device=d)]),
    "heads outside blocks": (
        0,
        1,
        lambda d: [filled(2, 6, 4, device=d).transpose(0, 1)],
    ),
    "layers inside blocks": (0, 1, lambda d: list(filled(6, 3, 5, device=d).unbind(1))),
    "padded blocks": (0, 1, lambda d: [filled(6, 16, device=d)[:, :12]]),
    "part of a storage": (0, 1, lambda d: [filled(100, device=d)[8:56].view(6, 8)]),
    "kernel blocks": (0, 2, lambda d: [filled(6, 8, device=d)]),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_function_passes_on_every_family(family: str, device: str) -> None:
    dim, ratio, make = FAMILIES[family]
    tensors = make(device)
    before = [tensor.clone() for tensor in tensors]

    def zero(ids: list[int]) -> None:
        blocks = [block * ratio + k for block in ids for k in range(ratio)]
        by_index_fill(tensors, dim)(blocks)

    result = assert_zeroes(
        zero, tensors, ids=[2, 0], block_dim=dim, kernel_blocks_per_block=ratio
    )
    assert result.blocks == 2
    assert result.zero_bytes == sum(t.numel() for t in tensors) * 4 * 2 * ratio // 6
    listed = [block * ratio + k for block in (2, 0) for k in range(ratio)]
    for tensor, old in zip(tensors, before):
        index = torch.tensor(listed, device=device)
        assert tensor.equal(old.index_fill(dim, index, 0))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_function_that_misses_a_block_is_caught(family: str, device: str) -> None:
    dim, ratio, make = FAMILIES[family]
    tensors = make(device)
    before = [tensor.clone() for tensor in tensors]
    with pytest.raises(PropertyFailure, match="listed_pages_are_zero: block"):
        assert_zeroes(
            nothing,
            tensors,
            ids=[1],
            block_dim=dim,
            kernel_blocks_per_block=ratio,
        )
    assert all(map(torch.equal, tensors, before))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_function_that_zeroes_more_is_caught(family: str, device: str) -> None:
    dim, ratio, make = FAMILIES[family]
    tensors = make(device)
    blocks = tensors[0].shape[dim]
    with pytest.raises(PropertyFailure, match="unlisted_bytes_are_untouched: block"):
        assert_zeroes(
            lambda _: by_index_fill(tensors, dim)(range(blocks)),
            tensors,
            ids=[1],
            block_dim=dim,
            kernel_blocks_per_block=ratio,
        )
    assert all(tensor.min() == 1 for tensor in tensors)


@settings(deadline=None, max_examples=60)
@given(layout=view_layouts(), data=st.data())
def test_drawn_views_are_judged_byte_for_byte(
    layout: Layout, data: st.DataObject
) -> None:
    # sanity check: one wrong byte is one wrong byte, wherever it is
    assume(layout.num_blocks and sum(layout.allocation_sizes) < 2**16)
    memory = [
        torch.full((int(n),), 7, dtype=torch.uint8) for n in layout.allocation_sizes
    ]
    pool = Pool(layout, tuple(memory), torch.device("cpu"))
    block = data.draw(st.integers(0, layout.num_blocks - 1), label="block")
    slips = st.none() | st.integers(0, len(memory[0]) - 1)
    slip = data.draw(slips, label="slip")

    def zero(ids: list[int]) -> None:
        table = layout.table
        for index in range(len(table)):
            where, offset, stride, page = table.segment(index)
            for block_id in ids:
                memory[where][offset + block_id * stride :][:page] = 0
        if slip is not None:
            memory[0][slip] ^= 0xFF

    def check() -> Zeroed:
        view = layout.views[0]
        return assert_zeroes(
            zero,
            pool.views,
            ids=[block],
            block_dim=view.block_dim,
            kernel_blocks_per_block=view.kernel_blocks_per_block,
        )

    if slip is None:
        result = check()
        assert result.zero_bytes + result.untouched_bytes == sum(map(len, memory))
        zeros = sum(int((tensor == 0).sum()) for tensor in memory)
        assert zeros == result.zero_bytes
    else:
        with pytest.raises(PropertyFailure, match="1 of 1 wrong bytes"):
            check()
        assert all((tensor == 7).all() for tensor in memory)


PLANES = {
    "K": torch.ones(4, 32, dtype=torch.uint8),
    "V": torch.ones(4, 64, dtype=torch.uint8)[:, :48],
}


def short_pages(ids: list[int]) -> None:
    for tensor in PLANES.values():
        tensor[ids, :-1] = 0
    PLANES["V"][1, 3] = 0


def test_a_failure_is_told_whole() -> None:
    with pytest.raises(PropertyFailure) as caught:
        assert_zeroes(short_pages, [(PLANES["K"], PLANES["V"])], ids=[2])
    text = str(caught.value).replace(torch.__version__, "VERSION")
    assert text.splitlines() == [
        "listed_pages_are_zero: block 2, byte 31 = 0xec, but should be 0x00 "
        "[call 1 of 1: zero((2,))]",
        "  where    segment 0 of 2 (page 32 B, stride 32 B), first 2 of 2 wrong bytes: "
        "31, 47 of block 2",
        "  case     2 segments, 4 blocks, ids (2,)",
        "  tensor   tensors[0][0]",
        "unlisted_bytes_are_untouched: block 1, byte 3 = 0x00, but should be 0x8a "
        "[call 1 of 1: zero((2,))]",
        "  where    segment 1 of 2 (page 48 B, stride 64 B), first 1 of 1 wrong bytes: "
        "3",
        "  case     2 segments, 4 blocks, ids (2,)",
        "  tensor   tensors[0][1]",
        "  ran      short_pages on cpu, torch VERSION",
        "  guards   at least 0 B before and 0 B after the pages in 2 storages; memory "
        "beyond a storage was not looked at",
        "  again    kvzero.assert_zeroes(short_pages, tensors, block_dim=0, ids=[2])",
    ]


def test_padding_is_a_guard_unless_it_may_be_touched() -> None:
    whole = torch.ones(4, 64, dtype=torch.uint8)

    def with_padding(ids: list[int]) -> None:
        whole[ids] = 0

    with pytest.raises(PropertyFailure, match="first 3 of 16 wrong bytes"):
        assert_zeroes(with_padding, [whole[:, :48]], ids=[3])
    result = assert_zeroes(
        with_padding, [whole[:, :48]], ids=[3], padding_may_be_touched=True
    )
    assert (result.zero_bytes, result.untouched_bytes) == (48, 192)


def test_room_around_the_pages_is_a_guard() -> None:
    buffer = torch.ones(100, dtype=torch.uint8)
    cache = buffer[10:90].view(8, 10)
    result = assert_zeroes(by_index_fill([cache]), [cache], ids=[7, 0, 7])
    assert result == Zeroed(2, 1, 20, 80, ((10, 10),))
    assert str(result) == (
        "20 bytes of 2 blocks zero, 80 bytes untouched; guards: 10 B before and 10 B "
        "after the pages in 1 storage; memory beyond a storage was not looked at"
    )

    def past_the_end(_: list[int]) -> None:
        buffer[80:91] = 0

    with pytest.raises(
        PropertyFailure, match="allocation 0 outside every page, byte 90"
    ):
        assert_zeroes(past_the_end, [cache], ids=[7])


def test_without_restoring_the_memory_stays_as_it_was_left() -> None:
    cache = torch.ones(4, 64, dtype=torch.uint8)
    assert_zeroes(by_index_fill([cache]), [cache], ids=[1], restore=False)
    assert int((cache == 1).sum()) < 10
    assert not cache[1].any()


def test_an_error_of_the_function_passes_and_the_memory_is_put_back() -> None:
    cache = torch.ones(4, 8)

    def fails(ids: list[int]) -> None:
        cache[ids] = 0
        raise ZeroDivisionError("own")

    with pytest.raises(ZeroDivisionError, match="own"):
        assert_zeroes(fails, [cache], ids=[1])
    assert (cache == 1).all()


def test_the_function_is_called_once_with_the_ids_themselves() -> None:
    cache, seen = torch.ones(4, 8), []

    def zero(ids: object) -> None:
        seen.append(ids)
        by_index_fill([cache])(ids)

    ids = np.array([3, 1], np.uint8)
    assert_zeroes(zero, [cache], ids=ids)
    assert len(seen) == 1
    assert seen[0] is ids


def test_no_ids_mean_no_change() -> None:
    cache = torch.ones(4, 8)
    assert assert_zeroes(nothing, [cache], ids=[]).untouched_bytes == 128
    with pytest.raises(PropertyFailure, match="unlisted_bytes"):
        assert_zeroes(lambda _: cache.zero_(), [cache], ids=[])


def test_a_zeroer_by_multiplication_is_caught() -> None:
    cache = torch.ones(4, 64)

    def multiply(ids: list[int]) -> None:
        cache[ids] *= 0

    with pytest.raises(PropertyFailure, match="listed_pages_are_zero"):
        assert_zeroes(multiply, [cache], ids=[0, 1, 2, 3])


@pytest.mark.parametrize(
    ("tensors", "arguments", "error", "message"),
    [
        (filled(4, 8), {}, LayoutError, "tensors is one tensor, but must be a seq"),
        ([3], {}, LayoutError, r"tensors\[0\] is of type int, but must be a tensor"),
        ([], {}, LayoutError, r"tensors=\[\], but must hold one"),
        ([filled(4, 8)], {"block_dim": 2}, LayoutError, "block_dim of tensors"),
        (
            [filled(4, 8)],
            {"kernel_blocks_per_block": 3},
            LayoutError,
            r"tensors\[0\].shape\[0\]=4, but must be num_blocks \* kernel",
        ),
        ([filled(4, 8).to("meta")], {}, LayoutError, "has no memory"),
        (
            [filled(4, 8)],
            {"ids": [4]},
            BlockIdError,
            r"block_ids\[0\]=4, but must be in range\(num_blocks=4\)",
        ),
        ([filled(4, 8)], {"ids": [True]}, BlockIdError, "must be an int: a bool"),
        ([filled(4, 8)], {"ids": 3}, BlockIdError, "but must be a list"),
    ],
)
def test_what_is_no_cache_or_no_block_id_is_refused(
    tensors: Any, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    called: list[object] = []
    with pytest.raises(error, match=message):
        assert_zeroes(called.append, tensors, **{"ids": [0], **arguments})
    assert called == []


def test_overlaid_tensors_of_one_address_count_the_widest() -> None:
    storage = torch.ones(4, 16, dtype=torch.uint8)
    views = [storage[:, :4], storage]
    for order in permutations(views):
        assert_zeroes(by_index_fill([storage]), order, ids=[2])
        with pytest.raises(PropertyFailure, match="first 3 of 12 wrong bytes"):
            assert_zeroes(by_index_fill([storage[:, :4]]), order, ids=[2])


SOMEONES_TEST = """
import torch
import kvzero.assertions

CACHE = [torch.rand(2, 8, 16, 4, dtype=torch.float32) for _ in range(3)]


def right(ids):
    for layer in CACHE:
        layer[:, ids] = 0


def forgets_values(ids):
    for layer in CACHE:
        layer[0, ids] = 0


def test_right():
    print(kvzero.assertions.assert_zeroes(right, CACHE, block_dim=1, ids=[7, 2]))
    assert not CACHE[0][:, [2, 7]].any() and CACHE[0][:, [0, 1, 3]].all()


def test_forgets_values():
    kvzero.assertions.assert_zeroes(forgets_values, CACHE, block_dim=1, ids=[7, 2])
"""


@pytest.mark.slow
def test_a_test_file_outside_the_project_uses_it(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SOMEONES_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rP"]
    ran = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "1 failed, 1 passed" in ran.stdout
    assert "listed_pages_are_zero: block 2, byte 0 = 0x" in ran.stdout
    assert "again    kvzero.assert_zeroes(forgets_values, tensors, block_dim=1" in (
        ran.stdout
    )
    assert "of 2 blocks zero" in ran.stdout


@gpu
@pytest.mark.gpu
def test_ids_on_the_device_outside_the_cache_must_write_nothing() -> None:
    cache = torch.ones(4, 8, device="cuda")

    def zero(ids: torch.Tensor) -> None:
        inside = ids[(ids >= 0) & (ids < 4)]
        cache.index_fill_(0, inside, 0)

    ids = torch.tensor([1, -1, 9], device="cuda")
    assert assert_zeroes(zero, [cache], ids=ids).blocks == 1


@gpu
@pytest.mark.gpu
def test_work_on_another_stream_is_waited_for() -> None:
    cache, side = torch.ones(64, 2**16, device="cuda"), torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own

    def zero(ids: list[int]) -> None:
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # type: ignore[no-untyped-call]  # torch's own
            by_index_fill([cache])(ids)

    assert_zeroes(zero, [cache], ids=list(range(0, 64, 3)))


@gpu
@pytest.mark.gpu
def test_tensors_of_two_devices_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"lies on cpu and .* on cuda:0"):
        assert_zeroes(print, [filled(4, 8), filled(4, 8, device="cuda")], ids=[0])
