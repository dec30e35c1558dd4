"""What docs/reports.md says, held against the code."""

import re
from pathlib import Path

from kvzero.cli.reporting import DEFAULT_FOLDER, FORMS
from kvzero.report.files import FILES
from kvzero.report.junit import VERDICT

PAGE = (Path(__file__).parent.parent / "docs" / "reports.md").read_text("utf-8")


def test_reports_page_lists_every_form_with_its_file() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    assert tuple(rows) == FORMS
    for form, (name, _) in FILES.items():
        assert f"`{name}`" in rows[form]


def test_reports_page_names_what_the_code_names() -> None:
    assert f"`--report-dir` is `{DEFAULT_FOLDER}`" in PAGE
    assert f"`{VERDICT}`" in PAGE
