"""Captured layouts: the same segments again, in few runs, in a file that verifies."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from kvzero.capture import (
    MAX_VIEWS,
    capture_layout,
    capture_segments,
    case_of,
    read_segment_table,
)
from kvzero.casefile import read_case_file
from kvzero.cli.capture import capture
from kvzero.errors import CaseError, KvzeroError, LayoutError
from kvzero.layout import (
    Allocation,
    Axis,
    Layout,
    Run,
    SegmentTable,
    expand_runs,
    widest_per_address,
)
from kvzero.presets import preset, preset_names
from kvzero.run_search import runs_of_table
from kvzero.strategies.layouts import layouts
from kvzero.views import Tensors

Rows = list[tuple[int, ...]]


def rows_of(table: SegmentTable) -> Rows:
    return list(zip(*(column.tolist() for column in table)))


def table_of(rows: Rows) -> SegmentTable:
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    return SegmentTable(*columns)


small = st.integers(0, 3)
any_rows = st.lists(st.tuples(small, small, st.integers(1, 2), st.integers(1, 2)))
small_axes = st.builds(Axis, st.integers(1, 4), st.integers(-1, 9), st.integers(0, 2))


@st.composite
def regular_rows(draw: st.DrawFn) -> Rows:
    """Draw what runs expand to, with a row changed here and there."""
    runs = draw(
        st.lists(
            st.builds(
                Run,
                st.integers(1, 3),
                st.just(9),
                st.integers(20, 40),
                st.integers(0, 2),
                st.lists(small_axes, max_size=3).map(tuple),
                st.booleans(),
            ),
            max_size=4,
        )
    )
    rows: Rows = rows_of(expand_runs(tuple(runs)))
    changed = draw(st.booleans(), label="one row changed")
    if rows and changed:
        at = draw(st.integers(0, len(rows) - 1))
        rows[at] = (*rows[at][:3], rows[at][3] + 1)
    return rows


@given(any_rows | regular_rows())
@example([(0, i // 2 + 7 * (i % 2), 9, 1 + i % 2) for i in range(7)])
@example([(0, 10 * (i // 3) + i % 3, 9, 1) for i in range(10)])
@example([(2, 0, 9, 1), (1, 0, 9, 1), (0, 0, 9, 1)])
def test_found_runs_expand_to_exactly_the_table(rows: Rows) -> None:
    assert rows_of(expand_runs(runs_of_table(table_of(rows)))) == rows


@given(layouts())
def test_a_drawn_layout_comes_back_whole(layout: Layout) -> None:
    if len(layout.table) < 10_000:
        assert rows_of(expand_runs(runs_of_table(layout.table))) == rows_of(
            layout.table
        )


@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.integers(1, 4))
def test_one_run_is_found_again(counts: list[int], width: int) -> None:
    step, axes = width, list[Axis]()
    for count in reversed(counts):
        axes.insert(0, Axis(count, step))
        step *= count + 3
    run = Run(width, step, 7, 0, tuple(axes))
    assert runs_of_table(expand_runs((run,))) == (run,)


def test_alternating_segments_become_two_interleaved_runs() -> None:
    rows: Rows = [
        (0, (i // 2) * 38_544 + (i % 2) * 37_376, 1_000_000, (37_376, 1_168)[i % 2])
        for i in range(181)
    ]
    first, second = runs_of_table(table_of(rows))
    assert (first.segments, first.interleaved) == (91, False)
    assert (second.segments, second.interleaved) == (90, True)


def test_65536_segments_become_one_run() -> None:
    run = Run(512, 2**30, 0, 0, (Axis(128, 2**20), Axis(512, 1024)))
    assert runs_of_table(expand_runs((run,))) == (run,)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_needs_no_more_runs_than_its_author(name: str) -> None:
    layout = preset(name, 5)
    found = runs_of_table(layout.table)
    assert rows_of(expand_runs(found)) == rows_of(layout.table)
    if not layout.widest_per_address:
        assert len(found) <= len(layout.runs)


@pytest.mark.parametrize("name", preset_names())
def test_a_table_of_addresses_is_the_preset_again(name: str) -> None:
    layout = preset(name, 5)
    bases = 2**40 + np.arange(layout.num_allocations) * 2**36
    table = layout.table
    segments = np.stack(
        [bases[table.allocation] + table.offset_bytes, *table[2:]], axis=1
    )
    ranges = list(zip(bases.tolist(), layout.allocation_sizes.tolist()))
    captured = capture_segments(segments, 5, ranges)
    first_use = list(dict.fromkeys(table.allocation.tolist()))
    assert captured.addresses[: len(first_use)].tolist() == bases[first_use].tolist()
    again = captured.layout.table
    addresses = captured.addresses[again.allocation] + again.offset_bytes
    assert addresses.tolist() == segments[:, 0].tolist()
    assert [c.tolist() for c in again[2:]] == [c.tolist() for c in table[2:]]


def test_segments_without_allocations_lie_in_one_that_spans_them() -> None:
    layout, addresses = capture_segments([(4128, 64, 32), (4096, 64, 16)], 4)
    assert addresses.tolist() == [4096]
    assert layout.allocations == (Allocation(32 + 3 * 64 + 32),)
    assert rows_of(layout.table) == [(0, 32, 64, 32), (0, 0, 64, 16)]


def test_tensors_are_captured_with_their_views(tmp_path: Path) -> None:
    keys, values = torch.zeros(2, 8, 16, dtype=torch.float16)
    wide = torch.zeros(8, 64)
    path = tmp_path / "live.json"
    tensors: Tensors = [(keys, values), wide]
    case = capture_layout(tensors, path)
    assert read_case_file(path).case == case
    again = Layout.from_tensors(tensors)
    assert rows_of(case.layout.table) == rows_of(again.table)
    assert case.layout.views == again.views
    assert len(case.layout.runs) == 2
    assert [list(call.expand()) for call in case.calls] == [
        [1],
        [7],
        [7, 6, 5, 4, 3, 2, 1, 0],
    ]
    shifts = {wide.data_ptr() % 512, keys.untyped_storage().data_ptr() % 512}
    assert set(case.placement.misalignments_bytes) == shifts


def test_many_views_are_left_out(tmp_path: Path) -> None:
    cache = torch.zeros(4, MAX_VIEWS + 1, 2, dtype=torch.uint8)
    case = capture_layout(cache.unbind(1), tmp_path / "many.json")
    assert not case.layout.views
    assert len(case.layout.runs) == 1
    assert (tmp_path / "many.json").stat().st_size < 1000


@pytest.mark.parametrize("num_blocks", [0, 1, 2, 1000])
def test_the_calls_list_blocks_of_the_cache(num_blocks: int) -> None:
    case = case_of(capture_segments([(4096, 64, 32)], num_blocks))
    for call in case.calls:
        assert not call.must_be_refused(num_blocks)
        assert len(call.blocks(num_blocks)) == call.num_ids
    assert len(case.calls) == (3 if num_blocks else 0)


TABLE = {"num_blocks": 4, "segments": [[4096, 64, 32], [8192, 64, 16]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([], "the table is a list of 0, but must be a JSON object"),
        ({"num_blocks": None}, "num_blocks=null, but must be an int"),
        ({"num_blocks": 1.5}, "num_blocks=1.5, but must be an int"),
        ({"num_blocks": -1}, "num_blocks=-1, but must be an int from 0"),
        ({"segment": []}, "'segment': unknown, but must be one of"),
        ({"segments": 3}, "segments=3, but must be a list of rows"),
        ({"segments": {}}, "segments=an object, but must be a list of rows"),
        ({"segments": [[1, 2]]}, r"segments\[0\]=a list of 2, but must be 3 numbers"),
        (
            {"segments": [[0, 64, 32], [True, 64, 32]]},
            r"segments\[1\].address=true, but must be an int from 0 to",
        ),
        (
            {"segments": [[0, 0, 32]]},
            r"segments\[0\].stride=0, but must be an int from",
        ),
        ({"segments": [[0, 64, "a"]]}, r"segments\[0\].page='a', but must be an int"),
        ({"segments": [[0, 64, 1e400]]}, r"segments\[0\].page=Infinity, but must be"),
        ({"segments": [[0, 16, 32]]}, "share byte"),
        (
            {"segments": [[0, 64, 32], [2**62, 64, 32]]},
            "segments span .* B: say which allocations they lie in",
        ),
        (
            {"allocations": [[4096, 256]]},
            r"segments\[1\].address=0x2000, but must lie in one of the 1 allocations",
        ),
        (
            {"allocations": [[4096, 256], [8192, 100]]},
            "segment 1: bytes 0 to 208 of allocation 1, but must lie within its 100 B",
        ),
        (
            {"allocations": [[4096, 5000], [8192, 256]]},
            r"allocations\[0\] and allocations\[1\] overlap",
        ),
    ],
)
def test_a_wrong_table_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    value = {**TABLE, **change} if isinstance(change, dict) else change
    path.write_text(json.dumps(value))
    with pytest.raises(LayoutError, match=message) as caught:
        read_segment_table(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b'{"num_blocks": 1, "num_blocks": 1}', b"[" * 10**5]
)
def test_a_file_that_is_no_table_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(content)
    with pytest.raises(KvzeroError, match=r"table\.json"):
        read_segment_table(path)
    with pytest.raises(CaseError, match="cannot be read"):
        read_segment_table(tmp_path / "none.json")


def test_segments_need_the_number_of_blocks(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="num_blocks=None, but must be given with"):
        capture_layout([(0, 64, 32)], tmp_path / "x.json")


def test_the_verb_writes_a_file_that_holds_the_table(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text(json.dumps(TABLE))
    app = typer.Typer()
    app.command()(capture)
    path = tmp_path / "live.json"
    result = CliRunner().invoke(app, [str(tmp_path / "table.json"), "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert "2 segments as 2 runs in 1 allocation, 4 blocks" in result.output
    case = read_case_file(path).case
    assert rows_of(case.layout.table) == [(0, 0, 64, 32), (0, 4096, 64, 16)]
    assert widest_per_address(case.layout.table)
