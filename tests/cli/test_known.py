from pathlib import Path

import pytest

from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.layout import Allocation, Layout, Run

from .conftest import Kvzero

ON = ("--subject", "mask-missing", "--executor", "footprint")
SHORT = Case(Layout(2, (Allocation(256),), (Run(20, 64),)), (Call((IdRun(1),)),))
WHOLE = Case(Layout(2, (Allocation(256),), (Run(64, 64),)), (Call((IdRun(1),)),))
ENTRY = """
[[known]]
subject = "mask-missing"
property = "unlisted_bytes_are_untouched"
kind = "fault"
what = "unlisted-byte-stored"
case = "{case}.json"
reason = "https://example.org/1: stores whole chunks"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_case_file(tmp_path / "short.json", SHORT)
    write_case_file(tmp_path / "whole.json", WHOLE)
    for case in ("short", "whole"):
        text = ENTRY.format(case=case)
        (tmp_path / f"{case}.toml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("verb", ["verify", "replay"])
def test_known_finding_does_not_fail_a_run(kvzero: Kvzero, verb: str) -> None:
    outcome = kvzero(verb, "short.json", *ON, "--known", "short.toml")
    assert outcome.code == 0, outcome.err
    assert "mask-missing: no new fault found (exit code 0)" in outcome.out
    assert (
        "  known       unlisted_bytes_are_untouched, fault: unlisted-byte-stored: "
        "1 case (https://example.org/1: stores whole chunks)\n"
    ) in outcome.out
    assert kvzero(verb, "short.json", *ON).code == 1


@pytest.mark.usefixtures("folder")
def test_fuzz_counts_known_findings_and_saves_none_of_them(
    kvzero: Kvzero, folder: Path
) -> None:
    few = ("--max-examples", "25", "--seed", "3", "--json")
    outcome = kvzero("fuzz", *ON, *few, "--known", "short.toml")
    assert outcome.code == 0, outcome.err
    document = outcome.json
    assert document["cases"] == 25
    assert {found["kind"] for found in document["violations"]} <= {"cost"}
    assert document["known"][0]["state"] == "fails"
    assert document["known"][0]["n"] > 1
    assert not (folder / "regressions").exists()


@pytest.mark.usefixtures("folder")
def test_entry_that_no_longer_fails_is_an_error_of_one_line(kvzero: Kvzero) -> None:
    outcome = kvzero("verify", "whole.json", *ON, "--known", "whole.toml")
    assert outcome.code == 1
    assert "mask-missing: known finding no longer fails (exit code 1)" in outcome.out
    (line,) = [each for each in outcome.out.splitlines() if "STALE" in each]
    assert "whole.toml: known[0]: mask-missing on whole.json no longer breaks" in line


def test_file_that_cannot_be_read_is_a_usage_error(kvzero: Kvzero) -> None:
    outcome = kvzero("fuzz", *ON, "--known", "none.toml")
    assert outcome.code == 2
    assert outcome.err == (
        "kvzero: KnownFileError: none.toml cannot be read: No such file or directory\n"
    )
