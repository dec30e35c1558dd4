"""Subjects of packages outside the project, found by entry point.

A package is a module and a ``dist-info`` folder beside it, which is all that an
installer leaves: on the path of a process it is installed.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvzero.casefile import read_case_file
from kvzero.errors import SubjectError
from kvzero.executors.isolated import is_built_in
from kvzero.report.doctor import diagnose, diagnosis_lines
from kvzero.subjects.offers import offers
from kvzero.subjects.registry import find_subject, subject_names

PLANTED = """
from kvzero import Contract, MadeSubject

class Zeroer:
    def __init__(self, pool):
        self.tensors, self.table = pool.tensors, pool.layout.table
    def zero(self, block_ids):
        for allocation, offset, stride, page in zip(*(c.tolist() for c in self.table)):
            for block in block_ids:
                begin = offset + int(block) * {step}
                self.tensors[allocation][begin : begin + page] = 0

CONTRACT = Contract(checks_ids=False, uses_triton=False)
ZEROER = MadeSubject("whatever it calls itself", CONTRACT, Zeroer)
"""


def install(
    folder: Path, distribution: str, module: str, text: str, *, as_: str
) -> None:
    """Lay a package and its metadata into a folder, as an installer does."""
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    info = folder / f"{distribution}-2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 2.1\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        f"[kvzero.subjects]\n{as_} = {module}:ZEROER\n", encoding="utf-8"
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder whose packages are installed, here and in child processes."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    offers.cache_clear()
    yield folder
    offers.cache_clear()


def test_subject_of_an_installed_package_is_found_under_its_offered_name(
    site: Path,
) -> None:
    assert "theirs" not in subject_names()
    offers.cache_clear()
    install(
        site, "their_zeroer", "theirs_a", PLANTED.format(step="stride"), as_="theirs"
    )
    assert "theirs" in subject_names()
    assert find_subject("theirs").name == "theirs"
    assert not is_built_in("theirs")
    with pytest.raises(
        SubjectError, match=r"did you mean theirs\? known are .* theirs"
    ):
        find_subject("their")


def test_broken_package_is_named_and_harms_nobody_else(site: Path) -> None:
    install(site, "broken_zeroer", "broken_b", "import no_such_module", as_="broken")
    install(site, "odd_zeroer", "odd_b", "ZEROER = 7", as_="odd")
    install(site, "good_zeroer", "good_b", PLANTED.format(step="stride"), as_="good")
    with pytest.raises(SubjectError) as told:
        find_subject("broken")
    assert str(told.value) == (
        "subject='broken', which broken_zeroer 2.1 offers as 'broken_b:ZEROER', but "
        "broken_b cannot be imported: ModuleNotFoundError: No module named "
        "'no_such_module'"
    )
    with pytest.raises(
        SubjectError, match=r"odd_zeroer 2\.1 .* it lacks name, contract"
    ):
        find_subject("odd")
    assert find_subject("good").name == "good"
    assert find_subject("narrow-z").name == "narrow-z"


def test_name_that_several_offer_is_refused_with_all_owners(site: Path) -> None:
    for package, module, name in (
        ("greedy_zeroer", "greedy_c", "narrow-z"),
        ("faulty_zeroer", "faulty_c", "page-as-stride"),
        ("first_zeroer", "first_c", "mine"),
        ("second_zeroer", "second_c", "mine"),
    ):
        install(site, package, module, PLANTED.format(step="stride"), as_=name)
    for name, owners in (
        ("narrow-z", "kvzero itself and by greedy_zeroer 2.1"),
        ("page-as-stride", "kvzero itself and by faulty_zeroer 2.1"),
        ("mine", "first_zeroer 2.1 and by second_zeroer 2.1"),
    ):
        with pytest.raises(SubjectError, match=f"one subject's name: .* by {owners}: "):
            find_subject(name)
    assert find_subject("flat-1d").name == "flat-1d"
    assert find_subject("first_c:ZEROER").name == "first_c:ZEROER"


def test_doctor_tells_what_packages_offer(site: Path) -> None:
    install(site, "broken_zeroer", "broken_d", "import no_such_module", as_="broken")
    install(site, "good_zeroer", "good_d", PLANTED.format(step="stride"), as_="good")
    found = diagnose()
    problems = {each.name: each.problem for each in found.subjects}
    assert problems["good"] is None
    assert "no_such_module" in (problems["broken"] or "")
    lines = diagnosis_lines(found)
    assert "  good          good_zeroer 2.1: can be judged" in lines


@pytest.mark.slow
def test_planted_fault_of_an_installed_package_is_found_and_shrunk(
    site: Path, tmp_path: Path
) -> None:
    install(site, "their_zeroer", "theirs_e", PLANTED.format(step="page"), as_="theirs")
    command = [sys.executable, "-m", "kvzero", "fuzz", "--subject", "theirs"]
    options = ["--max-examples", "300", "--seed", "1", "--executor", "footprint"]
    options += ["--no-isolate"]  # it harms no process, and a second one takes seconds
    done = subprocess.run(
        [*command, *options, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["subject"] == "theirs"
    costs = [found for found in result["violations"] if found["kind"] == "cost"]
    # Without --strict-cost a cost is told, and neither shrunk nor saved.
    assert {found["file"] for found in costs} <= {None}
    faults = [found for found in result["violations"] if found not in costs]
    assert faults
    for found in faults:
        assert (found["runs"], found["blocks"]) <= (2, 3)
        saved = read_case_file(tmp_path / found["file"]).found
        assert saved is not None
        assert saved.subject == "theirs"
