"""Executors in worker processes: harm to a process is observed as anything else is."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from kvzero.case import Call, Case, id_runs
from kvzero.casefile import encode_case
from kvzero.errors import (
    InternalError,
    KvzeroError,
    SubjectError,
)
from kvzero.executors import executor_named
from kvzero.executors.channel import Channel
from kvzero.executors.isolated import (
    MEMORY_BYTES,
    IsolatedExecutor,
    Isolation,
    importable_name,
    is_built_in,
    subject_for,
)
from kvzero.executors.isolated_worker import _send
from kvzero.executors.journal import entries, unfinished
from kvzero.layout import Allocation, Layout, Run
from kvzero.observation import Observation
from kvzero.subjects.protocol import Contract, MadeSubject
from kvzero.subjects.registry import find_subject

pytestmark = pytest.mark.slow  # whichever comes first starts the fork server
LAYOUT = Layout(2, (Allocation(512),), (Run(64, 256),))
HARMS = Case(LAYOUT, (Call(id_runs([1])),))
TAME = Case(LAYOUT, (Call(id_runs([0])),))
KNOWN = find_subject("masked-3d")
MOST_BYTES = 3 * 2**28
Isolated = Callable[..., IsolatedExecutor]


@pytest.fixture
def isolated(wild_subjects: ModuleType, tmp_path: Path) -> Iterator[Isolated]:
    """Return what makes executors, which are closed afterwards."""
    del wild_subjects  # only makes the subjects importable, here and in the worker
    made: list[IsolatedExecutor] = []

    def make(name: str = "footprint", **options: Any) -> IsolatedExecutor:
        options.setdefault("memory_bytes", MOST_BYTES)
        options.setdefault("journal", tmp_path / f"{len(made)}.jsonl")
        made.append(IsolatedExecutor(name, isolation=Isolation(**options)))
        return made[-1]

    yield make
    for executor in made:
        executor.close()


def wild(what: str) -> MadeSubject:
    return MadeSubject(f"wild_subjects:{what}", Contract(), lambda pool: pool)  # type: ignore[arg-type,return-value]  # built in workers only


def what(seen: Observation) -> str:
    assert seen.died is not None
    return seen.died.what


@pytest.mark.parametrize("executor", ["footprint", "host"])
def test_each_harm_is_observed_and_the_next_case_is_clean(
    isolated: Isolated, executor: str
) -> None:
    worker = isolated(executor)
    found = {
        "SEGFAULT": "killed-by-sigsegv",
        "ABORT": "killed-by-sigabrt",
        "LEAVE": "process-exited",
        "RAISE_INTERRUPT": "process-exited",
        "CLOSE_EVERYTHING": "process-exited",
        "CLOBBER": "killed-by-sigsegv",
        "LEAK": "memory-leaked",
    }
    assert {name: what(worker.run(wild(name), HARMS)) for name in found} == found
    seen = worker.run(wild("SEGFAULT"), TAME)
    assert seen.died is None
    assert seen.calls[0].raised is None
    assert (seen.executor, seen.environment[-10:]) == (executor, ", isolated")


@pytest.mark.parametrize("loop", ["LOOP", "LOOP_IN_C"])
def test_a_hang_is_observed_when_the_deadline_is_over(
    isolated: Isolated, loop: str
) -> None:
    worker = isolated()
    worker.describe(f"wild_subjects:{loop}")
    worker.close()
    worker = isolated(deadline_seconds=0.5)
    seen = worker.run(wild(loop), HARMS)
    assert what(seen) == "process-hung"
    assert seen.semantics == "TTIR"


def test_memory_without_end_is_observed_before_the_machine_has_none(
    isolated: Isolated,
) -> None:
    assert what(isolated().run(wild("EXHAUST"), HARMS)) == "out-of-memory"


@pytest.mark.parametrize("executor", ["footprint", "host"])
@pytest.mark.parametrize("name", ["EXHAUST_TORCH", "RAISE_SYSTEM_EXIT"])
def test_what_is_raised_is_no_death(
    isolated: Isolated, executor: str, name: str
) -> None:
    seen = isolated(executor).run(wild(name), HARMS)
    assert seen.died is None
    assert seen.calls[0].raised is not None


def test_isolation_changes_nothing_that_is_observed(isolated: Isolated) -> None:
    subject = KNOWN
    here = executor_named("footprint").run(subject, HARMS)
    there = isolated().run(subject, HARMS)
    assert there.environment == f"{here.environment}, isolated"
    assert (there.calls, there.launches) == (here.calls, here.launches)


def test_a_worker_lives_on_from_case_to_case(isolated: Isolated) -> None:
    worker = isolated()
    subject = KNOWN
    worker.run(subject, HARMS)
    child = worker._child
    worker.run(subject, TAME)
    assert child is worker._child is not None


def test_several_workers_die_and_go_on_at_once(
    isolated: Isolated, tmp_path: Path
) -> None:
    workers = [isolated() for _ in range(3)]
    cases = [("SEGFAULT", HARMS), ("TAME", HARMS), ("ABORT", HARMS), ("ABORT", TAME)]

    def run_all(worker: IsolatedExecutor) -> list[str | None]:
        seen = (worker.run(wild(name), case) for name, case in cases)
        return [each.died.what if each.died else None for each in seen]

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(run_all, workers))
    assert found == [["killed-by-sigsegv", None, "killed-by-sigabrt", None]] * 3
    for index in range(3):
        assert unfinished(tmp_path / f"{index}.jsonl") == []


def test_a_journal_names_every_case_and_how_it_ended(
    isolated: Isolated, tmp_path: Path
) -> None:
    worker = isolated()
    worker.run(KNOWN, TAME)
    worker.run(wild("LEAVE"), HARMS)
    told = [(e.subject, e.outcome) for e in entries(tmp_path / "0.jsonl")]
    harmed = ("wild_subjects:LEAVE", "process-exited")
    # The worker had run another case, so the guilty one was run again by a fresh one.
    assert told == [("masked-3d", "survived"), harmed, harmed]
    assert entries(tmp_path / "0.jsonl")[1].case == encode_case(HARMS)
    assert unfinished(tmp_path / "0.jsonl") == []


def test_a_case_is_in_the_journal_before_it_runs(
    isolated: Isolated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = isolated()
    seen = []

    def interrupted(*_arguments: object) -> None:
        seen.extend(unfinished(tmp_path / "0.jsonl"))
        raise KeyboardInterrupt

    monkeypatch.setattr(worker, "_ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.run(KNOWN, TAME)
    assert [entry.case for entry in seen] == [encode_case(TAME)]
    assert unfinished(tmp_path / "0.jsonl") == []


def test_an_interrupt_leaves_no_answer_for_the_next_case(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = isolated()
    subject = KNOWN
    worker.run(subject, TAME)
    child = worker._child
    assert child is not None

    def interrupted(*_arguments: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(child, "_answered", interrupted)
    with pytest.raises(KeyboardInterrupt):
        worker.run(subject, TAME)
    assert worker._child is None
    assert len(worker.run(subject, HARMS).calls) == 1


def test_a_death_that_does_not_repeat_says_so(
    isolated: Isolated, tmp_path: Path
) -> None:
    worker = isolated(environment={"KVZERO_TEST_ONCE": str(tmp_path / "once")})
    worker.run(KNOWN, TAME)
    seen = worker.run(wild("LEAVE_ONCE"), HARMS)
    assert seen.died is not None
    assert seen.died.text.startswith("process died: exit code 0; not again in a fresh")


def test_a_subject_is_described_without_being_imported_here(
    isolated: Isolated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "deadly_import.py").write_text("import os; os.abort()")
    worker = isolated()
    with pytest.raises(SubjectError, match=r"must not end the process.*SIGABRT"):
        subject_for("deadly_import:ZEROER", worker)
    described = subject_for("wild_subjects:SEGFAULT", worker)
    assert described.contract == KNOWN.contract
    assert what(worker.run(described, HARMS)) == "killed-by-sigsegv"
    with pytest.raises(InternalError, match="must be built in a worker"):
        described.build(None)  # type: ignore[arg-type]  # refused before it is used


def test_errors_of_the_worker_are_raised_here(isolated: Isolated) -> None:
    worker = isolated()
    with pytest.raises(SubjectError, match="no-such-subject"):
        worker.run(MadeSubject("no-such-subject", Contract(), lambda p: p), TAME)  # type: ignore[arg-type,return-value]  # never built
    far = Case(Layout(1, (Allocation(2**40),), (Run(8, 8),)), (Call(id_runs([0])),))
    host = isolated("host")
    assert not host.fits(far)
    assert host.fits(TAME)
    assert "memory, which is this" in dict(host.run(KNOWN, far).not_judged)["*"]


@pytest.mark.parametrize("executor", ["footprint", "host"])
def test_memory_that_the_case_itself_takes_is_no_death(
    isolated: Isolated, executor: str
) -> None:
    large = Case(
        Layout(2, (Allocation(2**29),), (Run(4, 2**28),)), (Call(id_runs([0])),)
    )
    seen = isolated(executor, memory_bytes=2**29).run(KNOWN, large)
    assert seen.died is None
    assert bool(seen.calls) is (executor == "footprint")


def test_a_bug_of_ours_in_the_worker_is_no_death(isolated: Isolated) -> None:
    worker = isolated()
    with pytest.raises(InternalError, match="KeyError"):
        worker._ask_surely({"ask": "no such thing"})


def test_an_answer_that_cannot_be_told_is_no_death() -> None:
    ours, theirs = (Channel(end) for end in socket.socketpair())
    _send(theirs, {"idle_programs": np.int64(0)})
    told = ours.receive()
    ours.socket.close()
    theirs.socket.close()
    assert told["error"] == "InternalError"
    assert "int64 is not JSON serializable" in told["message"]


@pytest.mark.parametrize("answer", [{}, [], None, {"observation": {"calls": 3}}])
def test_an_answer_that_is_no_observation_is_a_death(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    worker = isolated()
    monkeypatch.setattr(worker, "_ask", lambda _request: json.loads(json.dumps(answer)))
    assert what(worker.run(KNOWN, TAME)) == "answer-garbled"


def test_a_worker_that_holds_much_memory_is_replaced(isolated: Isolated) -> None:
    worker = isolated()
    worker.run(KNOWN, TAME)
    assert worker._child is not None
    taken = worker._child.resident_bytes
    small = isolated(memory_bytes=taken + taken // 2)
    assert small.run(KNOWN, TAME).died is None
    assert small._child is None


def test_a_temporary_journal_goes_with_its_executor(isolated: Isolated) -> None:
    worker = isolated(journal=None)
    worker.run(KNOWN, TAME)
    assert worker._journal is not None
    path = Path(f"/proc/self/fd/{worker._journal._file}").readlink()
    assert path.exists()
    worker.close()
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "built_in"), [("kvzero", True), ("page-as-stride", True), ("a:B", False)]
)
def test_only_subjects_with_a_module_are_not_built_in(
    name: str, *, built_in: bool
) -> None:
    assert is_built_in(name) is built_in


def test_a_subject_is_found_by_the_module_that_binds_it(
    wild_subjects: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = MadeSubject("a name of its own", Contract(), lambda pool: pool)  # type: ignore[arg-type,return-value]  # never built
    monkeypatch.setattr(wild_subjects, "NAMED", named, raising=False)
    assert importable_name(named) == "wild_subjects:NAMED"
    assert importable_name(find_subject("kvzero")) == "kvzero"


def test_a_case_that_no_gpu_here_can_run_is_an_error(isolated: Isolated) -> None:
    worker = isolated("device", environment={"CUDA_VISIBLE_DEVICES": ""})
    with pytest.raises(KvzeroError, match="finds no GPU here"):
        worker.run(KNOWN, TAME)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_worker_runs_on_the_gpu_that_its_environment_names(
    isolated: Isolated,
) -> None:
    # CUDA and its libraries take more memory than a worker of a CPU is allowed here.
    worker = isolated(
        "device",
        environment={"CUDA_VISIBLE_DEVICES": "0"},
        memory_bytes=MEMORY_BYTES,
    )
    for _ in range(2):  # forked twice: the server must not have started CUDA
        seen = worker.run(KNOWN, HARMS)
        assert seen.died is None
        assert seen.semantics == "machine"
        assert what(worker.run(wild("SEGFAULT"), HARMS)) == "killed-by-sigsegv"
