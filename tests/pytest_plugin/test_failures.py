"""A failing property test leaves its shrunk case, a picture and the way to go on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvzero.casefile import read_case_file
from kvzero.layout import Allocation, Layout, Run
from tests.pytest_plugin.conftest import RunPytest

pytest_plugins = ["pytester"]

HEAD = """
import pytest
from hypothesis import given, settings, strategies as st
from kvzero import Allocation, Call, Case, Contract, IdRun, Layout, MadeSubject, Run
from kvzero.strategies import cases

quick = settings(max_examples=20, deadline=None, derandomize=True, database=None)

def case_of(page, stride=512):
    layout = Layout(2, (Allocation(2 * stride),), (Run(page, stride),))
    return Case(layout, (Call((IdRun(0),)),))

some = st.integers(1, 99).map(lambda words: case_of(4 * words))
"""
WORKERS = int(os.environ.get("KVZERO_TEST_WORKERS", "2"))


def saved(pytester: pytest.Pytester) -> list[str]:
    folder = pytester.path / "regressions"
    return sorted(
        str(p.relative_to(folder)) for p in folder.glob("**/*") if p.is_file()
    )


def test_given_test_saves_and_pictures_what_the_judge_found(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        test_it=HEAD
        + """
@quick
@given(case=some)
def test_mine(kvzero_judge, case):
    kvzero_judge("mask-missing", case)
"""
    )
    result = run_pytest()
    result.assert_outcomes(failed=1)
    (name,) = saved(pytester)
    assert name.startswith("unlisted_bytes_are_untouched/unlisted-byte-stored-")
    result.stdout.fnmatch_lines(
        [
            "E  *unlisted_bytes_are_untouched: *, but should be *",
            f"E    *replay   kvzero replay regressions/{name}",
            "*- kvzero memory map -*",
            "wrong bytes",
            "*touched 1 *XXXX*",
            "FAILED * - kvzero.UnlistedByteStored*",
        ]
    )
    result.stdout.no_fnmatch_line("*def refuse_broken*")
    file = read_case_file(pytester.path / "regressions" / name)
    assert file.found is not None
    assert file.found.subject == "mask-missing"
    assert file.case.layout.runs == (Run(12, 512),)  # shrunk


def test_given_test_of_ones_own_saves_the_case_that_it_fails_on(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        test_own=HEAD
        + """
@quick
@given(case=cases())
def test_small(case):
    assert case.layout.num_blocks < 3
"""
    )
    run_pytest().assert_outcomes(failed=1)
    result = run_pytest("--kvzero-subject", "kvzero", "test_own.py")
    (name,) = saved(pytester)
    assert name.startswith("test_own.test_small/assertionerror-line-")
    result.stdout.fnmatch_lines(
        [
            "*- kvzero case -*",
            f"saved    regressions/{name}",
            f"replay   kvzero replay regressions/{name} --subject kvzero",
            "again    pytest test_own.py::test_small",
            "*- kvzero memory map -*",
            "1 segment, 3 blocks, 1 allocation, *",
        ]
    )
    file = read_case_file(pytester.path / "regressions" / name)
    assert (file.case.layout.num_blocks, file.found) == (3, None)


def test_what_is_expected_to_fail_saves_nothing(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.xfail(reason="known")
def test_mine(kvzero_judge):
    kvzero_judge("mask-missing", case_of(20))

@pytest.mark.xfail
@quick
@given(case=some)
def test_own(case):
    assert not case.calls
"""
    )
    run_pytest().assert_outcomes(xfailed=2)
    assert saved(pytester) == []


def test_failures_that_are_not_of_a_case_save_nothing(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        HEAD
        + """
from hypothesis.errors import InvalidArgument

CASE = case_of(20)

@quick
@given(case=some)
def test_hypothesis_says_no(case):
    raise InvalidArgument("no")

@quick
@given(number=st.integers())
def test_of_numbers(number):
    assert number < 3

def test_plain():
    case = CASE
    assert not case
"""
    )
    result = run_pytest()
    result.assert_outcomes(failed=3)
    result.stdout.no_fnmatch_line("*kvzero memory map*")
    assert saved(pytester) == []


@pytest.mark.parametrize("where", ["taken", "taken/deeper"])
def test_what_cannot_be_saved_is_told_all_the_same(
    where: str, pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    (pytester.path / "taken").write_text("")
    pytester.makepyfile(
        HEAD
        + """
def test_judge(kvzero_judge):
    kvzero_judge("mask-missing", case_of(20))

@quick
@given(case=some)
def test_own(case):
    assert not case.calls
"""
    )
    result = run_pytest("--kvzero-regressions", where)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*unlisted_bytes_are_untouched: *",
            "*replay   not saved: *taken*",
            "*kvzero memory map*",
            "not saved: *taken*",
        ]
    )


def test_case_of_which_nothing_is_judged_does_not_pass(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        HEAD
        + """
class Scaling:
    def __init__(self, pool):
        self.tensors = pool.tensors
    def zero(self, block_ids):
        self.tensors[0].mul_(0)

MINE = MadeSubject("mine", Contract(checks_ids=False), Scaling)

def test_plain(kvzero_judge):
    kvzero_judge(MINE, case_of(20))

@quick
@given(case=some)
def test_given(kvzero_judge, case):
    kvzero_judge(MINE, case)
"""
    )
    result = run_pytest("-rs")
    result.assert_outcomes(failed=1, skipped=1)
    told = "*nothing of mine was judged: *aten::mul_.Tensor"
    result.stdout.fnmatch_lines(
        ["*FailedHealthCheck*", "*- kvzero: not judged -*", f"{told} (* cases)"]
    )
    result.stdout.fnmatch_lines([f"SKIPPED {told}"])


def test_judge_returns_what_was_seen_of_a_case_that_passes(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_mine(kvzero_judge):
    judged = kvzero_judge("torch-loop", case_of(20))
    assert judged.observation.subject == "torch-loop"
"""
    )
    run_pytest().assert_outcomes(passed=1)


def test_subject_is_saved_under_a_name_that_others_find(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(
        test_lazy=HEAD
        + """
class Nothing:
    def __init__(self, pool):
        pass
    def zero(self, block_ids):
        pass

MINE = MadeSubject("mine", Contract(checks_ids=False), Nothing)

def test_mine(kvzero_judge):
    kvzero_judge(MINE, case_of(20))
"""
    )
    run_pytest().assert_outcomes(failed=1)
    (name,) = saved(pytester)
    file = read_case_file(pytester.path / "regressions" / name)
    assert file.found is not None
    assert file.found.subject == "test_lazy:MINE"
    assert file.case.layout == Layout(2, (Allocation(1024),), (Run(20, 512),))


@pytest.mark.slow
def test_workers_that_fail_on_two_faults_leave_two_cases(tmp_path: Path) -> None:
    """Each of KVZERO_TEST_WORKERS workers (2) fails on both, on cases of its own."""
    test = tmp_path / "test_both.py"
    text = """
@pytest.mark.parametrize("subject", ["mask-missing", "tail-not-written"])
def test_both(kvzero_judge, worker_id, subject):
    kvzero_judge(subject, case_of(20 + 16 * int(worker_id.removeprefix("gw"))))
"""
    test.write_text(HEAD + text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    spread = ["--tx", f"{WORKERS}*popen", "--dist", "each"]
    # Where CI is set, pytest's summary repeats each failure in full.
    alone = {name: text for name, text in os.environ.items() if name != "CI"}
    done = subprocess.run(
        [*command, *spread, "--kvzero-executor", "footprint"],
        cwd=tmp_path,
        env=alone,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert f"{2 * WORKERS} failed" in done.stdout, done.stdout + done.stderr
    left = [path for path in tmp_path.glob("regressions/**/*") if path.is_file()]
    found = {path: read_case_file(path).found for path in left}
    subjects = sorted(each.subject for each in found.values() if each is not None)
    assert subjects == ["mask-missing", "tail-not-written"]
    for path in left:
        replay = f"replay   kvzero replay {path.relative_to(tmp_path)}"
        assert done.stdout.count(replay) == WORKERS
