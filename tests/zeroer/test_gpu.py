"""What only a GPU shows: streams, staging, graphs, the current device, no waiting."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch

from kvzero.errors import BlockIdError, CaptureError
from kvzero.zeroer import KVBlockZeroer, homes
from kvzero.zeroer.kernels import zero_chunks
from kvzero.zeroer.staging import PAGE_IDS, CudaLane

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

NUM_BLOCKS = 64
STRIDE = 12_345
PAGES = [(3, 1), (10, 4096), (4200, 8100)]
"""Offset and size of each page in a block: odd ones, with gaps between them."""
POISON = 0xA5
HOLD_CYCLES = 200_000_000
"""About 0.1 s of the GPU: ages, against the microseconds of a call."""


class Cache:
    """Poisoned blocks on a GPU, and their zeroer."""

    def __init__(self, device: str = "cuda:0") -> None:
        self.memory = torch.full(
            (NUM_BLOCKS, STRIDE), POISON, dtype=torch.uint8, device=device
        )
        base = self.memory.data_ptr()
        self.zeroer = KVBlockZeroer.from_segments(
            [base + offset for offset, _ in PAGES],
            [STRIDE] * len(PAGES),
            [page for _, page in PAGES],
            NUM_BLOCKS,
            device,
        )

    def poison(self) -> None:
        self.memory.fill_(POISON)

    def holds(self, block_ids: list[int]) -> bool:
        """Return whether just the pages of these blocks are zero."""
        expected = torch.full((NUM_BLOCKS, STRIDE), POISON, dtype=torch.uint8)
        for offset, page in PAGES:
            expected[sorted(set(block_ids)), offset : offset + page] = 0
        return torch.equal(self.memory.cpu(), expected)


@pytest.fixture
def cache() -> Cache:
    made = Cache()
    made.zeroer.warmup()
    return made


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """Let a test make every wait for the device an error, and end that after it."""
    yield
    torch.cuda.set_sync_debug_mode("default")


def hold_stream() -> None:
    """Keep the current stream busy."""
    torch.cuda._sleep(HOLD_CYCLES)  # type: ignore[no-untyped-call]  # torch's own gap


def side_stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own gap


IDS = [5, 0, 63, 5, 31]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def on_device(ids: list[int], dtype: str = "int64") -> torch.Tensor:
    return torch.from_numpy(np.array(ids, dtype)).to("cuda:0")


def test_warmup_writes_nothing(cache: Cache) -> None:
    assert cache.holds([])


@pytest.mark.parametrize("ids", [[], [0], IDS, list(range(NUM_BLOCKS))])
def test_listed_pages_are_zero_and_no_other_byte(cache: Cache, ids: list[int]) -> None:
    cache.zeroer.zero(ids)
    assert cache.holds(ids)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("offset", "step"), [(0, 1), (1, 1), (0, 2), (3, 3)])
def test_device_ids_of_any_dtype_stride_and_alignment_are_taken(
    cache: Cache, dtype: str, offset: int, step: int
) -> None:
    buffer = on_device([7] * 32, dtype)
    view = buffer[offset::step][: len(IDS)]
    view.copy_(on_device(IDS, dtype))
    cache.zeroer.zero(view)
    assert cache.holds(IDS)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint64"])
def test_device_ids_outside_the_cache_write_nothing(cache: Cache, dtype: str) -> None:
    info = np.iinfo(dtype)
    ids = [3, NUM_BLOCKS, int(info.max), int(info.min) if info.min else 2**63]
    cache.zeroer.zero(on_device(ids, dtype))
    assert cache.holds([3])


@pytest.mark.parametrize(
    "ids", [torch.tensor([True]), torch.tensor([1.0]), torch.zeros(1, 1).long()]
)
def test_device_tensors_that_are_no_ids_are_refused(
    cache: Cache, ids: torch.Tensor
) -> None:
    with pytest.raises(BlockIdError, match=r"^block_ids"):
        cache.zeroer.zero(ids.to("cuda:0"))
    assert cache.holds([])


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
@pytest.mark.parametrize("form", ["list", "array", "pinned", "int64", "int32"])
def test_a_call_does_not_wait_for_the_device(cache: Cache, form: str) -> None:
    ids = torch.tensor(IDS)
    there = ids.to("cuda:0")
    pinned = ids.pin_memory()
    torch.cuda.set_sync_debug_mode("error")
    forms = {"list": IDS, "array": np.array(IDS), "pinned": pinned, "int64": there}
    cache.zeroer.zero(forms.get(form, there.int()))
    torch.cuda.set_sync_debug_mode("default")
    assert cache.holds(IDS)


@pytest.mark.parametrize("form", ["array", "tensor", "pinned"])
@pytest.mark.parametrize("count", [1, 64, 5000])
def test_caller_may_change_its_ids_at_once(cache: Cache, form: str, count: int) -> None:
    ids = torch.arange(count) % 32
    if form == "pinned":
        ids = ids.pin_memory()
    hold_stream()
    cache.zeroer.zero(ids.numpy() if form == "array" else ids)
    ids.fill_(63)
    assert cache.holds(list(range(min(count, 32))))


def test_staging_memory_is_not_reused_before_it_was_copied(cache: Cache) -> None:
    hold_stream()
    for block_id in range(48):
        cache.zeroer.zero([block_id])
    assert cache.holds(list(range(48)))


def test_full_pages_of_ids_are_not_reused_before_they_were_copied(cache: Cache) -> None:
    hold_stream()
    for block_id in range(40):
        cache.zeroer.zero([block_id] * (PAGE_IDS // 8))
    torch.full((PAGE_IDS,), 63).pin_memory()  # would take the memory of a page
    assert cache.holds(list(range(40)))


@pytest.mark.parametrize("count", [PAGE_IDS, PAGE_IDS + 1])
def test_lists_of_a_page_and_more_are_taken(cache: Cache, count: int) -> None:
    cache.zeroer.zero([9] * (count - 1) + [8])
    cache.zeroer.zero([7])
    assert cache.holds([7, 8, 9])


def test_threads_of_one_stream_keep_their_ids_apart(cache: Cache) -> None:
    def zero(first: int) -> None:
        for block_id in range(first, NUM_BLOCKS, 4):
            cache.zeroer.zero([block_id] * 50)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(zero, range(4)))
    assert cache.holds(list(range(NUM_BLOCKS)))


def test_lists_on_more_streams_than_lanes_are_taken(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "MOST_LANES", 0)
    monkeypatch.setattr(homes, "MOST_STREAMS", 1)
    for block_id in (1, 2):
        stream = side_stream()
        with torch.cuda.stream(stream):
            cache.zeroer.zero([block_id])
        stream.synchronize()
    assert cache.holds([1, 2])


def test_driver_that_refuses_a_copy_leaves_it_to_torch() -> None:
    lane = CudaLane(torch.device("cuda:0"), lambda *_: 1)
    assert lane.put(np.array(IDS, np.int64).tobytes())[: len(IDS)].tolist() == IDS


def test_zeroing_runs_on_the_current_stream(cache: Cache) -> None:
    stream = side_stream()
    with torch.cuda.stream(stream):
        hold_stream()
        cache.poison()
        cache.zeroer.zero(IDS)
    stream.synchronize()
    assert cache.holds(IDS)


def test_device_ids_of_another_stream_may_be_freed_at_once(cache: Cache) -> None:
    ids, expected = on_device(IDS * 100), list(IDS)
    torch.cuda.synchronize()
    stream = side_stream()
    with torch.cuda.stream(stream):
        hold_stream()
        cache.zeroer.zero(ids)
    del ids
    on_device([9] * len(IDS) * 100)  # would take the freed memory
    stream.synchronize()
    assert cache.holds(expected)


def test_int64_ids_on_the_device_allocate_nothing(cache: Cache) -> None:
    ids = on_device(IDS + IDS)[1:9]
    allocations = "allocation.all.allocated"
    before = torch.cuda.memory_stats()[allocations]
    cache.zeroer.zero(ids)
    assert torch.cuda.memory_stats()[allocations] == before
    assert cache.holds((IDS + IDS)[1:9])


def test_warm_calls_compile_nothing(cache: Cache) -> None:
    variants = zero_chunks.device_caches[0][0]
    before = len(variants)
    for other in (cache, Cache()):
        for count in (0, 1, 2, 15, 16, 17):
            ids = list(range(count))
            other.zeroer.zero(ids)
            for dtype in INTEGERS:
                other.zeroer.zero(on_device([*ids, 0], dtype)[: len(ids)])
    assert len(variants) == before <= 2, "one for long chunks, one for short ones"


def test_graph_replays_with_new_device_ids(cache: Cache) -> None:
    ids = on_device(IDS)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cache.zeroer.zero(ids)
    assert cache.holds([])
    for block_ids in ([1, 2, 3, 4, 5], [60, 60, 60, 60, 60]):
        cache.poison()
        ids.copy_(on_device(block_ids))
        graph.replay()
        assert cache.holds(block_ids)


@pytest.mark.parametrize("form", ["list", "tensor", "int32", "strided", "warmup"])
def test_what_a_graph_cannot_hold_is_refused(cache: Cache, form: str) -> None:
    wide = on_device(IDS + IDS)
    asked: dict[str, Callable[[], None]] = {
        "list": lambda: cache.zeroer.zero(IDS),
        "tensor": lambda: cache.zeroer.zero(torch.tensor(IDS)),
        "int32": lambda: cache.zeroer.zero(wide.int()),
        "strided": lambda: cache.zeroer.zero(wide[::2]),
        "warmup": cache.zeroer.warmup,
    }
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        wide.add_(0)  # a graph without work is a warning
        with pytest.raises(CaptureError, match="must not be used in CUDA graph"):
            asked[form]()
    cache.zeroer.zero(IDS)
    assert cache.holds(IDS)


def test_cold_kernel_is_refused_in_a_graph() -> None:
    cold, ids = Cache(), on_device(IDS)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ids.add_(0)  # a graph without work is a warning
        with pytest.raises(CaptureError, match=r"call warmup\(\) before the capture"):
            cold.zeroer.zero(ids)
    assert cold.holds([])


def test_current_device_may_be_another() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one CUDA device")
    far = Cache("cuda:1")
    far.zeroer.zero(IDS)
    with pytest.raises(
        BlockIdError, match=r"^block_ids.device=cuda:0, but must be cuda:1"
    ):
        far.zeroer.zero(on_device(IDS))
    assert torch.cuda.current_device() == 0
    assert far.holds(IDS)


def test_tensors_of_a_layer_are_zeroed_whatever_is_packed_around_them() -> None:
    whole = torch.full((3, 2, 16, 100), 1.5, dtype=torch.bfloat16, device="cuda:0")
    layers = [whole[:, i, :, 10:30] for i in range(2)]
    KVBlockZeroer.from_tensors(layers).zero([2])
    assert (whole[2, :, :, 10:30] == 0).all()
    assert (whole[:2] == 1.5).all()
    assert (whole[2, 0, 0, :10] == 1.5).all()
    ends = [layer[2].data_ptr() for layer in layers]
    assert all(after > before for before, after in pairwise(ends))
