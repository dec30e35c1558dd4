"""A case file as a test.

The case runs on the subject that is set, else on the one that it was found with.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvzero.campaign.confirming import confirmed
from kvzero.campaign.failing import FoundFailure
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.tally import Found
from kvzero.campaign.verify import REPLAYED_PROGRAMS
from kvzero.casefile import CaseFile, read_case_file
from kvzero.errors import KvzeroError, PropertyFailure
from kvzero.executors import executor_named
from kvzero.executors.isolated import DEADLINE_SECONDS, is_built_in, subject_for
from kvzero.properties.registry import BYTE_PROPERTIES
from kvzero.properties.verdict import NotJudged
from kvzero.pytest_plugin.asking import findings_of, isolation_of
from kvzero.pytest_plugin.settings import text_of, value_of


class CaseFileCollector(pytest.File):
    """One case file."""

    def collect(self) -> "Iterator[CaseTest]":
        """Yield its one test."""
        yield CaseTest.from_parent(self, name="case")


class CaseTest(pytest.Item):
    """A case that the subject must pass."""

    def runtest(self) -> None:
        """Run the case and fail with the located explanation."""
        file = read_case_file(self.path)
        judge = self._judge(file)
        judged = judge(file.case)
        self._fail(judge, judged)
        self._settle_known(judge, judged)
        _skip_unless_judged(file, judged)

    def _judge(self, file: CaseFile) -> Judge:
        """Return what judges the case."""
        found_with = file.found.subject if file.found else "kvzero"
        name = text_of(self.config, "subject") or found_with
        limits = isolation_of(self.config, DEADLINE_SECONDS)
        executor = executor_named(
            text_of(self.config, "executor"),
            max_programs=REPLAYED_PROGRAMS,
            isolation=None if is_built_in(name) else limits,
        )
        subject = subject_for(name, executor)
        findings = findings_of(self.config)
        known = tuple(k for k in findings if k.subject == subject.name)
        strict_cost = bool(value_of(self.config, "strict-cost"))
        return Judge(subject, executor, strict_cost=strict_cost, known=known)

    def _settle_known(self, judge: Judge, judged: Judged) -> None:
        """Refuse findings of this very case that no longer fail; mark those that do."""
        here = [k for k in judge.known if k.case.resolve() == self.path.resolve()]
        for each in (confirmed(known, judged) for known in here):
            if each.state == "no longer fails":
                raise PropertyFailure(each.line)
        for found in judged.known.values():
            pytest.xfail(f"known: {found.reason}")

    def _fail(self, judge: Judge, judged: Judged) -> None:
        failures = judge.failures(judged)
        if failures:
            shown = _shown_path(self.path, self.config.invocation_params.dir)
            replay = f"kvzero replay {shown} --subject {judged.observation.subject}"
            found = Found(failures[0], judged, file=str(self.path), replay=replay)
            raise FoundFailure([found])

    def repr_failure(
        self,
        excinfo: pytest.ExceptionInfo[BaseException],
        style: object = None,  # noqa: ARG002 - pytest's signature
    ) -> str:
        """Return the explanation alone: the traceback is ours, not the reader's."""
        if isinstance(excinfo.value, (KvzeroError, PropertyFailure)):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return what the report calls the test."""
        return self.path, None, f"case {self.path.name}"


def _shown_path(path: Path, folder: Path) -> Path:
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _skip_unless_judged(file: CaseFile, judged: Judged) -> None:
    """Skip, with the reason, a case whose own property was not judged."""
    needed = {file.found.property} if file.found else set(BYTE_PROPERTIES)
    for result in judged.results:
        if isinstance(result, NotJudged) and result.property in needed:
            pytest.skip(f"{result.property} was not judged: {result.reason}")
