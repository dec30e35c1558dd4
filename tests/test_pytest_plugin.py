"""The plugin, in test runs of its own.

They run in this process, and pytester forgets the modules that each run imports; torch
does not survive being imported twice. So everything is imported here first.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kvzero.campaign.checking
import kvzero.executors.footprint
import kvzero.subjects.faults.mask_missing
import kvzero.subjects.ours
import kvzero.subjects.torch_writers  # noqa: F401 - see above
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import Finding, write_case_file
from kvzero.layout import Allocation, Layout, Run

pytest_plugins = ["pytester"]

CASE = Case(
    Layout(2, (Allocation(256),), (Run(20, 64),)), (Call((IdRun(1), IdRun(0))),)
)
FOUND = Finding(
    "unlisted_bytes_are_untouched", "fault", "w", "mask-missing", "footprint"
)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a project with one case file, found on a faulty subject."""
    folder = pytester.mkdir("regressions") / "unlisted_bytes_are_untouched"
    write_case_file(folder / "short-page.json", CASE, FOUND)
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    executor = ("--kvzero-executor", "footprint")
    return project.runpytest_inprocess("-p", "no:cacheprovider", *executor, *arguments)


def test_a_case_file_is_a_test_on_the_subject_that_it_was_found_with(
    project: pytest.Pytester,
) -> None:
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*unlisted_bytes_are_untouched: *",
            "*replay *kvzero replay regressions/*/short-page.json --subject *",
        ]
    )


def test_the_subject_can_be_chosen_by_option(project: pytest.Pytester) -> None:
    run(project, "--kvzero-subject", "kvzero").assert_outcomes(passed=1)


def test_the_subject_can_be_chosen_by_ini(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nkvzero_subject = kvzero\n")
    run(project).assert_outcomes(passed=1)


def test_a_broken_case_file_fails_with_one_clear_line(
    project: pytest.Pytester,
) -> None:
    broken = project.path / "regressions" / "broken.json"
    broken.write_text('{"kvzero": 1}', encoding="utf-8")
    result = run(project, "--kvzero-subject", "kvzero", str(broken))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*broken.json*case*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_case_whose_property_was_not_judged_is_skipped_with_the_reason(
    project: pytest.Pytester,
) -> None:
    bad_ids = Finding("bad_ids_are_refused", "fault", "w", "kvzero", "footprint")
    write_case_file(project.path / "regressions" / "ids.json", CASE, bad_ids)
    result = run(project, "-rs", "regressions/ids.json")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*bad_ids_are_refused was not judged: *"])


def test_json_outside_a_folder_of_regressions_is_left_alone(
    project: pytest.Pytester,
) -> None:
    (project.path / "other.json").write_text("{", encoding="utf-8")
    run(project, "other.json").assert_outcomes()


@pytest.mark.slow
def test_loading_the_plugin_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert 'kvzero.pytest_plugin' in sys.modules\n"
        "    heavy = {'torch', 'triton', 'numpy', 'hypothesis'}\n"
        "    assert not heavy & set(sys.modules)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(
        [*command, str(test)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_passes_a_right_zeroer_in_three_lines(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "def test_mine(kvzero_check):\n    kvzero_check('torch-loop', max_examples=5)\n"
    )
    run(pytester).assert_outcomes(passed=1)


def test_check_fails_with_the_located_explanation_and_saves_the_case(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        "def test_mine(kvzero_check):\n    kvzero_check('mask-missing', seed=2)\n"
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "unlisted_bytes_are_untouched: *",
            "  written  by program * at mask_missing.py:*",
            "  replay   kvzero replay regressions/unlisted_bytes_*/*.json",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*checking.py*")
    saved = list(pytester.path.glob("regressions/unlisted_bytes_are_untouched/*.json"))
    assert len(saved) == 1


def test_check_takes_a_subject_as_it_is_and_a_preset(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from kvzero import Contract, MadeSubject

        class Nothing:
            def __init__(self, pool):
                pass
            def zero(self, block_ids):
                pass

        MINE = MadeSubject("mine", Contract(checks_ids=False), Nothing)

        def test_mine(kvzero_check):
            kvzero_check(MINE, max_examples=0, preset="trtllm_llama3_8b_pool")
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "listed_pages_are_zero: block 1, byte 0 = 0x*, but should be 0x00 *",
            "  replay   kvzero verify --preset trtllm_llama3_8b_pool --subject mine",
        ]
    )


def test_check_of_a_zeroer_of_which_nothing_is_judged_fails(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        from kvzero import Contract, MadeSubject

        class Scaling:
            def __init__(self, pool):
                self.tensors = pool.tensors
            def zero(self, block_ids):
                self.tensors[0].mul_(0)

        MINE = MadeSubject("mine", Contract(checks_ids=False), Scaling)

        def test_mine(kvzero_check):
            kvzero_check(MINE, max_examples=0, preset="trtllm_llama3_8b_pool")
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["nothing of mine was judged: *aten::mul_.Tensor*"])


KNOWN = """
[[known]]
subject = "mask-missing"
property = "unlisted_bytes_are_untouched"
kind = "fault"
what = "unlisted-byte-stored"
case = "regressions/unlisted_bytes_are_untouched/{case}.json"
reason = "https://example.org/1"
"""


def test_known_finding_is_an_expected_failure(project: pytest.Pytester) -> None:
    (project.path / "known.toml").write_text(KNOWN.format(case="short-page"))
    project.makeini("[pytest]\nkvzero_known = known.toml\n")
    project.makepyfile(
        "def test_mine(kvzero_check):\n"
        "    kvzero_check('mask-missing', max_examples=10)\n"
    )
    result = run(project, "-rx")
    result.assert_outcomes(xfailed=1, passed=1)
    result.stdout.fnmatch_lines(["*known: https://example.org/1*"])


def test_known_finding_that_no_longer_fails_fails(project: pytest.Pytester) -> None:
    whole = replace(CASE, layout=Layout(2, (Allocation(256),), (Run(64, 64),)))
    folder = project.path / "regressions" / "unlisted_bytes_are_untouched"
    (folder / "short-page.json").unlink()
    write_case_file(folder / "whole.json", whole, FOUND)
    (project.path / "known.toml").write_text(KNOWN.format(case="whole"))
    project.makepyfile(
        "def test_mine(kvzero_check):\n"
        "    kvzero_check('mask-missing', max_examples=10)\n"
    )
    result = run(project, "--kvzero-known", "known.toml")
    result.assert_outcomes(failed=2)
    line = "*known.toml: known?0?: mask-missing on *whole.json no longer breaks *"
    result.stdout.fnmatch_lines([line, line])
