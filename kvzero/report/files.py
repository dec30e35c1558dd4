"""The files of a report: each written whole or not at all."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from kvzero.errors import ReportError
from kvzero.report.facts import Report
from kvzero.report.html.page import html_page
from kvzero.report.junit import junit_xml
from kvzero.whole_files import write_whole


def json_text(report: Report) -> str:
    """Return a report as one JSON document: what ``--json`` says, and where it ran."""
    whole = {
        "verb": report.verb,
        "command": report.command,
        "exit_code": report.exit_code,
        "finished": report.finished,
        "machine": dict(report.machine),
        "results": list(report.documents),
    }
    return json.dumps(whole, indent=1) + "\n"


FILES: dict[str, tuple[str, Callable[[Report], str]]] = {
    "html": ("report.html", html_page),
    "junit": ("junit.xml", junit_xml),
    "json": ("report.json", json_text),
}
"""Name and writer of each form that is a file."""


def write_files(report: Report, forms: Iterable[str], folder: Path) -> list[Path]:
    """Write a report in some of its forms; return the files.

    Args:
        report: The report.
        forms: Which of `FILES`; others are no files.
        folder: Where; it is made if need be.

    Raises:
        ReportError: A file cannot be written.
    """
    written = []
    for form in forms:
        if form in FILES:
            name, text_of = FILES[form]
            write_text(folder / name, text_of(report))
            written.append(folder / name)
    return written


def write_text(path: Path, text: str) -> None:
    """Write a file, all of it or nothing, over any file of that name.

    Raises:
        ReportError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ReportError(f"{path} cannot be written: {error.strerror}") from error
