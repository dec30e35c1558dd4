"""Isolation on the command line: what kills a process is found, saved and replayed."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvzero.campaign.fuzz import Fuzzer
from kvzero.cli.options import isolation_for
from kvzero.executors.isolated import Isolation

from .conftest import Kvzero

pytestmark = pytest.mark.slow  # starts a fork server, and workers for every death
WILD = Path(__file__).parents[1] / "executors"
SHRINK_SECONDS = 0.5
LIMITS = ("--case-deadline", "60s", "--case-memory", "800")


@pytest.fixture(autouse=True)
def wild(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the harmful subjects importable, and shrinking short."""
    monkeypatch.syspath_prepend(str(WILD))
    quick = partial(Fuzzer, shrink_seconds=SHRINK_SECONDS)
    monkeypatch.setattr("kvzero.cli.app.Fuzzer", quick)


@pytest.mark.parametrize(
    ("executor", "subject", "what"),
    [
        ("footprint", "SEGFAULT", "killed-by-sigsegv"),
        ("host", "ABORT", "killed-by-sigabrt"),
    ],
)
def test_a_harm_is_found_shrunk_saved_and_replayed(
    kvzero: Kvzero, executor: str, subject: str, what: str
) -> None:
    on = ("--executor", executor, "--json")
    found = kvzero(
        *("fuzz", "--subject", f"wild_subjects:{subject}", "--isolate"),
        *("--seed", "1", "--max-examples", "100", *on, *LIMITS),
    )
    assert found.code == 1
    (violation,) = found.json["violations"]
    assert (violation["property"], violation["what"]) == (
        "the_process_survives",
        what,
    )
    assert not violation["flaky"]
    assert ", isolated" in found.json["environments"][0]["versions"]
    replayed = kvzero("replay", violation["file"], *on)
    assert replayed.code == 1
    assert [each["what"] for each in replayed.json["violations"]] == [what]


NO_LIMITS: dict[str, Any] = {
    "isolate": None,
    "case_deadline": None,
    "case_memory": None,
}


@pytest.mark.parametrize(
    ("subject", "asked", "isolated"),
    [
        ("kvzero", {}, False),
        ("kvzero", {"isolate": True}, True),
        ("kvzero", {"case_deadline": "9s"}, True),
        ("kvzero", {"case_memory": 100}, True),
        ("mine:ZEROER", {}, True),
        ("mine:ZEROER", {"isolate": False}, False),
    ],
)
def test_what_is_not_built_in_or_is_limited_is_isolated(
    subject: str, asked: dict[str, Any], *, isolated: bool
) -> None:
    assert (isolation_for(subject, **NO_LIMITS | asked) is not None) is isolated


def test_limits_are_those_that_were_given() -> None:
    asked: dict[str, Any] = {"case_deadline": "2m", "case_memory": 100}
    limits = isolation_for("kvzero", **NO_LIMITS | asked)
    assert limits == Isolation(deadline_seconds=120, memory_bytes=100 * 2**20)
    usual = isolation_for("a:B", **NO_LIMITS, usual_seconds=7)
    assert usual == Isolation(deadline_seconds=7)


def test_a_limit_without_a_process_to_limit_is_bad_usage(kvzero: Kvzero) -> None:
    outcome = kvzero("fuzz", "--no-isolate", "--case-memory", "100")
    assert outcome.code == 2
    assert "leave one out" in " ".join(outcome.err.split())
