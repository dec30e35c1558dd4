import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from kvzero.campaign.verify import REPLAYED_PROGRAMS
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import Finding, write_case_file
from kvzero.cli.app import app
from kvzero.layout import Allocation, Axis, Layout, Run

from .conftest import Kvzero

ON_FOOTPRINT = ("--executor", "footprint")
KEYS = {
    "verdict",
    "exit_code",
    "subject",
    "executor",
    "workers",
    "cases",
    "launches",
    "programs",
    "judged",
    "not_judged",
    "violations",
    "seconds",
}
SMALL = Case(
    Layout(4, (Allocation(256),), (Run(20, 64), Run(4, 64, 32))),
    (Call((IdRun(1), IdRun(3))),),
)
TALL = Case(
    Layout(1, (Allocation(2**20),), (Run(4, 4, axes=(Axis(65_536, 8),)),)),
    (Call((IdRun(0),)),),
)


@pytest.fixture
def small(tmp_path: Path) -> str:
    write_case_file(tmp_path / "small.json", SMALL)
    return "small.json"


@pytest.fixture
def tall(tmp_path: Path) -> str:
    write_case_file(tmp_path / "tall.json", TALL)
    return "tall.json"


def test_verify_of_a_case_file_is_green(kvzero: Kvzero, small: str) -> None:
    outcome = kvzero("verify", small, "--json", *ON_FOOTPRINT)
    assert outcome.code == 0
    assert set(outcome.json) >= KEYS
    assert outcome.json["verdict"] == "no fault found"
    assert outcome.json["judged"]["listed_pages_are_zero"] == 1
    assert outcome.json["environments"][0]["semantics"] == "TTIR"


def test_verify_says_what_was_judged_and_by_what(kvzero: Kvzero, small: str) -> None:
    outcome = kvzero("verify", small, *ON_FOOTPRINT)
    assert "judged by   footprint (TTIR), cuda:90" in outcome.out
    assert "judged      unlisted_bytes_are_untouched: 1" in outcome.out
    assert "not judged  bad_ids_are_refused: 1" in outcome.out


def test_verify_of_a_fault_explains_it_and_exits_with_1(
    kvzero: Kvzero, small: str
) -> None:
    outcome = kvzero("verify", small, "--subject", "mask-missing", *ON_FOOTPRINT)
    assert outcome.code == 1
    assert "unlisted_bytes_are_untouched: " in outcome.out
    assert "at mask_missing.py:" in outcome.out
    assert "replay   kvzero replay small.json --subject mask-missing" in outcome.out


def test_a_rejected_launch_is_a_fault_and_no_refusal(kvzero: Kvzero, tall: str) -> None:
    outcome = kvzero("verify", tall, "--subject", "masked-3d", "--json", *ON_FOOTPRINT)
    kinds = {(v["kind"], v["what"]) for v in outcome.json["violations"]}
    assert outcome.code == 1
    assert ("fault", "cuda-y") in kinds
    assert "refusal" not in {kind for kind, _ in kinds}


def test_several_subjects_give_one_table(kvzero: Kvzero, tall: str) -> None:
    subjects = ("--subject", "masked-3d", "--subject", "kvzero")
    outcome = kvzero("verify", tall, *subjects, *ON_FOOTPRINT)
    assert outcome.code == 1
    assert "zero_masked_3d[1, 65536, 1]" in outcome.out
    assert "kvzero: no fault found" in outcome.out


def test_a_cost_fails_the_run_only_if_asked(kvzero: Kvzero, tmp_path: Path) -> None:
    page = Layout(1, (Allocation(2**21),), (Run(2**20, 2**20), Run(4, 4, 2**20)))
    write_case_file(tmp_path / "c.json", Case(page, (Call((IdRun(0),)),)))
    arguments = ("verify", "c.json", "--subject", "flat-1d", *ON_FOOTPRINT)
    assert kvzero(*arguments).code == 0
    assert kvzero(*arguments, "--strict-cost").code == 1


def test_fuzz_saves_a_shrunk_case_that_replays(kvzero: Kvzero) -> None:
    found = kvzero(
        *("fuzz", "--subject", "page-as-stride", "--seed", "3"),
        *("--max-examples", "2000", "--json", *ON_FOOTPRINT),
    )
    assert found.code == 1
    violation = found.json["violations"][0]
    assert (violation["runs"], violation["blocks"]) == (1, 2)
    assert not violation["flaky"]
    replayed = kvzero("replay", violation["file"], "--json", *ON_FOOTPRINT)
    assert replayed.code == 1
    assert replayed.json["subject"] == "page-as-stride"
    assert violation["what"] in {v["what"] for v in replayed.json["violations"]}
    fixed = kvzero("replay", violation["file"], "--subject", "kvzero", *ON_FOOTPRINT)
    assert fixed.code == 0


def test_replay_judges_bytes_up_to_its_cap_and_launches_of_any_size(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    # One page many times over: a zeroer that forgets no id stores 2**31 chunks.
    page = Layout(1, (Allocation(2**24),), (Run(2**24, 2**24),))
    case = Case(page, (Call((IdRun(0, 2**19, 0),)),))
    found = ("fault", "nvidia-product", "product-skipped", "footprint")
    saved_for = Finding("launches_fit_the_platform", *found)
    write_case_file(tmp_path / "long.json", case, saved_for)
    on_ours = ("long.json", "--subject", "kvzero", "--json", *ON_FOOTPRINT)
    outcome = kvzero("replay", *on_ours)
    assert outcome.code == 0  # what the case was saved for was judged
    assert outcome.json["programs"] >= 2**31
    assert outcome.json["judged"]["launches_fit_the_platform"] == 1
    reasons = {each["reason"] for each in outcome.json["not_judged"]}
    cap = f"{REPLAYED_PROGRAMS:,}"
    assert f"a call's programs exceed the cap of {cap} a case" in reasons
    assert cap in kvzero("replay", "--help").out
    write_case_file(tmp_path / "long.json", case)  # saved for nothing: bytes matter
    assert kvzero("replay", *on_ours).code == 5


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vllm is installed here")
def test_replay_goes_on_past_a_subject_that_is_not_installed(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    for subject in ("kvzero", "vllm"):
        found = Finding("listed_pages_are_zero", "fault", "x", subject, "footprint")
        write_case_file(tmp_path / f"{subject}.json", SMALL, found)
    outcome = kvzero("replay", ".", "--json", *ON_FOOTPRINT)
    assert outcome.code == 5  # one of the two was not judged
    ours, vllm = outcome.json
    assert (ours["exit_code"], vllm["exit_code"]) == (0, 5)
    assert vllm["notes"][0].startswith("not run: vllm is not installed")
    alone = kvzero("replay", "vllm.json", *ON_FOOTPRINT)
    assert (alone.code, alone.out) == (3, "")


def test_fuzz_tells_no_speed_of_launches_where_there_are_none(kvzero: Kvzero) -> None:
    counted = ("--max-examples", "5", "--seed", "1", *ON_FOOTPRINT)
    assert "  speed  " in kvzero("fuzz", *counted).out
    assert "  speed  " not in kvzero("fuzz", "--subject", "index-fill", *counted).out


def test_fuzz_is_green_when_the_budget_is_up(kvzero: Kvzero) -> None:
    outcome = kvzero("fuzz", "--max-examples", "30", "--json", *ON_FOOTPRINT)
    assert outcome.code == 0
    assert outcome.json["cases"] == 30
    assert isinstance(outcome.json["seed"], int)
    assert not Path("regressions").exists()


def test_a_case_without_a_listed_page_is_not_green(
    kvzero: Kvzero, tmp_path: Path
) -> None:
    nothing = Case(Layout(1, (Allocation(8),), (Run(4, 4),)), ())
    write_case_file(tmp_path / "nothing.json", nothing)
    outcome = kvzero("verify", "nothing.json", "--json", *ON_FOOTPRINT)
    assert outcome.code == 5
    assert outcome.json["verdict"] == "nothing judged"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("verify",), "nothing to verify"),
        (("verify", "absent.json"), "absent.json"),
        (("verify", "broken.json"), "broken.json"),
        (("verify", "--preset", "llama"), "preset='llama', but must be one of"),
        (("fuzz", "--subject", "kvzer"), "did you mean kvzero?"),
        (("fuzz", "--subject", "json:dumps"), "it lacks name, contract, build"),
        (("fuzz", "--subject", "no_such:thing"), "cannot be imported"),
        (("fuzz", "--max-time", "soon"), "--max-time 'soon', but must be a posi"),
        (("fuzz", "--executor", "abacus"), "abacus"),
        (("replay", "."), "no case file in this folder"),
    ],
)
def test_bad_usage_is_one_clear_error_with_exit_code_2(
    kvzero: Kvzero, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    if "broken.json" in arguments:
        (tmp_path / "broken.json").write_text('{"kvzero": 1, "case": {"layout": 3}}')
    outcome = kvzero(*arguments)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


def test_an_error_of_ours_exits_with_3(
    kvzero: Kvzero, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvzero.cli.app.subject_for", lambda *_: 1 / 0)
    outcome = kvzero("fuzz", "--max-examples", "1", *ON_FOOTPRINT)
    assert outcome.code == 3
    assert "ZeroDivisionError" in outcome.err


def test_a_device_that_is_not_there_exits_with_3(
    kvzero: Kvzero, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    outcome = kvzero("fuzz", "--max-examples", "1", "--executor", "device")
    assert outcome.code == 3
    assert "torch finds no GPU here" in outcome.err


def test_json_is_the_only_thing_on_standard_output(kvzero: Kvzero, small: str) -> None:
    assert json.loads(kvzero("verify", small, "--json", *ON_FOOTPRINT).out)


VERBS = [command.callback for command in app.registered_commands]


@pytest.mark.parametrize("verb", [verb.__name__ for verb in VERBS if verb is not None])
def test_help_of_every_verb_has_an_example(kvzero: Kvzero, verb: str) -> None:
    assert f"Example: kvzero {verb}" in " ".join(kvzero(verb, "--help").out.split())


FOREIGN = """
from kvzero import Contract, MadeSubject

print("an import that prints")


class Zeroer:
    def __init__(self, pool):
        self.pool = pool

    def zero(self, block_ids):
        print("a call that prints")
        raise {error}


ZEROER = MadeSubject("a-name-of-its-own", Contract(), Zeroer)
"""


@pytest.mark.parametrize("error", ["ValueError('no')", "SystemExit(0)"])
def test_a_foreign_subject_is_saved_under_the_name_that_finds_it(
    kvzero: Kvzero, tmp_path: Path, error: str
) -> None:
    module = f"foreign_{abs(hash(error))}"
    (tmp_path / f"{module}.py").write_text(FOREIGN.format(error=error))
    found = kvzero(
        *("fuzz", "--subject", f"{module}:ZEROER", "--seed", "1"),
        *("--max-examples", "20", "--json", *ON_FOOTPRINT),
    )
    assert found.code == 1
    assert found.json["subject"] == f"{module}:ZEROER"
    saved = found.json["violations"][0]
    assert (saved["kind"], saved["property"]) == ("refusal", "legal_calls_are_accepted")
    assert kvzero("replay", saved["file"], "--json", *ON_FOOTPRINT).code == 1


@pytest.mark.parametrize("body", ["raise SystemExit(0)", "1 / 0", "(", "ZEROER = 3"])
def test_a_subject_that_cannot_be_had_is_bad_usage(
    kvzero: Kvzero, tmp_path: Path, body: str
) -> None:
    module = f"broken_{abs(hash(body))}"
    (tmp_path / f"{module}.py").write_text(body)
    outcome = kvzero("fuzz", "--subject", f"{module}:ZEROER", *ON_FOOTPRINT)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
