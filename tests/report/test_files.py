import json
from pathlib import Path

import pytest

from kvzero.errors import ReportError
from kvzero.report.files import FILES, write_files
from tests.report.example_reports import HOSTILE, report_of, run_of


def test_write_files_writes_what_is_asked_for_and_no_more(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    written = write_files(report_of(run_of()), ("junit", "github", "html"), folder)
    assert [path.name for path in written] == ["junit.xml", "report.html"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "junit.xml",
        "report.html",
    ]


def test_write_files_replaces_what_was_there(tmp_path: Path) -> None:
    write_files(report_of(run_of("subject-1")), FILES, tmp_path)
    write_files(report_of(run_of("subject-2")), FILES, tmp_path)
    for path in tmp_path.iterdir():
        assert "subject-1" not in path.read_text()


@pytest.mark.parametrize("text", HOSTILE)
def test_write_files_writes_any_text_as_utf_8(text: str, tmp_path: Path) -> None:
    report = report_of(run_of(text), documents=({"subject": text},))
    for path in write_files(report, FILES, tmp_path):
        path.read_bytes().decode("utf-8")
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["results"] == [{"subject": text}]


def test_write_files_names_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"file/report\.html cannot be written: "):
        write_files(report_of(), ("html",), tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
