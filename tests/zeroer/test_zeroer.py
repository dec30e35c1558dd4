"""A zeroer is built from live tensors or plain integers, and says what it will do."""

import gc
import weakref
from collections.abc import Callable
from unittest import mock

import pytest
import torch

from kvzero.errors import LayoutError
from kvzero.limits import Grid
from kvzero.zeroer import KVBlockZeroer, plan, zeroer
from kvzero.zeroer.zeroer import _common_device


class Recorder:
    """Stands for the kernel, compiled or not, and notes what is launched."""

    function = 11
    packed_metadata = (1, 1, 0)

    def __init__(self) -> None:
        self.launches: list[tuple[Grid, tuple[object, ...]]] = []
        self.through_jit = 0

    def __getitem__(self, grid: Grid) -> Callable[..., "Recorder"]:
        def launch(*arguments: object, num_warps: int | None = None) -> "Recorder":
            self.through_jit += num_warps is not None
            self.launches.append((grid, arguments))
            return self

        return launch

    def _run(self, x: int, y: int, z: int, stream: int, *values: object) -> None:
        """Note what Triton's launcher would get."""
        assert stream == 0
        assert values[:5] == (self.function, self.packed_metadata, None, None, None)
        self.launches.append(((x, y, z), values[5:]))


def pages_of(zeroer: KVBlockZeroer) -> list[list[int]]:
    """Return address, block stride and size of pages that are a chunk each."""
    return zeroer._rows[: zeroer.num_chunks, :3].tolist()


def make(page_bytes: int = 8, num_blocks: int = 9) -> KVBlockZeroer:
    """Return a zeroer of one segment that nobody runs."""
    return KVBlockZeroer.from_segments(
        [0], [page_bytes], [page_bytes], num_blocks, "cpu"
    )


def test_tensors_give_the_pages_of_their_blocks() -> None:
    tensor = torch.zeros(3, 4, 5, dtype=torch.int16)
    zeroer = KVBlockZeroer.from_tensors([tensor])
    assert zeroer.num_blocks == 3
    assert pages_of(zeroer) == [[tensor.data_ptr(), 40, 40]]


def test_dimension_before_the_blocks_is_segments() -> None:
    tensor = torch.zeros(2, 3, 8, dtype=torch.uint8)
    zeroer = KVBlockZeroer.from_tensors([tensor], block_dim=1)
    base = tensor.data_ptr()
    assert pages_of(zeroer) == [[base, 8, 8], [base + 24, 8, 8]]


def test_padding_between_blocks_is_no_page() -> None:
    tensor = torch.zeros(3, 64, dtype=torch.uint8)[:, 3:20]
    zeroer = KVBlockZeroer.from_tensors([tensor])
    assert pages_of(zeroer) == [[tensor.data_ptr(), 64, 17]]


def test_kernel_blocks_of_a_block_are_zeroed_together() -> None:
    tensor = torch.zeros(6, 16, dtype=torch.uint8)
    zeroer = KVBlockZeroer.from_tensors([tensor], kernel_blocks_per_block=3)
    assert zeroer.num_blocks == 2
    assert pages_of(zeroer) == [[tensor.data_ptr(), 48, 48]]


def test_tuples_of_tensors_are_one_layer() -> None:
    key, value = torch.zeros(2, 16), torch.zeros(2, 32)
    zeroer = KVBlockZeroer.from_tensors([(key, value)])
    expected = [[key.data_ptr(), 64, 64], [value.data_ptr(), 128, 128]]
    assert sorted(pages_of(zeroer)) == sorted(expected)


def test_zeroer_keeps_its_tensors_alive() -> None:
    tensor = torch.zeros(3, 8)
    alive = weakref.ref(tensor)
    zeroer = KVBlockZeroer.from_tensors([tensor])
    del tensor
    gc.collect()
    assert alive() is not None
    del zeroer
    gc.collect()
    assert alive() is None


def test_tensors_on_two_devices_are_refused() -> None:
    with pytest.raises(LayoutError, match=r"^device of tensor 1=meta, but must be cpu"):
        _common_device([torch.zeros(1), torch.zeros(1, device="meta")])


def test_unknown_device_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"^device=meta, but must be a cuda device"):
        KVBlockZeroer.from_segments([0], [8], [8], 1, "meta")


@pytest.mark.parametrize("num_blocks", [-1, 1.0, True, 2**41])
def test_number_of_blocks_must_be_an_int(num_blocks: int) -> None:
    with pytest.raises(LayoutError, match=r"^num_blocks=.*, but must be an int from 0"):
        KVBlockZeroer.from_segments([0], [8], [8], num_blocks, "cpu")


def test_extra_memory_is_the_table() -> None:
    zeroer = KVBlockZeroer.from_segments([0], [8], [8], 1, "cpu")
    assert [t.data_ptr() for t in zeroer.extra_memory] == [zeroer._rows.data_ptr()]


@pytest.mark.parametrize(
    ("addresses", "page_bytes", "together"),
    [
        ([0, 4096], 1024, True),  # packed in one stride
        ([0, 2**30], 1024, False),  # far apart, small pages
        ([0, 2**30], 2**18, True),  # far apart, big pages
        ([0, *(2**30 * i for i in range(1, 99))], 2**19, True),  # one big among small
    ],
)
def test_order_of_programs_follows_the_layout(
    addresses: list[int], page_bytes: int, together: bool
) -> None:
    zeroer = KVBlockZeroer.from_segments(
        addresses,
        [2**20] * len(addresses),
        [page_bytes] * 2 + [1024] * (len(addresses) - 2),
        2,
        "cpu",
    )
    assert zeroer._rows_inside == together
    assert zeroer.plan(3)[0].rows_inside == together


def test_calls_make_exactly_the_planned_launches() -> None:
    made = KVBlockZeroer.from_segments([0, 2**30], [9000] * 2, [9000] * 2, 100, "cpu")
    recorder = Recorder()
    plan.plan_launches.cache_clear()
    with (
        mock.patch.object(zeroer, "zero_chunks", recorder),
        mock.patch.object(plan, "MOST_X", 32),
        mock.patch.object(plan, "MOST_Y", 2),
    ):
        made.zero(range(50))
        planned = made.plan(50)
    plan.plan_launches.cache_clear()
    assert [grid for grid, _ in recorder.launches] == [p.grid for p in planned]
    assert len(planned) > 1
    for (_, arguments), launch in zip(recorder.launches, planned):
        rows, ids = arguments[:2]
        assert isinstance(rows, torch.Tensor)
        assert isinstance(ids, torch.Tensor)
        here = rows.view(-1)[: made._rows.shape[1]]
        assert here.tolist() == made._rows[launch.first_row].tolist()
        assert ids[: len(launch.blocks)].tolist() == list(launch.blocks)


def test_kernel_is_looked_up_once() -> None:
    made = make()
    recorder = Recorder()
    with mock.patch.object(zeroer, "zero_chunks", recorder):
        made.warmup()
        made.zero([1])
        made.zero([])
        made.zero((1, 2))
    assert recorder.through_jit == 1
    assert [grid for grid, _ in recorder.launches] == [(1, 1, 1), (1, 1, 1), (1, 2, 1)]


def test_warmup_lists_no_block_of_the_cache() -> None:
    for segments in ([], [0]):
        made = KVBlockZeroer.from_segments(
            segments, [8] * len(segments), [8] * len(segments), 9, "cpu"
        )
        recorder = Recorder()
        with mock.patch.object(zeroer, "zero_chunks", recorder):
            made.warmup()
        ((grid, (rows, ids, num_blocks, *_)),) = recorder.launches
        assert grid == (1, 1, 1)
        assert isinstance(rows, torch.Tensor)
        assert len(rows), "the kernel reads a row before it looks at the id"
        assert isinstance(ids, torch.Tensor)
        assert ids.tolist() == [-1]
        assert num_blocks == 9


def test_ids_are_copied_before_the_call_returns() -> None:
    made = make()
    recorder, ids = Recorder(), torch.tensor([1, 2])
    with mock.patch.object(zeroer, "zero_chunks", recorder):
        made.zero(ids)
    ids.fill_(7)
    launched = recorder.launches[0][1][1]
    assert isinstance(launched, torch.Tensor)
    assert launched.tolist() == [1, 2]


def test_launches_of_many_lengths_are_not_kept_for_ever() -> None:
    made, recorder = make(num_blocks=2), Recorder()
    with (
        mock.patch.object(zeroer, "zero_chunks", recorder),
        mock.patch.object(zeroer, "MOST_PREPARED", 3),
    ):
        for count in (1, 2, 3, 4, 5, 1):
            made.zero([0] * count)
            assert len(made._prepared) <= 3
    assert [grid[1] for grid, _ in recorder.launches] == [1, 2, 3, 4, 5, 1]
