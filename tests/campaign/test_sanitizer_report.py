"""Reports of compute-sanitizer are read by their structure."""

from pathlib import Path

import pytest

from kvzero.campaign.sanitizer_report import MOST_BYTES, Record, read_report
from kvzero.errors import EnvironmentMissingError

SAMPLES = Path(__file__).parent / "sanitizer"


def written(folder: Path, text: str) -> Path:
    path = folder / "report.xml"
    path.write_text(text)
    return path


def record(*parts: str) -> str:
    inside = "".join(parts)
    return f"<ComputeSanitizerOutput><record>{inside}</record></ComputeSanitizerOutput>"


@pytest.mark.parametrize("name", ["clean", "the-word-error-alone"])
def test_a_report_without_records_is_clean(name: str) -> None:
    assert read_report(SAMPLES / f"{name}.xml") == ()


def test_a_record_is_read_with_kernel_place_and_program() -> None:
    ours, other = read_report(SAMPLES / "read-past-the-ids.xml")
    assert ours == Record(
        "Precise",
        "Error",
        "Invalid __global__ read of size 8 bytes",
        "zero_chunk",
        "/project/kernels.py:41",
        (3, 1, 0),
    )
    assert ours.line() == (
        "Error: Invalid __global__ read of size 8 bytes in zero_chunk by program "
        "(3, 1, 0) at /project/kernels.py:41"
    )
    assert (other.function, other.place, other.program) == (
        "at::native::fill(int)",
        "",
        None,
    )


def test_a_record_without_a_level_is_an_error(tmp_path: Path) -> None:
    text = record("<what><text>Uninitialized read</text></what>")
    (told,) = read_report(written(tmp_path, text))
    assert told.line() == "Error: Uninitialized read"


def test_the_tools_own_trouble_is_told_apart() -> None:
    (told,) = read_report(SAMPLES / "device-not-supported.xml")
    assert told.is_of_the_tool


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is no XML"),
        ("<ComputeSanitizerOutput><record>", "it is no XML"),
        ("========= ERROR SUMMARY: 0 errors", "it is no XML"),
        ("<Other/>", "its root is <Other>"),
        ("<ComputeSanitizerOutput><r/></ComputeSanitizerOutput>", "<r> stands where"),
        (record("<level>Error</level>"), "lacks its text: <record><level>Error"),
        (record("<level>Error</level><new/>"), "holds <new>, which is not known"),
        (
            record(
                "<level>Error</level><what><text>x</text></what>",
                "<who><blockIdx><x>?</x></blockIdx></who>",
            ),
            "blockIdx is",
        ),
    ],
)
def test_what_is_no_report_is_never_clean(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(EnvironmentMissingError, match=reason):
        read_report(written(tmp_path, text))


def test_a_report_that_is_missing_or_huge_is_never_clean(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentMissingError, match="it was not written"):
        read_report(tmp_path / "none.xml")
    huge = written(tmp_path, "")
    with huge.open("r+b") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(EnvironmentMissingError, match="are read"):
        read_report(huge)
