"""The pytest plugin: every case file under ``regressions/`` is a test.

A case runs on the subject that ``--kvzero-subject`` or the ini option
``kvzero_subject`` names, else on the one that it was found with. Loading the plugin
imports neither torch nor Triton: a test run without case files does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kvzero.campaign.judging import Judge, Judged
    from kvzero.casefile import CaseFile

FOLDER = "regressions"
MAX_PROGRAMS = 2_000_000
"""Programs evaluated for one case file: about two seconds on the footprint."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with an ini option of the same meaning."""
    group = parser.getgroup("kvzero")
    for name, text in (
        ("subject", "subject that case files run on: a known name or module:attribute"),
        ("executor", "how case files run: device, footprint or host"),
    ):
        group.addoption(f"--kvzero-{name}", default=None, help=text)
        parser.addini(f"kvzero_{name}", text, default="")


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> CaseFileCollector | None:
    """Collect the JSON files below a folder named ``regressions``."""
    inside = FOLDER in file_path.relative_to(parent.config.rootpath).parts
    if inside and file_path.suffix == ".json":
        return CaseFileCollector.from_parent(parent, path=file_path)
    return None


class CaseFileCollector(pytest.File):
    """One case file."""

    def collect(self) -> Iterator[CaseTest]:
        """Yield its one test."""
        yield CaseTest.from_parent(self, name="case")


class CaseTest(pytest.Item):
    """A case that the subject must pass."""

    def runtest(self) -> None:
        """Run the case and fail with the located explanation."""
        from kvzero.campaign.judging import Judge
        from kvzero.casefile import read_case_file
        from kvzero.executors import executor_named
        from kvzero.subjects.registry import find_subject

        file = read_case_file(self.path)
        subject = find_subject(self._option("subject") or _found_with(file))
        executor = executor_named(
            self._option("executor") or None, max_programs=MAX_PROGRAMS
        )
        judge = Judge(subject, executor)
        judged = judge(file.case)
        self._fail(judge, judged)
        _skip_unless_judged(file, judged)

    def _option(self, name: str) -> str:
        given: str | None = self.config.getoption(f"--kvzero-{name}")
        return given or str(self.config.getini(f"kvzero_{name}"))

    def _fail(self, judge: Judge, judged: Judged) -> None:
        from kvzero.errors import PropertyFailure
        from kvzero.report.text import failure_text

        failures = judge.failures(judged)
        if failures:
            shown = self.path.relative_to(self.config.invocation_params.dir)
            replay = f"kvzero replay {shown} --subject {judged.observation.subject}"
            text = failure_text(failures[0], judged.observation, replay)
            raise PropertyFailure(text)

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: object = None,  # noqa: ARG002 - pytest's signature
    ) -> str:
        """Return the explanation alone: the traceback is ours, not the reader's."""
        from kvzero.errors import KvzeroError, PropertyFailure

        if isinstance(excinfo.value, (KvzeroError, PropertyFailure)):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return what the report calls the test."""
        return self.path, None, f"case {self.path.name}"


def _found_with(file: CaseFile) -> str:
    return file.found.subject if file.found else "kvzero"


def _skip_unless_judged(file: CaseFile, judged: Judged) -> None:
    """Skip, with the reason, a case whose own property was not judged."""
    from kvzero.properties.registry import BYTE_PROPERTIES
    from kvzero.properties.verdict import NotJudged

    needed = {file.found.property} if file.found else set(BYTE_PROPERTIES)
    for result in judged.results:
        if isinstance(result, NotJudged) and result.property in needed:
            pytest.skip(f"{result.property} was not judged: {result.reason}")
