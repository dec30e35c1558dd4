"""The pytest plugin: case files are tests, and a fixture puts subjects under test.

Every case file under ``regressions/`` is a test, and `kvzero_check` is what a test of
one's own needs to have a zeroer tried on presets and on random cases.

A case runs on the subject that ``--kvzero-subject`` or the ini option
``kvzero_subject`` names, else on the one that it was found with. Loading the plugin
imports neither torch nor Triton: a test run without case files does not pay for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kvzero.campaign.checking import Check
    from kvzero.campaign.judging import Judge, Judged
    from kvzero.campaign.known import Known
    from kvzero.casefile import CaseFile
    from kvzero.subjects.protocol import Subject

FOLDER = "regressions"
MAX_PROGRAMS = 2_000_000
"""Programs evaluated for one case file: about two seconds on the footprint."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with an ini option of the same meaning."""
    group = parser.getgroup("kvzero")
    for name, text in (
        ("subject", "subject that case files run on: a known name or module:attribute"),
        ("executor", "how cases run: device, footprint or host"),
        ("known", "file of known findings (TOML), which do not fail"),
    ):
        group.addoption(f"--kvzero-{name}", default=None, help=text)
        parser.addini(f"kvzero_{name}", text, default="")


def _option(config: pytest.Config, name: str) -> str:
    """Return the text of an option, or of the ini option of that name."""
    given: str | None = config.getoption(f"--kvzero-{name}")
    return given or str(config.getini(f"kvzero_{name}"))


def _findings(config: pytest.Config) -> tuple[Known, ...]:
    """Return the known findings of the option or, from the root, of the ini option."""
    from kvzero.campaign.known import read_known_file

    name = _option(config, "known")
    is_option = config.getoption("--kvzero-known")
    folder = config.invocation_params.dir if is_option else config.rootpath
    return read_known_file(folder / name) if name else ()


@pytest.fixture
def kvzero_check(pytestconfig: pytest.Config) -> Callable[..., None]:
    """Return what puts a zeroer under test: presets at full size, and random cases.

    ``kvzero_check(subject, max_examples=100, seed=0, preset=None, executor=None,
    strict_cost=False)`` takes a known name, ``module:attribute`` or a subject, and
    fails with the located explanation of what it broke. Failing cases are shrunk and
    saved below ``regressions/``.
    """

    def check(subject: str | Subject, **options: int | str | bool | None) -> None:
        __tracebackhide__ = True
        from kvzero.errors import PropertyFailure

        told = None
        try:
            _check(pytestconfig, options)(subject)
        except PropertyFailure as failure:
            told = str(failure)
        if told is not None:  # not inside the handler: pytest would tell it twice
            pytest.fail(told, pytrace=False)

    return check


def _check(config: pytest.Config, options: dict[str, int | str | bool | None]) -> Check:
    """Return a check as options, settings and defaults have it."""
    from kvzero.campaign.checking import Check

    settings = {
        "executor": _option(config, "executor") or None,
        "regressions": config.rootpath / FOLDER,
        "findings": _findings(config),
    }
    return Check(**{**settings, **options})  # type: ignore[arg-type]  # a test's own words


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
        from kvzero.executors.isolated import Isolation, is_built_in, subject_for

        file = read_case_file(self.path)
        name = _option(self.config, "subject") or _found_with(file)
        executor = executor_named(
            _option(self.config, "executor") or None,
            max_programs=MAX_PROGRAMS,
            isolation=None if is_built_in(name) else Isolation(),
        )
        subject = subject_for(name, executor)
        findings = _findings(self.config)
        known = tuple(k for k in findings if k.subject == subject.name)
        judge = Judge(subject, executor, known=known)
        judged = judge(file.case)
        self._fail(judge, judged)
        self._settle_known(judge, judged)
        _skip_unless_judged(file, judged)

    def _settle_known(self, judge: Judge, judged: Judged) -> None:
        """Refuse findings of this very case that no longer fail; mark those that do."""
        from kvzero.campaign.confirming import confirmed
        from kvzero.errors import PropertyFailure

        here = [k for k in judge.known if k.case.resolve() == self.path.resolve()]
        for each in (confirmed(known, judged) for known in here):
            if each.state == "no longer fails":
                raise PropertyFailure(each.line)
        for found in judged.known.values():
            pytest.xfail(f"known: {found.reason}")

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
