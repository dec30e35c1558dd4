import pytest

from kvzero.errors import EnvironmentMissingError
from kvzero.executors.footprint import FootprintExecutor
from kvzero.limits import LIMITS
from kvzero.report import doctor
from kvzero.report.doctor import Gpu, diagnose, diagnosis_lines


def text_of_here() -> str:
    return "\n".join(diagnosis_lines(diagnose()))


def test_diagnosis_says_that_footprint_and_host_judge_here() -> None:
    found = diagnose()
    assert found.executors["footprint"] is None
    assert found.executors["host"] is None
    assert found.can_judge


def test_diagnosis_lists_every_launch_limit() -> None:
    text = text_of_here()
    for row in LIMITS:
        assert f"  {row.name} " in text
        assert row.rule in text


def test_diagnosis_without_a_gpu_says_what_that_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "_gpus", list)
    found = diagnose()
    assert found.executors["device"] == "torch finds no GPU"
    gap = found.not_judged[0]
    assert gap.what.startswith("what only a machine shows: misaligned addresses")
    assert gap.remedy == "run the same command on a GPU"


def test_diagnosis_with_a_gpu_names_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_gpus", lambda: [Gpu("H200", "cuda:90", 2**37)])
    text = text_of_here()
    assert "GPU 0      H200, cuda:90, 137,438,953,472 B (128 GiB)" in text
    assert "what only a machine shows" not in text
    assert "AMD at run time" in text


def test_diagnosis_says_why_nothing_can_be_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise EnvironmentMissingError("overcommit_memory=2, but must be 0 or 1")

    for check in ("_gpus", "_footprint_works", "_interpreter_is_there"):
        monkeypatch.setattr(doctor, check, refuse)
    found = diagnose()
    assert not found.can_judge
    assert "  footprint     no: overcommit_memory=2, but must be 0 or 1" in (
        diagnosis_lines(found)
    )
    assert [gap.remedy for gap in found.not_judged][1].startswith("set overcommit")


def test_diagnosis_survives_an_executor_that_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def break_down(*_: object) -> None:
        raise ValueError("no idea")

    monkeypatch.setattr(FootprintExecutor, "run", break_down)
    assert diagnose().executors["footprint"] == "ValueError('no idea')"


def test_diagnosis_says_that_interpreted_triton_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    reason = diagnose().executors["footprint"]
    assert reason is not None
    assert reason.startswith("TRITON_INTERPRET is set, but must not be")


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "nightly", None])
def test_diagnosis_doubts_unknown_versions_of_triton(version: str | None) -> None:
    found = diagnose()
    found.versions["triton"] = version
    gaps = doctor._unknown_ground(found)
    assert f"Triton is {version}, and kvzero was tried on 3.6 to 3.9" in [
        gap.why for gap in gaps
    ]


def test_diagnosis_names_missing_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    known = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda name: None if name == "rich" else known(name)
    )
    assert "rich missing" in text_of_here()


def test_diagnosis_of_memory_names_the_triton_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", "/nowhere/at/all")
    told = diagnose().memory["Triton cache"]
    assert told.startswith("/nowhere/at/all: ")
    assert told.endswith(" free")
