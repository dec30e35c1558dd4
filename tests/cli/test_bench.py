"""The verb `bench` without a GPU: what it prints, writes and refuses."""

import json
from pathlib import Path

import pytest

from kvzero.bench.harness_tables import HARNESS_TABLES
from kvzero.bench.records import Record, Report, report_text
from kvzero.bench.tables import TABLES
from tests.bench.made import ORIGIN
from tests.cli.conftest import Kvzero

PRESET = "vllm_gemma4_26b_a4b_unified_pages"
SMALL = ("bench", "--preset", PRESET, "--subject", "masked-3d", "--blocks", "2")
MARKS = ("harness-origin", "harness-speeds", "harness-presets", "harness-kills")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvzero.cli.bench.device_available", lambda: False)


def page_with(*names: str) -> str:
    return "".join(f"<!-- table: {name} -->\n<!-- end -->\n" for name in names)


def test_bench_prints_what_can_be_known_without_a_gpu(kvzero: Kvzero) -> None:
    done = kvzero(*SMALL)
    assert done.code == 0
    assert PRESET in done.out
    assert "masked-3d" in done.out
    assert "1,310,720" in done.out
    assert "no GPU: times not measured" in done.out


def test_bench_prints_one_record_a_row_as_json(kvzero: Kvzero) -> None:
    done = kvzero(*SMALL, "--blocks", "5", "--json")
    document = done.json
    assert document["command"].startswith("kvzero bench --preset")
    assert [row["n_blocks"] for row in document["records"]] == [2, 5]
    assert document["records"][0] == {
        "subject": "masked-3d",
        "preset": PRESET,
        "n_blocks": 2,
        "bytes": 1_310_720,
        "min_page_bytes": 131_072,
        "time_us": None,
        "ratio_to_memset": None,
        "programs": 320,
        "wasted_programs": 0,
        "host_us": document["records"][0]["host_us"],
    }


def test_bench_shows_a_file_and_puts_its_tables_into_a_page(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    rows = [Record("kvzero", PRESET, 4, 10**8, 8192, 30.0, 0.98, 7, 0, 5.0)]
    (tmp_path / "h.json").write_text(report_text(Report(ORIGIN, rows)), "utf-8")
    page = tmp_path / "page.md"
    page.write_text(page_with(*TABLES), "utf-8")
    done = kvzero("bench", "--from", "h.json", "--page", "page.md")
    assert done.code == 0
    assert "at least 0.95" in done.out
    assert f"| {PRESET} | 4 | 100,000,000 |" in page.read_text("utf-8")
    assert kvzero("bench", "--from", "h.json", "--json").json["records"]


def test_bench_without_a_record_exits_5(kvzero: Kvzero, tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text(report_text(Report(ORIGIN)), "utf-8")
    assert kvzero("bench", "--from", "h.json").code == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "nowhere"], "preset='nowhere'"),
        (["--subject", "nowhere"], "subject='nowhere'"),
        (["--plot", "x.gif"], "must end in .svg or .png"),
        (["--from", "none.json"], "no report can be read"),
        (["--max-time", "soon"], "must be a positive number"),
        (["--record", "x.json"], "--record says nothing to a run without --harness"),
        (["--harness", "--blocks", "1"], "--blocks says nothing to --harness"),
        (["--harness", "--fault", "none"], "fault='none'"),
        (["--harness", "--from", "none.json"], "must be a file that --record wrote"),
    ],
)
def test_bench_refuses_what_it_cannot_do(
    kvzero: Kvzero, arguments: list[str], said: str
) -> None:
    done = kvzero("bench", *arguments)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())


@pytest.mark.slow
def test_harness_records_are_compared_with_the_last(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    limits = ("--preset", PRESET, "--fault", "id-0-skipped", "--executor", "footprint")
    first = ("bench", "--harness", *limits, "--quick", "--record", "speed.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvzero.cli.bench.QUICK_FUZZ_SECONDS", 0.2)
        done = kvzero(*first)
    assert done.code == 0
    assert "no earlier record of this machine" in done.out
    (record,) = json.loads((tmp_path / "speed.json").read_text("utf-8"))
    assert [kill["killed"] for kill in record["kills"]] == [True]
    (tmp_path / "page.md").write_text(page_with(*MARKS), "utf-8")
    again = ("bench", "--harness", "--from", "speed.json", "--page", "page.md")
    done = kvzero(*again, "--record", "speed.json")
    assert "as before" in done.out
    assert all(table.title in done.out for table in HARNESS_TABLES)
    assert "id-0-skipped" in (tmp_path / "page.md").read_text("utf-8")
    assert len(json.loads((tmp_path / "speed.json").read_text("utf-8"))) == 2
    assert kvzero(*again, "--json").json["kills"]
