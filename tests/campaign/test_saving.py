"""One file a fault, whoever else saves at the same moment."""

import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvzero.campaign import saving
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.saving import save_found_once, save_once, shown_path
from kvzero.campaign.tally import Found
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import read_case_file
from kvzero.executors.footprint import FootprintExecutor
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import Pool
from kvzero.observation import Observation
from kvzero.properties.verdict import Broken, Violation
from kvzero.subjects.protocol import Contract, MadeSubject, Zeroer
from kvzero.subjects.registry import find_subject

FOLDERS = count()


def case_of(blocks: int) -> Case:
    layout = Layout(blocks, (Allocation(8 * blocks),), (Run(8, 8),))
    return Case(layout, (Call((IdRun(0),)),))


def never_built(_pool: Pool) -> Zeroer:
    raise AssertionError


@dataclass
class StubJudge(Judge):
    """Says of every case what `violations` does."""

    violations: Callable[[Case], tuple[Violation, ...]] = lambda _case: ()

    def __call__(self, case: Case) -> Judged:
        seen = Observation(self.subject.name, "footprint", "TTIR", "")
        return Judged(case, seen, (Broken("p", self.violations(case)),))


def stub_judge(violations: Callable[[Case], tuple[Violation, ...]]) -> StubJudge:
    subject = MadeSubject("stub", Contract(), never_built)
    return StubJudge(subject, FootprintExecutor(), violations=violations)


def violation(place: str = "a.py:1", what: str = "w") -> Violation:
    return Violation("p", "fault", what, "claim", place)


def save(judge: Judge, folder: Path, blocks: int) -> Found:
    judged = judge(case_of(blocks))
    found = Found(judged.violations[0], judged)
    save_found_once(found, judge, folder)
    return found


def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / f"saved-{next(FOLDERS)}"


@settings(max_examples=10)
@given(
    kinds=st.lists(st.sampled_from(["a.py:1", "a.py:2", "b.py:1"]), min_size=1),
)
@example(kinds=["a.py:1"] * 20)
@example(kinds=["a.py:1", "b.py:1"] * 10)
def test_workers_that_save_at_one_moment_leave_one_file_for_each_fault(
    kinds: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = fresh(tmp_path_factory)
    judge = stub_judge(lambda case: (violation(kinds[case.layout.num_blocks - 1]),))
    barrier = Barrier(len(kinds))

    def work(index: int) -> Found:
        barrier.wait(60)
        return save(judge, folder, index + 1)

    with ThreadPoolExecutor(len(kinds)) as pool:
        found = list(pool.map(work, range(len(kinds))))
    files = {path: read_case_file(path) for path in folder.glob("p/*")}
    assert len(files) == len(set(kinds))
    for each, kind in zip(found, kinds, strict=True):
        told = files[Path(str(each.file))]
        assert judge(told.case).violations[0].place == kind
        assert each.replay == f"kvzero replay {shown_path(Path(str(each.file)))}"


def test_a_saved_case_that_no_longer_fails_is_not_the_fault(tmp_path: Path) -> None:
    old = save(stub_judge(lambda _case: (violation(),)), tmp_path, 1)
    fixed = stub_judge(lambda c: (violation(),) if c.layout.num_blocks > 1 else ())
    new = save(fixed, tmp_path, 2)
    assert new.file != old.file
    assert len(list(tmp_path.glob("p/*"))) == 2


def test_a_saved_case_of_another_subject_is_not_the_fault(tmp_path: Path) -> None:
    judge = stub_judge(lambda _case: (violation(),))
    save(judge, tmp_path, 1)
    other = replace(judge, subject=MadeSubject("other", Contract(), never_built))
    save(other, tmp_path, 2)
    assert len(list(tmp_path.glob("p/*"))) == 2


def test_a_fault_that_no_run_settles_is_saved_once(tmp_path: Path) -> None:
    judge = stub_judge(lambda _case: ())
    for blocks in (1, 2, 3):
        found = Found(violation(), judge(case_of(blocks)), flaky=True)
        save_found_once(found, judge, tmp_path)
    assert len(list(tmp_path.glob("p/*"))) == 1


def test_files_that_hold_no_case_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "broken.json").write_text("{", encoding="utf-8")
    found = save(stub_judge(lambda _case: (violation(),)), tmp_path, 1)
    assert read_case_file(str(found.file)).found is not None


def test_a_lock_that_cannot_be_had_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "LOCK_SECONDS", 0.0)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        path = save_once(tmp_path, "*", lambda _path: True, lambda: tmp_path / "new")
    finally:
        os.close(descriptor)
    assert path == tmp_path / "new"


def test_the_subject_is_named_as_another_process_finds_it(tmp_path: Path) -> None:
    subject = find_subject("mask-missing")
    judge = Judge(subject, FootprintExecutor())
    judged = judge(
        Case(Layout(2, (Allocation(256),), (Run(20, 64),)), case_of(1).calls)
    )
    found = Found(judged.violations[0], judged)
    save_found_once(found, replace(judge, subject=MINE), tmp_path)
    file = read_case_file(str(found.file))
    assert file.found is not None
    assert file.found.subject == f"{__name__}:MINE"


MINE = MadeSubject("mine", Contract(), find_subject("mask-missing").build)
