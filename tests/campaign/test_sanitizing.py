"""Cases under compute-sanitizer: a stand-in for it here, the tool itself on a GPU."""

import sys
from pathlib import Path

import pytest

from kvzero.campaign import sanitizing
from kvzero.campaign.sanitizer_report import Record
from kvzero.campaign.sanitizing import (
    TOOLS,
    Chosen,
    Sanitization,
    Sanitized,
    Tool,
    chosen_cases,
    command_of,
    run_tool,
    sanitize,
    sanitizer_path,
)
from kvzero.casefile import write_case_file
from kvzero.errors import EnvironmentMissingError
from tests.executors.on_gpu import NEEDS_GPU, calls_of

SAMPLES = Path(__file__).parent / "sanitizer"
REGRESSIONS = Path(__file__).parents[2] / "regressions"
SMALL = min((REGRESSIONS / "unlisted_bytes_are_untouched").glob("*.json"))
MANY_PROGRAMS = (
    REGRESSIONS / "launches_fit_the_platform" / "nvidia-product-2e0d3676.json"
)
MANY_BYTES = (
    REGRESSIONS / "listed_pages_are_zero" / "listed-byte-not-zero-44e5e6ca.json"
)
GPU_SUBJECTS = "tests.executors.gpu_subjects"
STAND_IN = """#!{python}
import json, pathlib, sys
given = sys.argv[1:]
report = pathlib.Path(given[given.index("--save") + 1])
report.write_text(pathlib.Path({sample!r}).read_text())
if {ends_well}:
    told = {{"ran": 1, "failures": []}}
    pathlib.Path(given[-1]).write_text(json.dumps(told))
print("a last word")
"""


@pytest.fixture
def working(tmp_path: Path) -> tuple[Path, ...]:
    """Return cases that are not refused: ids from the host, then on the device."""
    host, device = tmp_path / "host.json", tmp_path / "device.json"
    write_case_file(host, calls_of("list", [3, 1], [63]))
    write_case_file(device, calls_of("device", [3, 1], [63, -1]))
    return host, device


def stand_in(folder: Path, sample: str, *, ends_well: bool = True) -> Path:
    """Return a program that writes a sample instead of looking at anything."""
    program = folder / "compute-sanitizer"
    text = STAND_IN.format(
        python=sys.executable,
        sample=str(SAMPLES / f"{sample}.xml"),
        ends_well=ends_well,
    )
    program.write_text(text)
    program.chmod(0o755)
    return program


def chosen(*kernels: str) -> Chosen:
    return Chosen((SMALL,), kernels)


def test_records_of_the_subjects_kernels_are_its_own(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "read-past-the-ids")
    seen = run_tool(program, Tool.MEMCHECK, chosen("zero_chunk"), "kvzero")
    assert (seen.cases, len(seen.records), seen.elsewhere) == (1, 1, 1)
    assert not seen.is_clean
    others = run_tool(program, Tool.MEMCHECK, chosen("zero_chunks"), "kvzero")
    assert (others.records, others.elsewhere) == ((), 2)


def test_a_report_without_records_is_a_clean_result(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "clean")
    seen = run_tool(program, Tool.RACECHECK, chosen("zero_chunks"), "kvzero")
    assert seen == Sanitized(Tool.RACECHECK, 1)


def test_a_process_that_died_is_not_clean(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "clean", ends_well=False)
    with pytest.raises(EnvironmentMissingError, match="did not end well: a last word"):
        run_tool(program, Tool.MEMCHECK, chosen("zero_chunks"), "kvzero")


def test_a_tool_that_does_not_work_is_not_clean(tmp_path: Path) -> None:
    program = stand_in(tmp_path, "device-not-supported")
    with pytest.raises(EnvironmentMissingError, match="does not work here: Device not"):
        run_tool(program, Tool.MEMCHECK, chosen("zero_chunks"), "kvzero")


def test_only_the_subjects_kernels_are_instrumented_where_that_is_enough() -> None:
    report = Path("r.xml")
    for tool in TOOLS:
        command = command_of(Path("cs"), tool, ["zero_chunks"], report)
        assert command[:6] == ["cs", "--tool", tool, "--xml", "--save", "r.xml"]
        assert ("kernel_substring=zero_chunks" in command) == (tool != Tool.INITCHECK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("large", "reason"),
    [
        (MANY_PROGRAMS, "programs, and at most 1,048,576 are run"),
        (MANY_BYTES, "B of memory, and at most 4,294,967,296 B are run"),
    ],
)
def test_a_case_that_is_too_large_is_left_out_with_the_reason(
    large: Path, reason: str
) -> None:
    made = chosen_cases([SMALL, large], "kvzero")
    assert made.files == (SMALL,)
    assert made.kernels == ("zero_chunks",)
    ((file, why),) = made.left_out
    assert file == large
    assert reason in why


@pytest.mark.slow
@pytest.mark.parametrize("name", ["READS_PAST_ITS_IDS", "READS_WHAT_NOBODY_WROTE"])
def test_what_a_sanitizer_must_find_is_launched(
    working: tuple[Path, ...], name: str
) -> None:
    made = chosen_cases(working[:1], f"{GPU_SUBJECTS}:{name}")
    assert (made.kernels, made.left_out) == (("sum_to_nowhere",), ())


def test_a_case_outside_the_contract_is_left_out_with_the_reason() -> None:
    made = chosen_cases([SMALL], "masked-3d")
    assert (made.files, made.kernels) == ((), ())
    ((_, why),) = made.left_out
    assert why.endswith("the subject trusts its caller's ids")


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ((), 5),
        ((Sanitized(Tool.MEMCHECK, 0),), 5),
        ((Sanitized(Tool.MEMCHECK, 2), Sanitized(Tool.INITCHECK, 2)), 0),
        ((Sanitized(Tool.MEMCHECK, 2, (Record("Precise", "Error", "x"),)),), 1),
        ((Sanitized(Tool.MEMCHECK, 0, (Record("Precise", "Error", "x"),)),), 1),
        ((Sanitized(Tool.MEMCHECK, 2, failures=("a byte",)),), 1),
    ],
)
def test_the_exit_code_tells_what_was_found(
    results: tuple[Sanitized, ...], code: int
) -> None:
    assert Sanitization("kvzero", chosen(), results).exit_code == code


def test_without_the_tool_the_way_to_get_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(sanitizing, "find_spec", lambda _name: None)
    with pytest.raises(EnvironmentMissingError, match="pip install nvidia-cuda-san"):
        sanitizer_path()


@pytest.mark.gpu
@pytest.mark.slow
@NEEDS_GPU[1]
@pytest.mark.parametrize("tool", TOOLS)
def test_our_zeroer_is_clean_under_the_sanitizer(
    working: tuple[Path, ...], tool: Tool
) -> None:
    _skip_without_the_tool()
    made = sanitize(working, "kvzero", [tool])
    assert [record.line() for record in made.results[0].records] == []
    assert made.results[0].cases == len(working)
    assert made.exit_code == 0


@pytest.mark.gpu
@pytest.mark.slow
@NEEDS_GPU[1]
@pytest.mark.parametrize(
    ("tool", "subject"),
    [
        (Tool.MEMCHECK, "READS_PAST_ITS_IDS"),
        (Tool.INITCHECK, "READS_WHAT_NOBODY_WROTE"),
    ],
)
def test_what_a_sanitizer_must_find_is_found(
    working: tuple[Path, ...], tool: Tool, subject: str
) -> None:
    _skip_without_the_tool()
    made = sanitize(working[:1], f"{GPU_SUBJECTS}:{subject}", [tool])
    found = {record.function for record in made.results[0].records}
    assert any(function.startswith("sum_to_nowhere") for function in found)
    assert made.exit_code == 1


def _skip_without_the_tool() -> None:
    try:
        sanitizer_path()
    except EnvironmentMissingError as error:
        pytest.skip(str(error))
