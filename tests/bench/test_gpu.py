"""On a real GPU: memset, graphs, events, and a whole small run."""

import pytest
import torch

from kvzero.bench.cards import Gpu
from kvzero.bench.contenders import TimedCall
from kvzero.bench.records import EMPTY, MEMSET
from kvzero.bench.running import Bench, Request
from tests.bench.made import ORIGIN

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_memset_clears_its_bytes_and_no_more() -> None:
    memory = torch.full((1000,), 7, dtype=torch.uint8, device="cuda")
    Gpu().yardsticks(memory, 999)[MEMSET].run()
    assert memory.tolist() == [0] * 999 + [7]


def test_what_asks_the_host_is_timed_by_events() -> None:
    card = Gpu()
    value = torch.ones(1, device=card.device)
    calls = {
        "waits": TimedCall(value.item, on_device=True),
        "host": TimedCall(value.zero_, on_device=False),
        "graph": TimedCall(value.zero_, on_device=True),
    }
    times = card.times(calls, 3)
    assert times.by_events == {"waits", "host"}
    assert min(times.us.values()) > 0


def test_subjects_are_verified_and_timed_in_one_run() -> None:
    names = ["kvzero", "masked-3d", "flat-1d", "index-fill", "torch-loop"]
    request = Request(names, ["vllm_gemma4_26b_a4b_unified_pages"], (1, 16), quick=True)
    report = Bench(request, ORIGIN, Gpu()).run()
    timed = {(r.subject, r.n_blocks) for r in report.records if r.time_us}
    assert timed == {(n, size) for n in (*names, MEMSET, EMPTY) for size in (1, 16)}
    assert not [note for note in report.notes if "WRONG" in note.text]
