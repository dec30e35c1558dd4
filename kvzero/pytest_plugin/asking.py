"""What stands behind the fixtures: checks and judges, as the settings have them."""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Self

import hypothesis
import pytest

from kvzero.campaign.checking import Check
from kvzero.campaign.failing import FoundFailure, refuse_broken
from kvzero.campaign.fuzz import CASE_SECONDS, MAX_PROGRAMS
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.known import Known, read_known_file
from kvzero.campaign.tally import Found
from kvzero.case import Case
from kvzero.configuration import seconds_of
from kvzero.errors import PropertyFailure
from kvzero.executors.isolated import MEMORY_BYTES, Isolation
from kvzero.properties.registry import BYTE_PROPERTIES
from kvzero.properties.verdict import NotJudged
from kvzero.pytest_plugin.failures import NOT_JUDGED
from kvzero.pytest_plugin.settings import path_of, text_of, value_of
from kvzero.subjects.protocol import Subject


class Failed(pytest.fail.Exception):  # type: ignore[name-defined,misc]  # a value to mypy
    """A failure told by its explanation alone, without a traceback.

    Attributes:
        found: What was found, if it was a broken property.
    """

    __module__ = "builtins"  # as pytest's own: reports then name it in one word
    found: tuple[Found, ...]

    def __init__(self, failure: PropertyFailure) -> None:
        """Tell a failure."""
        super().__init__(str(failure), pytrace=False)
        self.found = failure.found if isinstance(failure, FoundFailure) else ()


def findings_of(config: pytest.Config) -> tuple[Known, ...]:
    """Return the known findings that are set."""
    path = path_of(config, "known")
    return read_known_file(path) if path else ()


def isolation_of(config: pytest.Config, usual_seconds: float) -> Isolation:
    """Return the limits of worker processes.

    Args:
        config: Holds the settings.
        usual_seconds: Time of a case where none is set.
    """
    deadline = text_of(config, "case-deadline")
    memory = value_of(config, "case-memory")
    return Isolation(
        (seconds_of(deadline) if deadline else None) or usual_seconds,
        int(memory) * 2**20 if memory else MEMORY_BYTES,
    )


def check_of(config: pytest.Config, options: Mapping[str, object]) -> Check:
    """Return a check as a test's own words, settings and defaults have it."""
    settings: dict[str, Any] = {  # Any: arguments of `Check`
        "executor": text_of(config, "executor"),
        "strict_cost": bool(value_of(config, "strict-cost")),
        "regressions": path_of(config, "regressions"),
        "findings": findings_of(config),
        "limits": isolation_of(config, CASE_SECONDS),
    }
    return Check(**{**settings, **options})


class Judges:
    """The judges of a test run: one for each subject and way to run it.

    They are kept, since a judge holds a process, or memory of a GPU.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Prepare; a judge is made when it is first needed."""
        self._config = config
        self._held = ExitStack()
        self._judges: dict[object, tuple[str | Subject, Judge]] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Give back what the judges hold."""
        self._held.close()

    def __call__(
        self, subject: str | Subject, case: Case, options: Mapping[str, object]
    ) -> Judged:
        """Judge a case.

        A case of which no byte was judged shows nothing: in a ``@given`` test it is
        rejected, so that a test in which no case counts fails; elsewhere the test is
        skipped, with the reason.

        Raises:
            FoundFailure: The subject broke a property.
        """
        __tracebackhide__ = True
        judge = self._judge(subject, options)
        judged = judge(case)
        refuse_broken(judge, judged)
        reasons = _not_judged(judged)
        if len(reasons) < len(BYTE_PROPERTIES):
            return judged
        told = f"nothing of {judge.subject.name} was judged: {reasons[0]}"
        if hypothesis.currently_in_test_context():
            self._config.stash.setdefault(NOT_JUDGED, Counter())[told] += 1
            hypothesis.reject()
        pytest.skip(told)

    def _judge(self, subject: str | Subject, options: Mapping[str, object]) -> Judge:
        who = subject if isinstance(subject, str) else id(subject)
        key = who, tuple(sorted(options.items()))
        if key not in self._judges:
            check = check_of(self._config, options)
            judge = self._held.enter_context(check.judge(subject, MAX_PROGRAMS))
            self._judges[key] = subject, judge  # the subject too: its id stays its own
        return self._judges[key][1]


def _not_judged(judged: Judged) -> list[str]:
    """Return why bytes were not judged, a reason for each property of bytes."""
    return [
        f"{result.property}: {result.reason}"
        for result in judged.results
        if isinstance(result, NotJudged) and result.property in BYTE_PROPERTIES
    ]
