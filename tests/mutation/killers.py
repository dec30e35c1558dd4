"""What tries to notice one mutant, in a process that dies afterwards.

Each killer returns what it noticed, or None. Nothing is shrunk and nothing is stored: a
kill is wanted, not a report. All choices follow from fixed seeds, so a mutant is killed
again when it is run again.
"""

import contextlib
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.mutation.groups import Faults, Fuzzing, Killer, PropertyTests

NO_SHRINKING = (Phase.explicit, Phase.generate)


def notice(killer: Killer) -> str | None:
    """Return what a killer noticed, or None.

    Args:
        killer: What is run.
    """
    if isinstance(killer, PropertyTests):
        return _by_tests(killer)
    if isinstance(killer, Fuzzing):
        return _by_fuzzing(killer)
    return _by_faults(killer)


class PropertyTestsOnly:
    """A plug-in of pytest that leaves out what Hypothesis does not drive.

    Attributes:
        examples: Cases of each test, where it names no number of its own.
        ran: Tests that were chosen.
        failed: What failed first.
    """

    def __init__(self, examples: int) -> None:
        """Begin with nothing seen."""
        self.examples = examples
        self.ran = 0
        self.failed: str | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Draw the same cases each time, and stop at the first that fails."""
        settings.register_profile(
            "mutation",
            max_examples=self.examples,
            deadline=None,
            derandomize=True,
            database=None,
            phases=NO_SHRINKING,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        settings.load_profile("mutation")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that Hypothesis drives."""
        items[:] = [item for item in items if is_property_test(item)]
        self.ran = len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first failure."""
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be imported."""
        if report.failed and self.failed is None:
            self.failed = f"{report.nodeid} (import)"


def is_property_test(item: pytest.Item) -> bool:
    """Return whether Hypothesis drives a test, and it needs no GPU."""
    test: Any = getattr(item, "obj", None)  # Any: whatever was collected
    is_driven = getattr(test, "is_hypothesis_test", False)
    return bool(is_driven) and item.get_closest_marker("gpu") is None


def _by_tests(killer: PropertyTests) -> str | None:
    chosen = PropertyTestsOnly(killer.examples)
    files = [f"tests/{file}" for file in killer.files]
    flags = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
    if not any(each.name == "kvzero" for each in entry_points(group="pytest11")):
        flags += ["-p", "kvzero.pytest_plugin"]  # the copy is installed nowhere
    code = pytest.main([*flags, *files], [chosen])
    if code == pytest.ExitCode.OK and chosen.ran:
        return None
    return chosen.failed or f"pytest ended with {code!r} after {chosen.ran} tests"


def _by_fuzzing(killer: Fuzzing) -> str | None:
    from kvzero.campaign.fuzz import Budget, Fuzzer, cases_for
    from kvzero.campaign.judging import Judge
    from kvzero.campaign.tally import EXIT_OK
    from kvzero.subjects.registry import find_subject
    from tests.meta.test_unjudged import Listing

    with _told(f"fuzz {killer.subject}"):
        executor = Listing()
        judge = Judge(
            find_subject(killer.subject), executor, strict_cost=killer.strict_cost
        )
        fuzzer = Fuzzer(
            judge,
            cases_for(judge),
            killer.seed,
            Budget(cases=killer.cases),
            lambda _tally: None,
            phases=(Phase.generate,),
            shrink_seconds=0.0,
        )
        tally = fuzzer.run()
    code = tally.exit_code(strict_cost=killer.strict_cost)
    if code != EXIT_OK:
        found = ", ".join(str(i) for i in tally.found)
        return f"fuzz {killer.subject}: exit {code} {found}"
    unjudged = [reason for reason in executor.reasons if "the cap of" not in reason[1]]
    return f"fuzz {killer.subject}: not judged: {unjudged[0]}" if unjudged else None


def _by_faults(killer: Faults) -> str | None:
    from kvzero.campaign.faults import MAX_EXAMPLES, MAX_PROGRAMS, kill
    from kvzero.executors import executor_named
    from kvzero.subjects.faults import fault_subjects

    executor = executor_named("footprint", max_programs=MAX_PROGRAMS)
    for fault in fault_subjects():
        if fault.needs_gpu or fault.name in killer.but:
            continue
        with _told(f"faults: {fault.name}"):
            seen = kill(fault, killer.seed, MAX_EXAMPLES, executor, shrink_seconds=0.0)
        if not seen.killed:
            return f"faults: {fault.name} is not caught"
    return None


class NoticedError(Exception):
    """An error of the harness itself, which a run reports and ends with."""


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn an error of the harness into what was noticed."""
    try:
        yield
    except Exception as error:  # whatever a mutant breaks is what was noticed
        raise NoticedError(f"{what}: {type(error).__name__}: {error}") from error
