"""Case files: exact both ways, strict on reading, atomic on writing."""

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvzero import casefile
from kvzero.case import ID_DTYPES, Call, Case, IdRun, Placement
from kvzero.casefile import (
    Finding,
    case_file_name,
    case_schema,
    decode_case,
    encode_case,
    read_case_file,
    render,
    write_case_file,
)
from kvzero.codec import encode
from kvzero.errors import CaseError
from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.plain_views import views_of_runs
from kvzero.presets import preset, preset_names

Json = Any  # Any: JSON of the tests

FOUND = Finding("listed_pages_are_zero", "fault", "missed", "kvzero", "footprint")


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw packed blocks in a few allocations, with or without tiles and views."""
    num_blocks = draw(st.integers(0, 5))
    runs, at = [], draw(st.integers(0, 8))
    for page in draw(st.lists(st.integers(1, 40), max_size=3)):
        count = draw(st.integers(1, 3))
        runs.append(Run(page, 999, at, 0, (Axis(count, page), Axis(2, 0, 1))))
        at += page * count + draw(st.integers(0, 3))
    stride = max(at, 1)
    interleaved = draw(st.booleans())
    all_runs = tuple(
        replace(run, stride_bytes=stride, interleaved=interleaved) for run in runs
    )
    memory = (Allocation(stride * max(num_blocks, 1)), Allocation(2**40))
    tiles = (Tile(stride, max(num_blocks, 1)),) if draw(st.booleans()) else ()
    layout = Layout(num_blocks, memory, all_runs, tiles)
    if draw(st.booleans()):
        return replace(layout, views=views_of_runs(layout))
    return layout


id_runs = st.one_of(
    st.builds(IdRun, st.integers(-(2**70), 2**70)),
    st.builds(IdRun, st.integers(0, 9), st.integers(0, 2000), st.integers(-9, 9)),
)
lists = st.lists(id_runs, max_size=4).map(tuple)
buffers = st.builds(
    Call,
    st.lists(st.builds(IdRun, st.integers(0, 9), st.integers(1, 9)), max_size=4).map(
        tuple
    ),
    st.sampled_from(["array", "tensor", "pinned", "device"]),
    st.sampled_from([*ID_DTYPES, "bool", "float64"]),
    st.integers(0, 9),
    st.integers(1, 3),
)
placements = st.builds(
    Placement,
    st.integers(0, 2**30).map(lambda n: n * 512),
    st.integers(0, 2**42),
    st.lists(st.integers(0, 511), min_size=1, max_size=3).map(tuple),
    st.booleans(),
)
cases = st.builds(
    Case,
    layouts(),
    st.lists(st.one_of(st.builds(Call, lists), buffers), max_size=3).map(tuple),
    st.sampled_from(["cuda:90", "cuda:120", "hip:gfx942", "hip:gfx1100"]),
    placements,
    st.integers(0, 2**64 - 1),
    st.booleans(),
)

CASE = Case(
    Layout(
        4,
        (Allocation(256, 2),),
        (Run(8, 64, 0, 0, (Axis(2, 0, 1),)), Run(16, 64, 32, interleaved=True)),
        tiles=(Tile(64, 4),),
    ),
    (Call((IdRun(3), IdRun(7), IdRun(0, 1024, 0))), Call((IdRun(1),), "array", "int8")),
)


def document() -> Json:
    return {"kvzero": 1, "case": encode_case(CASE), "found": encode(FOUND)}


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "x.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(CaseError) as caught:
        read_case_file(path)
    return str(caught.value)


@given(cases)
def test_a_case_survives_its_encoding(case: Case) -> None:
    text = json.dumps(encode_case(case))
    assert decode_case(json.loads(text)) == case


@given(cases)
def test_the_text_of_a_file_is_plain_json(case: Case) -> None:
    value = encode_case(case)
    text = render(value)
    assert json.loads(text) == value
    assert text.isascii()


@settings(max_examples=40)
@given(cases)
def test_the_schema_takes_what_is_written(case: Case) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(case_schema())
    validator.validate({"kvzero": 1, "case": encode_case(case), "found": encode(FOUND)})


def test_the_shipped_schema_is_the_generated_one() -> None:
    shipped = files("kvzero").joinpath("case-schema.json").read_text()
    assert shipped == json.dumps(case_schema(), indent=1) + "\n"


def test_the_schema_is_one() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(case_schema())


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases)
def test_a_case_survives_its_file(tmp_path: Path, case: Case) -> None:
    path = tmp_path / "new" / case_file_name(case, "round trip")
    write_case_file(path, case, FOUND)
    assert read_case_file(path) == casefile.CaseFile(path, case, FOUND)
    assert [entry.name for entry in path.parent.glob("*.tmp")] == []


@pytest.mark.parametrize("name", preset_names())
def test_each_preset_is_a_small_file(name: str, tmp_path: Path) -> None:
    case = Case(preset(name, 3), (Call((IdRun(2),)),))
    write_case_file(tmp_path / "x.json", case)
    assert read_case_file(tmp_path / "x.json").case == case
    assert (tmp_path / "x.json").stat().st_size < 8192


def test_a_file_reads_well(tmp_path: Path) -> None:
    write_case_file(tmp_path / "x.json", CASE, FOUND)
    assert (
        (tmp_path / "x.json").read_text()
        == """{
 "kvzero": 1,
 "case": {
  "layout": {
   "num_blocks": 4,
   "allocations": [{"size_bytes": 256, "count": 2}],
   "runs": [
    {
     "page_bytes": 8,
     "stride_bytes": 64,
     "axes": [{"count": 2, "step_allocations": 1}]
    },
    {
     "page_bytes": 16,
     "stride_bytes": 64,
     "offset_bytes": 32,
     "interleaved": true
    }
   ],
   "tiles": [{"stride_bytes": 64, "count": 4}]
  },
  "calls": [
   {"ids": [3, 7, {"start": 0, "count": 1024, "step": 0}]},
   {"ids": [1], "arrival": "array", "dtype": "int8"}
  ]
 },
 "found": {
  "property": "listed_pages_are_zero",
  "kind": "fault",
  "what": "missed",
  "subject": "kvzero",
  "executor": "footprint"
 }
}
"""
    )


def test_a_name_follows_from_the_content() -> None:
    name = case_file_name(CASE, "Short page, twice!")
    assert name == case_file_name(replace(CASE, seed=0), "short page twice")
    assert name != case_file_name(replace(CASE, seed=1), "short page twice")
    assert name == f"short-page-twice-{name[-13:-5]}.json"
    assert case_file_name(CASE, "../..").startswith("case-")
    assert len(case_file_name(CASE, "x" * 999)) < 100


def test_writing_replaces_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    write_case_file(path, CASE)
    before = path.read_text()

    def fail(*_: object) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk is full"):
        write_case_file(path, replace(CASE, seed=1))
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(CaseError, match=r"x.json: case.seed=-1, but must be an int"):
        write_case_file(path, replace(CASE, seed=-1))
    monkeypatch.setattr(casefile, "MAX_FILE_BYTES", 300)
    with pytest.raises(
        CaseError, match=r"x.json: over 300 B, but must be at most that"
    ):
        write_case_file(path, CASE)
    assert not path.exists()


def test_a_failure_keeps_its_first_printable_line() -> None:
    failure = Finding(
        "p", "fault", "w", "s", "e", failure="a\x1b[31m\tb\nc" + "d" * 3000
    )
    assert encode(failure)["failure"] == "a?[31m?b"
