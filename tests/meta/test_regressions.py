"""The committed cases still show what they were saved for."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from kvzero.campaign.judging import Judge
from kvzero.casefile import read_case_file
from kvzero.executors import executor_named
from kvzero.subjects.registry import find_subject

FOLDER = Path(__file__).parents[2] / "regressions"
FILES = sorted(FOLDER.rglob("*.json"))
FOOTPRINT = executor_named("footprint", max_programs=200_000)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_fails_on_the_subject_that_it_was_found_with(path: Path) -> None:
    file = read_case_file(path)
    assert file.found is not None
    if file.found.subject == "vllm" and find_spec("vllm") is None:
        pytest.skip("vllm is not installed here: tox -e vllm shows its findings")
    judged = Judge(find_subject(file.found.subject), FOOTPRINT)(file.case)
    seen = {(violation.property, violation.what) for violation in judged.violations}
    assert (file.found.property, file.found.what) in seen
