"""`--target`: what the footprint compiles for, whatever a case says."""

from pathlib import Path

import pytest

from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.layout import Allocation, Layout, Run

from .conftest import Kvzero

ON_FOOTPRINT = ("--executor", "footprint")
KILLS = Path(__file__).parents[1] / "meta" / "kills"
CASE = Case(Layout(4, (Allocation(256),), (Run(20, 64),)), (Call((IdRun(1),)),))


@pytest.fixture
def small(tmp_path: Path) -> str:
    write_case_file(tmp_path / "small.json", CASE)
    return "small.json"


@pytest.mark.parametrize("target", ["cuda:120", "hip:gfx950"])
def test_verify_compiles_for_the_target(
    kvzero: Kvzero, small: str, target: str
) -> None:
    outcome = kvzero("verify", small, "--target", target, "--json", *ON_FOOTPRINT)
    assert outcome.code == 0
    (environment,) = outcome.json["environments"]
    assert environment["versions"].startswith(f"{target}, triton ")


def test_fuzz_draws_for_the_target_and_says_how_fast_it_was(kvzero: Kvzero) -> None:
    outcome = kvzero(
        "fuzz",
        "--target",
        "cuda:80",
        "--max-examples",
        "10",
        "--seed",
        "3",
        "--json",
        *ON_FOOTPRINT,
    )
    assert outcome.code == 0
    (environment,) = outcome.json["environments"]
    assert environment["versions"].startswith("cuda:80, ")
    assert environment["n"] == 10
    speed = outcome.json["speed"]
    assert speed["checked_launches"] == outcome.json["launches"]
    assert 0 < speed["per_second"] <= speed["per_second_without_drawing"]
    assert 0 < speed["drawing_share"] < 1


def test_a_violation_under_a_target_is_verified_again_under_it(kvzero: Kvzero) -> None:
    saved = KILLS / "tail-not-written.json"
    options = ("--subject", "tail-not-written", "--target", "hip:gfx950")
    outcome = kvzero("verify", str(saved), *options, *ON_FOOTPRINT)
    assert outcome.code == 1
    command = f"kvzero verify {saved} --target hip:gfx950 --subject tail-not-written"
    assert command in outcome.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "sm_90"), "must be cuda:CAPABILITY or hip:ARCH"),
        (("--target", "hip:90"), "must be cuda:CAPABILITY or hip:ARCH"),
        (("--target", "cuda:90", "--executor", "host"), "add --executor footprint"),
    ],
)
def test_a_target_that_cannot_be_had_is_refused(
    kvzero: Kvzero, small: str, options: tuple[str, ...], message: str
) -> None:
    outcome = kvzero("verify", small, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.replace("│", " ").split())


def test_fuzz_prints_its_speed(kvzero: Kvzero) -> None:
    outcome = kvzero("fuzz", "--max-examples", "5", "--seed", "3", *ON_FOOTPRINT)
    assert " launches checked a second, " in outcome.out
    assert "Hypothesis took " in outcome.out
