"""Kernels of the copy take the pool; who blames the correct has caught nothing."""

import ast
from pathlib import Path

from kvzero.casefile import read_case_file
from tests.peers.marked_copy import PARAMETERS, with_parameters
from tests.peers.score import KILLS, Row, jobs_for, page, scored
from tests.peers.tools import PEERS

KERNEL = """\
@triton.jit(do_not_specialize=["count"])
def zero(
    table_ptr,
    count: tl.int64,
    WIDTH: tl.constexpr,
):
    pass

def host(a, b):
    pass
"""


def test_a_kernel_gets_the_parameters_last_and_on_its_own_lines() -> None:
    changed = with_parameters(KERNEL)
    kernel, host = ast.parse(changed).body
    assert isinstance(kernel, ast.FunctionDef)
    assert isinstance(host, ast.FunctionDef)
    names = [argument.arg for argument in kernel.args.args]
    assert names == ["table_ptr", "count", "WIDTH", *PARAMETERS]
    assert len(kernel.args.defaults) == len(PARAMETERS)
    assert len(host.args.args) == 2
    assert changed.count("\n") == KERNEL.count("\n")


def answers(**ends: str) -> list[Row]:
    return [{"subject": s, "case": "c", "end": e, "why": ""} for s, e in ends.items()]


def test_a_tool_catches_a_fault_only_if_it_leaves_the_correct_alone() -> None:
    jobs: list[Row] = [{"subject": s, "case": "c"} for s in ("fault", "good")]
    expected = {
        ("reported", "clean"): "caught",
        ("died", "cannot run"): "caught",
        ("wrong", "reported"): "false alarm",
        ("clean", "reported"): "missed",
        ("cannot run", "clean"): "cannot run",
    }
    for (fault, good), verdict in expected.items():
        score = scored(PEERS[0], jobs, answers(fault=fault, good=good), "")
        assert score.cells["fault"].verdict == verdict
        assert bool(score.alarms) == (good == "reported")
    silent = scored(PEERS[0], jobs, [], "it did not start")
    assert silent.cells["fault"].why == "it did not start"
    assert any("it did not start" in line for line in page([silent], "make", "it"))


def test_every_shrunk_case_is_run_with_a_correct_subject() -> None:
    files = sorted(KILLS.glob("*.json"))[:4]
    jobs = list(jobs_for(files))
    for file in files:
        subjects = [job["subject"] for job in jobs if Path(job["case"]) == file]
        found = read_case_file(file).found
        assert found is not None
        assert subjects[0] == found.subject
        assert "kvzero" in subjects[1:]
