"""A campaign's folder: whole files or none, and nothing believed that is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvzero.campaign.board import Board
from kvzero.campaign.events import EventLog
from kvzero.campaign.findings import Entry
from kvzero.campaign.folder import Folder
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.settings import Settings, settings_from_json
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.errors import CaseError, EnvironmentMissingError
from kvzero.layout import Allocation, Layout, Run
from kvzero.observation import Observation
from kvzero.properties.verdict import Violation

from .conftest import SUBJECT, FakeExecutor

NAME = "unlisted_bytes_are_untouched"


def a_case(blocks: int = 4) -> Case:
    layout = Layout(blocks, (Allocation(64 * blocks),), (Run(16, 64),))
    return Case(layout, (Call((IdRun(0),)),))


def an_entry(what: str = "byte", blocks: int = 4, **changes: Any) -> Entry:
    violation = Violation(NAME, "fault", what, "is wrong", details=(("where", "x"),))
    seen = Observation("fake", "footprint", "TTIR", "nowhere")
    return Entry(violation, Judged(a_case(blocks), seen, ()), **changes)


def a_board(folder: Folder, tmp_path: Path, **settings: Any) -> Board:
    judge = Judge(SUBJECT, FakeExecutor(lambda _case: False))
    return Board(
        Settings(**settings), folder, judge, lambda *_event: None, tmp_path / "found"
    )


def test_a_case_is_one_file_however_often_it_is_added(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.add_case(a_case()) == folder.add_case(a_case())
    folder.add_case(a_case(5))
    assert [file.case for file in folder.case_files()] == sorted(
        (a_case(), a_case(5)), key=lambda case: folder.add_case(case).name
    )


def test_one_campaign_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    first, second = Folder(tmp_path), Folder(tmp_path)
    first.lock()
    with pytest.raises(EnvironmentMissingError, match="one campaign's at a time"):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_findings_travel_whole(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    entry = an_entry(seconds=1.5, worker=3, flaky=True, state="settled")
    folder.keep_entry(entry)
    (read,) = folder.entries()
    assert read.as_json() == entry.as_json()
    assert read.violation == entry.violation
    assert read.judged == entry.judged


@pytest.mark.parametrize("name", ["cases", "findings", "journal", "hypothesis"])
def test_a_link_is_no_folder_of_a_campaign(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = tmp_path / "corpus"
    inside.mkdir()
    (inside / name).symlink_to(outside)
    with pytest.raises(CaseError, match="is a symbolic link, but must be a folder"):
        Folder(inside)


def test_a_link_is_no_case_of_a_corpus(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "corpus")
    write_case_file(tmp_path / "outside.json", a_case())
    folder.case_path("inside.json").symlink_to(tmp_path / "outside.json")
    with pytest.raises(CaseError, match=r"inside\.json is a symbolic link"):
        folder.case_files()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\x80\x04", b'{"kvzero": 1}', b'{"case": {}, "kvzero": 99}', b"[1]"],
)
def test_what_is_no_case_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    folder = Folder(tmp_path)
    folder.case_path("bad.json").write_bytes(content)
    with pytest.raises(CaseError, match=r"bad\.json"):
        folder.case_files()


@pytest.mark.parametrize(
    "change",
    [
        {"violation": None},
        {"violation": {"property": "no_such", "kind": "fault"}},
        {"case": {"layout": 3}},
        {"observation": []},
        {"seconds": "soon"},
        {"worker": None},
    ],
)
def test_what_is_no_finding_is_refused_by_name(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = Folder(tmp_path)
    folder.keep_entry(an_entry())
    (path,) = (tmp_path / "findings").iterdir()
    path.write_text(json.dumps(an_entry().as_json() | change))
    with pytest.raises(CaseError, match=path.name):
        folder.entries()


def test_a_finding_has_the_name_of_what_it_holds(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.keep_entry(an_entry())
    (path,) = (tmp_path / "findings").iterdir()
    path.rename(path.with_name("other.json"))
    with pytest.raises(CaseError, match=r"other\.json, but must be named"):
        folder.entries()


@pytest.mark.parametrize(
    "replay", [["../secret.json"], ["/etc/passwd"], ["a/b.json"], [""], [3], [".."]]
)
def test_a_state_names_no_file_outside_its_corpus(
    tmp_path: Path, replay: list[object]
) -> None:
    folder = Folder(tmp_path)
    state = a_board(folder, tmp_path).as_json() | {"replay": replay}
    with pytest.raises(CaseError, match="but must name a file of the corpus"):
        a_board(folder, tmp_path).restore(state, "campaign.json")


@pytest.mark.parametrize("field", ["counts", "pace", "coverage", "workers", "seconds"])
def test_a_state_without_a_field_is_refused(tmp_path: Path, field: str) -> None:
    folder = Folder(tmp_path)
    state = a_board(folder, tmp_path).as_json() | {field: None}
    with pytest.raises(CaseError, match=r"campaign\.json: .* but must be a campaign's"):
        a_board(folder, tmp_path).restore(state, "campaign.json")


def test_a_state_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write_state(a_board(folder, tmp_path).as_json())
    path = tmp_path / "campaign.json"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CaseError, match=r"campaign\.json.*cut short"):
        folder.read_state()


@pytest.mark.parametrize(
    "change",
    [
        {"workers": 0},
        {"workers": "2"},
        {"executor": "gpu"},
        {"subject": 3},
        {"seed": 1.5},
        {"gpus": [1]},
        {"surprise": 1},
    ],
)
def test_what_are_no_settings_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(CaseError, match="settings"):
        settings_from_json(Settings().as_json() | change)


def test_settings_travel_as_plain_data() -> None:
    settings = Settings(
        "mine:ZEROER", seconds=9.0, cases=7, gpus=("0", "GPU-1"), known=({"a": "b"},)
    )
    assert settings_from_json(json.loads(json.dumps(settings.as_json()))) == settings


def test_an_event_log_goes_on_behind_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.jsonl"
    EventLog(path).write("start", 0.0, {})
    with path.open("ab") as file:
        file.write(b'{"event": "sta')
    EventLog(path).write("stop", 1.0, {"why": "x"})
    first, torn, last = path.read_text().splitlines()
    assert json.loads(first)["event"] == "start"
    assert torn == '{"event": "sta'
    assert json.loads(last)["why"] == "x"


def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissingError, match="/dev/full: No space left"):
        EventLog(Path("/dev/full")).write("start", 0.0, {})
    folder = Folder(tmp_path)
    folder.write_state({"a": 1})
    (tmp_path / "campaign.json").chmod(0o600)
    with pytest.raises(EnvironmentMissingError, match="but must be writable"):
        Folder(Path("/proc/no-such-folder"))
    assert folder.read_state() == {"a": 1}
