"""The check of an exported script, against the harness's own oracle."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.case import Call, Case, IdRun
from kvzero.layout import Allocation, Layout, Run, Tile
from kvzero.limits import LaunchShape
from kvzero.memory import place
from kvzero.oracle import must_be_zero
from kvzero.report.standalone import memory as memory_module
from kvzero.report.standalone import plain_case
from kvzero.report.standalone.launches import launch_text
from kvzero.report.standalone.memory import Memory
from kvzero.report.standalone.plain_case import PlainCase
from kvzero.report.standalone.run import block_ids
from kvzero.strategies import block_lists, layouts


def memory_of(case: Case) -> Memory:
    """Return a script's memory of a case, filled."""
    table, addresses = case.layout.table, place(case)
    padding = [
        (1, 0, 0, [(tile.allocation, tile.origin_bytes, tile.stride_bytes, tile.count)])
        for tile in case.layout.tiles
        if case.padding_may_be_touched
    ]
    rows = list(zip(*(column.tolist() for column in table)))
    plain = PlainCase(
        broken="",
        num_blocks=case.layout.num_blocks,
        allocation_bytes=case.layout.allocation_sizes.tolist(),
        allocation_offsets=addresses.base_bytes.tolist(),
        guard_bytes=addresses.guard_bytes,
        arena_bytes=addresses.total_bytes,
        segments=[(1, 0, 0, rows)],
        calls=[plain_case.Call(call.expand()) for call in case.calls],
        padding=padding,
        views=[],
    )
    memory = Memory(plain, torch.device("cpu"))
    memory.fill()
    return memory


def zero_as_the_oracle_says(memory: Memory, case: Case, call: int) -> None:
    pages = must_be_zero(case, call, place(case).base_bytes)
    for begin, end in zip(pages.starts.tolist(), pages.ends.tolist()):
        memory.arena[begin:end] = 0


@settings(max_examples=25, deadline=None)  # real memory
@given(data=st.data(), layout=layouts(max_bytes=2**12))
def test_memory_finds_nothing_wrong_where_the_oracle_does_not(
    data: st.DataObject, layout: Layout
) -> None:
    lists = [
        data.draw(block_lists(num_blocks=layout.num_blocks), "ids") for _ in range(2)
    ]
    case = Case(layout, tuple(Call(ids) for ids in lists))
    memory = memory_of(case)
    for index, call in enumerate(memory.case.calls):
        zero_as_the_oracle_says(memory, case, index)
        assert memory.wrong(call) == (0, [])


PACKED = Case(
    Layout(2, (Allocation(32),), (Run(8, 16), Run(8, 16, 8))), (Call((IdRun(1),)),)
)


@given(byte=st.integers(-4096, 32 + 4095))
def test_memory_finds_any_single_wrong_byte(byte: int) -> None:
    memory = memory_of(PACKED)
    zero_as_the_oracle_says(memory, PACKED, 0)
    at = int(memory.offsets[0]) + byte
    memory.arena[at] = 0 if memory.arena[at] else 1
    count, texts = memory.wrong(memory.case.calls[0])
    assert count == 1
    assert texts[0].startswith(f"allocation 0, byte {byte:,} ")
    assert texts[0].endswith("0x00" if 16 <= byte < 32 else "must stay untouched")


def test_memory_tells_missed_bytes_from_touched_ones_beside_them() -> None:
    memory = memory_of(PACKED)
    memory.pool.tensors[0][8:16] = 0
    count, texts = memory.wrong(memory.case.calls[0])
    assert count == 24
    assert [text.split("0x")[-1] for text in texts] == [
        "00, but must stay untouched",
        "00",
    ]


@pytest.mark.parametrize("piece_bytes", [1000, 1001, 4096 + 17, 4096 + 24])
def test_memory_finds_the_same_in_pieces_of_any_size(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(memory_module, "PIECE_BYTES", piece_bytes)
    memory = memory_of(PACKED)
    zero_as_the_oracle_says(memory, PACKED, 0)
    assert memory.wrong(memory.case.calls[0]) == (0, [])
    memory.pool.tensors[0][31] = 7
    assert memory.wrong(memory.case.calls[0])[0] == 1


def test_memory_holds_no_zero_byte_but_nans() -> None:
    layout = Layout(1, (Allocation(2**20),), (Run(2**20, 2**20),))
    memory = memory_of(Case(layout, ()))
    tensor = memory.pool.tensors[0]
    assert bool((tensor != 0).all())
    assert bool(tensor.view(torch.float32).isnan().any())


def test_memory_lets_padding_be_zeroed_only_where_the_case_does() -> None:
    layout = Layout(2, (Allocation(32),), (Run(8, 16),), (Tile(16, 2),))
    for may_be, wrong in ((True, 0), (False, 8)):
        case = Case(layout, (Call((IdRun(1),)),), padding_may_be_touched=may_be)
        memory = memory_of(case)
        memory.pool.tensors[0][16:32] = 0
        assert memory.wrong(memory.case.calls[0])[0] == wrong


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ((32768, 256, 256), "on NVIDIA it is skipped, with no error"),
        ((2**31, 1, 1), "on AMD it is rejected"),
        ((8, 1, 1), "on NVIDIA it runs"),
    ],
)
def test_launch_text_says_what_becomes_of_a_launch(
    grid: tuple[int, int, int], words: str
) -> None:
    assert words in launch_text("zero", LaunchShape(grid))


def test_block_ids_arrive_as_the_call_says() -> None:
    cpu = torch.device("cpu")
    assert block_ids(plain_case.Call([1, 2]), cpu) == [1, 2]
    assert block_ids(plain_case.Call([1], dtype="bool"), cpu) == [True]
    array = block_ids(plain_case.Call([5, 6], "array", "int16", 1, 2), cpu)
    assert isinstance(array, np.ndarray)
    assert (array.dtype, array.tolist(), array.strides) == (np.int16, [5, 6], (4,))
    tensor = block_ids(plain_case.Call([5, 6], "tensor", "int32", 3, 1), cpu)
    assert (tensor.dtype, tensor.tolist()) == (torch.int32, [5, 6])
    assert tensor.storage_offset() == 3
