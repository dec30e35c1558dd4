"""After a test has failed: its case is saved, once a fault, and pictured in the report.

A failure of kvzero's knows what was found. Any other failure of a ``@given`` test is
looked through for the case that was drawn: Hypothesis runs the smallest one last, so
the failing frame of the test holds it.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

import pytest

from kvzero.pytest_plugin.settings import path_of, text_of

if TYPE_CHECKING:
    from kvzero.campaign.tally import Found
    from kvzero.case import Case

MOST_PICTURES = 3
"""Faults of one test that are pictured."""
MAP_TITLE = "kvzero memory map"
CASE_TITLE = "kvzero case"
NOT_JUDGED_TITLE = "kvzero: not judged"
NOT_JUDGED = pytest.StashKey[Counter[str]]()
"""Why cases of the test that runs did not count, and how many."""
_STARTED = pytest.StashKey[float]()


def begin(config: pytest.Config) -> None:
    """Forget the test before."""
    config.stash[NOT_JUDGED] = Counter()


def explain(
    item: pytest.Item,
    excinfo: pytest.ExceptionInfo[BaseException],
    report: pytest.TestReport,
) -> None:
    """Save and picture the cases of a failure.

    Args:
        item: The test.
        excinfo: What it raised.
        report: Gets the pictures, and the explanation with the command to replay.
    """
    if "kvzero.case" not in sys.modules:
        return  # without cases, nothing failed on one
    for error in list(_leaves(excinfo.value))[:MOST_PICTURES]:
        found = getattr(error, "found", None)
        if found is not None:
            _save_found(item.config, error)
            for each in found[:MOST_PICTURES]:
                report.sections.append((MAP_TITLE, _found_map(each)))
        else:
            _explain_drawn(item, error, report)
    # The explanation names the file only now that there is one.
    report.longrepr = item.repr_failure(excinfo)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the one error."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def _save_found(config: pytest.Config, error: BaseException) -> None:
    """Save what a failure found, if it was not saved when it was found."""
    from kvzero.campaign.failing import FoundFailure
    from kvzero.campaign.saving import save_found_once

    folder = path_of(config, "regressions")
    if not isinstance(error, FoundFailure) or error.judge is None or folder is None:
        return  # told of a case that is in a file already, or of a preset
    for each in error.found:
        save_found_once(each, error.judge, folder)


def _found_map(found: "Found") -> str:
    from kvzero.report.memory_map import case_map

    return "\n".join(case_map(found.judged.case, found.judged.observation))


def _explain_drawn(
    item: pytest.Item, error: BaseException, report: pytest.TestReport
) -> None:
    """Save the case that a ``@given`` test failed on, and say how to go on."""
    if not _is_given(item):
        return
    if type(error).__module__.startswith("hypothesis."):
        # Hypothesis's own errors, such as its deadline, are not of a case.
        _explain_rejected(item, report)
        return
    case, line = _drawn(item.path, error)
    if case is None:
        return
    from kvzero.campaign.saving import shown_path
    from kvzero.errors import CaseError
    from kvzero.report.memory_map import case_map

    try:
        saved = _saved(item, case, f"{type(error).__name__}-line-{line}")
    except (OSError, CaseError) as problem:
        told = [f"not saved: {problem}"]
    else:
        on = f" --subject {text_of(item.config, 'subject') or 'SUBJECT'}"
        shown = shown_path(saved)
        told = [f"saved    {shown}", f"replay   kvzero replay {shown}{on}"]
    told.append(f"again    pytest {item.nodeid}")
    report.sections.append((CASE_TITLE, "\n".join(told)))
    report.sections.append((MAP_TITLE, "\n".join(case_map(case))))


def _explain_rejected(item: pytest.Item, report: pytest.TestReport) -> None:
    """Say why the cases of a test did not count, if they did not."""
    reasons = item.config.stash.get(NOT_JUDGED, Counter()).most_common()
    if reasons:
        lines = [f"{reason} ({n} cases)" for reason, n in reasons]
        report.sections.append((NOT_JUDGED_TITLE, "\n".join(lines)))


def _is_given(item: pytest.Item) -> bool:
    function = getattr(item, "obj", None)
    return bool(getattr(function, "is_hypothesis_test", False))


def _drawn(file: Path, error: BaseException) -> "tuple[Case | None, int]":
    """Return the case in the frames of a test file, and the line that failed there."""
    from kvzero.case import Case

    case, last = None, 0
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_code.co_filename == str(file):
            last = line
            values = (v for v in frame.f_locals.values() if isinstance(v, Case))
            case = next(values, case)
    return case, last


def _saved(item: pytest.Item, case: "Case", what: str) -> Path:
    """Return the file of a case that a test failed on.

    No judge can tell whether another case shows the same; a test that failed in the
    same line in this same run is taken to.
    """
    from kvzero.campaign.saving import save_once
    from kvzero.casefile import case_file_name, write_case_file

    name = getattr(item, "originalname", None) or item.name
    folder = path_of(item.config, "regressions") or item.config.rootpath
    home = folder / f"{item.path.stem}.{name}"
    path = home / case_file_name(case, what)
    started = _run_started(item.config)

    def write() -> Path:
        write_case_file(path, case)
        return path

    slug = path.name.rpartition("-")[0]
    return save_once(
        home, f"{slug}-*.json", lambda file: file.stat().st_mtime >= started, write
    )


def _run_started(config: pytest.Config) -> float:
    """Return when the run began: on its controller, where there are workers."""
    told: dict[str, float] = getattr(config, "workerinput", {})
    return told.get("kvzero_started", config.stash.setdefault(_STARTED, time.time()))
