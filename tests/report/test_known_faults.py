"""The page of known faults is what the code says."""

from pathlib import Path

from kvzero.report.known_faults import known_faults_page, reference
from kvzero.subjects.faults import fault_subjects
from kvzero.subjects.server_faults import SERVER_FAULTS

PAGE = Path(__file__).parents[2] / "docs" / "known-faults.md"


def test_the_page_of_known_faults_is_current() -> None:
    told = PAGE.read_text()
    assert told == known_faults_page(), f"run: kvzero faults --page docs/{PAGE.name}"


def test_every_known_fault_has_a_row_with_its_reference() -> None:
    page = known_faults_page()
    for fault in fault_subjects():
        assert reference(fault)
        row = next(line for line in page.splitlines() if f"| `{fault.name}` |" in line)
        assert fault.kind in row
        assert f"`{fault.breaks}`: {fault.what}" in row
        assert ("| device |" in row) is fault.needs_gpu
    assert all(f"| `{fault.name}` |" in page for fault in SERVER_FAULTS)


def test_a_reference_is_one_line_without_its_label() -> None:
    by_name = {fault.name: fault for fault in fault_subjects()}
    told = reference(by_name["page-as-stride"])
    assert told == "known-faults A2: public reports, vLLM pull request 50276"
