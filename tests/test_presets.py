"""Presets: equal to a slow expansion of their own data, at any number of blocks."""

import json
from importlib.resources import files
from itertools import product, zip_longest
from time import perf_counter
from typing import Any

import pytest

from kvzero.errors import LayoutError
from kvzero.layout import Layout
from kvzero.presets import FOLDER, load_preset, preset, preset_names

RECORDS: dict[str, dict[str, Any]] = {  # Any: parsed JSON
    file.name.removesuffix(".json"): json.loads(file.read_text(encoding="utf-8"))
    for file in files("kvzero").joinpath(FOLDER).iterdir()
}
FEW = (1, 3, 5, 7)
Row = tuple[int, int, int, int]


def at(quantity: int | list[int], num_blocks: int) -> int:
    if isinstance(quantity, int):
        return quantity
    return quantity[0] + quantity[1] * num_blocks


def rows_of_run(run: dict[str, Any], num_blocks: int) -> list[Row]:  # Any: JSON
    rows = []
    axes = run.get("axes", [])
    for index in product(*(range(axis["count"]) for axis in axes)):
        where, offset = (
            run.get("allocation", 0),
            at(run.get("offset_bytes", 0), num_blocks),
        )
        for i, axis in zip(index, axes):
            where += i * axis.get("step_allocations", 0)
            offset += i * at(axis.get("step_bytes", 0), num_blocks)
        page = run["page_bytes"]
        rows.append((where, offset, run.get("stride_bytes", page), page))
    return rows


def expand(record: dict[str, Any], num_blocks: int) -> list[Row]:  # Any: JSON
    parts = [rows_of_run(run, num_blocks) for run in record["runs"]]
    if any(run.get("interleaved") for run in record["runs"]):
        rows = [row for turn in zip_longest(*parts) for row in turn if row is not None]
    else:
        rows = [row for part in parts for row in part]
    if not record.get("widest_per_address"):
        return rows
    kept: dict[tuple[int, int], Row] = {}
    for where, offset, stride, page in rows:
        known = kept.get((where, offset), (where, offset, stride, 0))
        kept[where, offset] = (where, offset, stride, max(known[3], page))
    return list(kept.values())


def rows_of(layout: Layout) -> list[Row]:
    return list(zip(*(column.tolist() for column in layout.table)))


def test_there_are_25_presets_and_each_is_a_file_of_its_name() -> None:
    assert len(RECORDS) >= 25
    assert list(preset_names()) == sorted(RECORDS)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_expands_as_its_data_say(name: str) -> None:
    facts = load_preset(name)
    for num_blocks in (*FEW, facts.num_blocks):
        layout = preset(name, num_blocks)
        assert layout.num_blocks == num_blocks
        assert rows_of(layout) == expand(RECORDS[name], num_blocks)
        assert len(layout.table) == facts.num_segments


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_leaves_no_allocation_unused(name: str) -> None:
    layout = preset(name, 3)
    assert set(layout.table.allocation.tolist()) == set(range(layout.num_allocations))
    last = layout.table.offset_bytes + 2 * layout.table.stride_bytes
    end = last + layout.table.page_bytes
    assert (end <= layout.allocation_sizes[layout.table.allocation]).all()


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_says_what_it_is(name: str) -> None:
    facts = load_preset(name)
    assert facts.name == name
    assert facts.description.endswith(".")
    assert facts.sources
    assert facts.family
    assert facts.order
    assert facts.dtype
    assert facts.hardware
    assert facts.tokens_per_block >= 1
    assert 1 <= facts.largest_list == max(1, int(max(facts.list_sizes.values())))


def test_the_default_size_is_the_full_one() -> None:
    assert preset("trtllm_llama3_8b_pool").num_blocks == 13_000


def test_the_overflowing_launch_is_there() -> None:
    facts = load_preset("vllm_pr52058_dsv4_181seg_9344_292")
    assert facts.largest_list == 6870
    pages = facts.layout(1).table.page_bytes
    assert pages.tolist() == [4 * 9344, 4 * 292] * 90 + [4 * 9344]


def test_all_presets_are_built_at_full_size_quickly() -> None:
    start = perf_counter()
    for name in preset_names():
        preset(name)
    assert perf_counter() - start < 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vllm_llama3_8b", ", the closest is vllm_llama3_8b_tp1_bf16$"),
        ("", "preset='', but must be one of ascend_deepseek_v3_mla_kv_tuple, lhbnc"),
        ("gpt-oss", ", the closest is vllm_gptoss_120b_two_groups$"),
    ],
)
def test_an_unknown_preset_is_told_the_known_ones(name: str, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        preset(name)


@pytest.mark.parametrize("num_blocks", [0, -1, 2**41, True])
def test_a_preset_has_at_least_one_block(num_blocks: int) -> None:
    with pytest.raises(LayoutError, match=r"num_blocks=.*, but must be an int from 1"):
        preset("trtllm_llama3_8b_pool", num_blocks)
