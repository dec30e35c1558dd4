"""The map as a reader sees it: exact, narrow, with what went wrong in its place."""

from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from kvzero.case import Call, Case, IdRun
from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Observation,
    Queued,
    Replayed,
    Writer,
    WrongBytes,
)
from kvzero.presets import load_preset, preset_names
from kvzero.report.anatomy import tiles
from kvzero.report.anatomy_text import allocation_lines
from kvzero.report.memory_map import case_map, layout_map
from kvzero.strategies import cases

PACKED = Layout(2, (Allocation(32),), (Run(8, 16), Run(8, 16, 8)))


def observed(missed: WrongBytes, touched: WrongBytes) -> Observation:
    call = CallObservation(missed=missed, touched=touched)
    return Observation("fake", "footprint", "TTIR", "nowhere", (call,))


def one_call(layout: Layout, block: int) -> Case:
    return Case(layout, (Call((IdRun(block),)),))


def test_case_map_of_a_failure_reads_at_a_glance() -> None:
    writer = Writer((0, 0, 0), "kernel.py:7")
    seen = observed(
        WrongBytes(8, (ByteSpan(0, 24, 8, b"\xd0\x75"),)),
        WrongBytes(8, (ByteSpan(0, 8, 8, b"\0\0", writer),)),
    )
    expected = """\
        2 segments, 2 blocks, 1 allocation, 32 B
        guards of 4,096 B around each allocation; bytes past a 512 B boundary: 0

        calls
          1   zero((1,)), as a list

        wrong bytes
          call 1 missed 8 bytes
            bytes 24 to 31 of allocation 0: block 1 in segment 1, bytes 0 to 7
              now d0 75
          call 1 touched 8 bytes
            bytes 8 to 15 of allocation 0: block 0 in segment 1, bytes 0 to 7
              now 00 00
              stored by program (0, 0, 0) at kernel.py:7

        allocation 0: 32 B
          byte 0: 2 blocks, one every 16 B; in each
              +0                      8 B  A  segment 0
              +8                      8 B  B  segment 1

        allocation 0; 1 column = 1 B
          byte      -8      0       8       16      24      32
          block             |0              |1
          segment   ::::::::AaaaaaaaBbbbbbbbAaaaaaaaBbbbbbbb::::::::
          call 1                            ================
          missed 1                                  !!!!!!!!
          touched 1                 XXXXXXXX

        legend
          Aaa  a page, by its segment's letter; upper case where it begins
          |7   block 7 from here on
          :    guard, outside the allocation
          =    pages of listed blocks: must be zero after the call
          !    missed: listed, but not zero after the call
          X    touched: not listed, but stored or changed"""
    assert case_map(one_call(PACKED, 1), seen) == dedent(expected).split("\n")


@pytest.mark.parametrize("name", preset_names())
def test_layout_map_of_a_preset_fits_80_columns_and_two_screens(name: str) -> None:
    lines = layout_map(load_preset(name).layout())
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 60


@pytest.mark.slow
@settings(max_examples=50, deadline=None)  # a large case takes its time
@given(case=cases())
def test_case_map_of_any_case_fits_80_columns(case: Case) -> None:
    lines = case_map(case)
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 120


def test_layout_map_collapses_181_segments() -> None:
    text = "\n".join(layout_map(load_preset(preset_names_with("181seg")).layout()))
    assert "90 times, every 39,168 B from +0:" in text
    assert "A  segments 0, 2, ... 178" in text


def test_layout_map_collapses_65536_segments() -> None:
    layout = load_preset(preset_names_with("65536")).layout()
    text = "\n".join(layout_map(layout))
    assert "1,024 times, every 157,286,400 B and 64 segments, from byte 0:" in text
    assert "64 times, every 16,384 B from +0:" in text


def preset_names_with(part: str) -> str:
    return next(name for name in preset_names() if part in name)


def test_layout_map_tells_equal_allocations_once() -> None:
    layout = Layout(2, (Allocation(32, 9),), (Run(16, 16, axes=(Axis(9, 0, 1),)),))
    lines = layout_map(layout)
    assert "allocations 0 to 8: 9 alike, 32 B each; the first:" in lines
    assert sum(line.startswith("allocation 0; 1 column") for line in lines) == 1


def test_case_map_of_a_large_pool_shows_where_in_it_bytes_are_wrong() -> None:
    layout = Layout(10**6, (Allocation(4096 * 10**6),), (Run(4096, 4096),))
    seen = observed(WrongBytes(4, (ByteSpan(0, 4096 * 999_999 + 8, 4),)), WrongBytes())
    lines = case_map(one_call(layout, 999_999), seen)
    whole = lines[
        lines.index("allocation 0, whole; 1 column = 64,000,000 B (61.04 MiB)") :
    ]
    assert whole[4] == "  missed 1 " + " " * 64 + "!"
    assert "around the first bytes missed in call 1; 1 column = 1 B" in "\n".join(whole)


def test_case_map_says_whose_bytes_lie_outside_the_case() -> None:
    seen = observed(WrongBytes(), WrongBytes(4, (ByteSpan(None, 0x7000, 4),)))
    text = "\n".join(case_map(one_call(PACKED, 0), seen))
    assert "addresses 0x7000 to 0x7003, outside the case" in text


def test_case_map_counts_wrong_bytes_beyond_the_first_stretches() -> None:
    seen = observed(WrongBytes(100, (ByteSpan(0, 24, 8),)), WrongBytes())
    assert "  ... and 92 more bytes" in case_map(one_call(PACKED, 1), seen)


def test_case_map_says_what_padding_may_be() -> None:
    layout = Layout(2, (Allocation(32),), (Run(8, 16),), (Tile(16, 2),))
    case = Case(layout, (), padding_may_be_touched=True)
    text = "\n".join(case_map(case))
    assert "padding may be zeroed too" in text
    assert ".  padding of the block's tile" in text


@pytest.mark.parametrize(
    "layout",
    [
        Layout(0, (Allocation(8),), (Run(8, 8),)),
        Layout(3, (Allocation(8),), ()),
        Layout(0, (), ()),
    ],
)
def test_layout_map_of_next_to_nothing_is_short(layout: Layout) -> None:
    assert 1 <= len(layout_map(layout)) < 16


@pytest.mark.parametrize(
    ("blocks", "runs"),
    [
        (2, (Run(4, 16), Run(4, 24, 8))),  # two strides
        (3, (Run(4, 8), Run(4, 8, 12))),  # block 0 of one lies after block 1 of another
    ],
)
def test_layout_map_lists_segments_that_share_no_block(
    blocks: int, runs: tuple[Run, ...]
) -> None:
    lines = layout_map(Layout(blocks, (Allocation(64),), runs))
    at = lines.index(f"  byte 0: {blocks} blocks of 2 segments that mix:")
    stride, offset = runs[1].stride_bytes, runs[1].offset_bytes
    assert lines[at + 2] == (
        f"      B  segment 1: 4 B at byte {offset}, every {stride} B"
    )


def test_case_map_shows_what_queued_calls_left_wrong() -> None:
    seen = Observation(
        "fake",
        "device",
        "machine",
        "cuda:90",
        (CallObservation(), CallObservation()),
        queued=Queued(missed=WrongBytes(8, (ByteSpan(0, 8, 8),))),
    )
    case = Case(PACKED, (Call((IdRun(0),)), Call((IdRun(1),))))
    lines = case_map(case, seen)
    assert "  calls queued missed 8 bytes" in lines
    assert any(line.startswith("  call 2    ") and "=" in line for line in lines)
    assert any(line.startswith("  missed    ") and "!" in line for line in lines)


def test_case_map_shows_the_ids_of_a_graph_that_was_replayed() -> None:
    seen = Observation(
        "fake",
        "device",
        "machine",
        "cuda:90",
        (CallObservation(),),
        replayed=Replayed(0, (1, 7), touched=WrongBytes(8, (ByteSpan(0, 8, 8),))),
    )
    lines = case_map(one_call(PACKED, 0), seen)
    assert "  graph replayed touched 8 bytes" in lines
    (listed,) = [line for line in lines if line.startswith("  replay ")]
    assert listed.count("=") == 16
    assert not any(line.startswith("  call 1    ") for line in lines)


def test_the_tiles_of_an_allocation_are_looked_at_once_for_all_regions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    axes, asked = (Axis(100, 64),), list[Any]()
    runs = (Run(4, 16, axes=(Axis(2, 8), *axes)),)
    layout = Layout(4, (Allocation(6_400),), runs, (Tile(16, 4, axes=axes),))

    def counted_tiles(*which: Any) -> list[tuple[int, int]]:
        asked.append(which)
        return tiles(*which)

    monkeypatch.setattr("kvzero.report.anatomy.tiles", counted_tiles)
    lines = allocation_lines(layout, np.arange(1))
    assert len(asked) == 1
    assert lines[1] == "  100 times, every 64 B and 1 segment, from byte 0:"
    assert lines[-1].endswith(".  padding of the block's tile")
