"""Triage: one entry a failure, the smallest case, counted, ranked, flaky or not."""

from pathlib import Path
from typing import Any

import pytest

from kvzero.campaign.campaign import ranked
from kvzero.campaign.findings import Entry, Findings
from kvzero.casefile import read_case_file
from kvzero.errors import EnvironmentMissingError

from .test_folder import an_entry


def findings(tmp_path: Path, kept: list[Entry] | None = None) -> Findings:
    written = [] if kept is None else kept
    return Findings(tmp_path, written.append)


def files(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("*.json"))


def test_equal_failures_are_one_finding_with_the_smallest_case(tmp_path: Path) -> None:
    found = findings(tmp_path)
    assert found.see(an_entry(blocks=1000))
    assert not found.see(an_entry(blocks=7))
    assert not found.see(an_entry(blocks=300))
    assert found.see(an_entry("other"))
    first, _ = found
    assert first.judged.case.layout.num_blocks == 7


def test_a_finding_is_saved_at_once_and_has_one_file(tmp_path: Path) -> None:
    kept: list[Entry] = []
    found = findings(tmp_path, kept)
    found.see(an_entry(blocks=1000))
    (first,) = files(tmp_path)
    found.see(an_entry(blocks=7))
    (second,) = files(tmp_path)
    assert first != second
    assert read_case_file(second).case.layout.num_blocks == 7
    assert len(kept) == 2


def test_what_does_not_fail_a_campaign_is_kept_but_not_saved(tmp_path: Path) -> None:
    found = findings(tmp_path)
    found.see(an_entry(fails=False))
    assert files(tmp_path) == []
    assert found.claim() is None
    assert found.failures == []


def test_one_shrinks_a_finding(tmp_path: Path) -> None:
    found = findings(tmp_path)
    found.see(an_entry(blocks=50))
    entry = found.claim()
    assert entry is not None
    assert found.claim() is None
    found.unclaim(entry)
    assert found.claim() is entry
    found.settle(entry, an_entry(blocks=2, flaky=True))
    assert (entry.state, entry.flaky) == ("settled", True)
    assert entry.judged.case.layout.num_blocks == 2


def test_a_shrunk_case_is_not_replaced_by_one_that_was_met_once(tmp_path: Path) -> None:
    found = findings(tmp_path)
    found.see(an_entry(blocks=50))
    entry = found.claim()
    assert entry is not None
    found.settle(entry, an_entry(blocks=40))
    found.see(an_entry(blocks=2))
    assert entry.judged.case.layout.num_blocks == 40


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"flaky": True, "count": 9}),
        ({"count": 5}, {"count": 2}),
    ],
)
def test_what_repeats_and_is_frequent_ranks_first(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    better, worse = an_entry(**first), an_entry(**second)
    assert ranked([worse, better]) == [better, worse]


def test_a_finding_that_cannot_be_saved_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "unlisted_bytes_are_untouched").write_text("in the way")
    with pytest.raises(EnvironmentMissingError, match="but must be writable"):
        findings(tmp_path).see(an_entry())


def test_a_finding_of_the_run_before_is_saved_again(tmp_path: Path) -> None:
    found = findings(tmp_path)
    found.restore(an_entry(), None)
    assert len(files(tmp_path)) == 1
    assert not found.see(an_entry())
