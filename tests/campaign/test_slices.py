"""Rows cut into slices that are lost and worked again: nothing lost, nothing twice."""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvzero.campaign.board import Board
from kvzero.campaign.coverage import Coverage
from kvzero.campaign.folder import Folder
from kvzero.campaign.fuzz import batch_seed
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.position import Position
from kvzero.campaign.remote import RemotePlaces, RemoteSlot
from kvzero.campaign.settings import Settings, settings_from_json
from kvzero.campaign.shard import Shard, _Leaves
from kvzero.campaign.slices import (
    Brought,
    SliceBoard,
    carried_out,
    code_version,
    death_report,
    draw_arguments,
    shrink_arguments,
)
from kvzero.case import Case
from kvzero.casefile import write_case_file
from kvzero.errors import EnvironmentMissingError, SubjectError
from kvzero.observation import Death, Observation
from kvzero.properties.registry import judge as judged_properties

from .conftest import SUBJECT, FakeExecutor
from .test_folder import a_board, a_case, an_entry

Json = Any  # a JSON document
BATCH = 6
FEW = settings(
    max_examples=4,
    deadline=None,
    # An example is a whole campaign, whose workers draw with seeds of their own.
    suppress_health_check=[HealthCheck.nested_given],
)


@pytest.fixture(autouse=True, scope="module")
def small_batches() -> Any:
    """Have a few cases make several batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvzero.campaign.shard.BATCH", BATCH)
        yield


def many_blocks(case: Case) -> bool:
    return case.layout.num_blocks > 4


class Lost(Exception):  # noqa: N818 - a machine that is lost, not an error of ours
    """A machine went away with what it had done."""


class FakeCluster:
    """Works on slices in this process, of so many cases; some are lost and done again.

    Attributes:
        lengths: How many cases the slices have, in turn.
        losses: Which of the tries are lost.
        drawn: Cases of the tries that were not.
    """

    def __init__(self, lengths: list[int], losses: set[int] | None = None) -> None:
        self.lengths = lengths
        self.losses = losses or set()
        self.tries = 0
        self.drawn: list[Case] = []
        self.works: list[str] = []

    def submit(self, work: str, arguments: Json, _seconds: float) -> "FakeTask":
        self.works.append(work)
        told = json.loads(json.dumps(arguments))  # it travels
        while True:
            try:
                return FakeTask(self._work(work, told))
            except Lost:
                continue

    def _work(self, work: str, arguments: Json) -> Brought:
        if work == "shrink":
            return Brought(settled={**arguments["entry"], "state": "settled"})
        number, self.tries = self.tries, self.tries + 1
        length = self.lengths[number % len(self.lengths)]
        judge = Judge(SUBJECT, FakeExecutor(many_blocks))
        reports: list[Json] = []

        def take(report: Json) -> float:
            reports.append(json.loads(json.dumps(report)))
            if sum(each["counts"]["cases"] for each in reports) >= length:
                raise _Leaves
            return 0.0

        with TemporaryDirectory() as path:
            given = {
                **arguments,
                "replay": [],
                "database": None,
                "journal": f"{path}/journal.jsonl",
            }
            chosen = settings_from_json(arguments["settings"])
            Shard(judge, chosen, given, take, 0.0).run()
        if number in self.losses:
            raise Lost
        self.drawn += judge.executor.seen  # type: ignore[attr-defined]  # the fake keeps them
        return Brought(tuple(reports))


class FakeTask:
    """A slice that is done."""

    def __init__(self, brought: Brought) -> None:
        self.brought = brought

    def wait(self, _seconds: float) -> bool:
        return True

    def result(self) -> Brought:
        return self.brought

    def cancel(self) -> None:
        raise AssertionError("it is done")


class EndlessCluster:
    """Gives no slice back."""

    def __init__(self) -> None:
        self.cancelled = 0

    def submit(self, _work: str, _arguments: Json, _seconds: float) -> "EndlessCluster":
        return self

    def wait(self, _seconds: float) -> bool:
        return False

    def result(self) -> Brought:
        raise AssertionError("it is never done")

    def cancel(self) -> None:
        self.cancelled += 1


def campaign(cluster: FakeCluster, path: Path, **chosen: Any) -> Board:
    """Run the places of a campaign, one after another; return its board."""
    board = a_board(Folder(path / "corpus"), path, **chosen)
    places = RemotePlaces(cluster)
    for index in range(board.settings.workers):
        places(board, index).run()
    if board.error is not None:
        raise board.error
    return board


def sums(board: Board) -> Json:
    """Return what a board counts and has met, less times."""
    told = board.as_json()
    kept = ("counts", "met", "findings", "workers")
    return {name: told[name] for name in kept}


@given(st.integers(0, 10_000), st.integers(1, 60))
def test_workers_share_exactly_the_cases(cases: int, workers: int) -> None:
    chosen = Settings(cases=cases, workers=workers)
    shares = [chosen.share(index) or 0 for index in range(workers)]
    assert sum(shares) == cases
    assert max(shares) - min(shares) <= 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 40))
def test_no_two_batches_of_any_workers_have_one_seed(
    seed: int, workers: int, batches: int
) -> None:
    rows = [batch_seed(seed, worker) for worker in range(workers)]
    seeds = [batch_seed(row, batch) for row in rows for batch in range(batches)]
    assert len(set(seeds)) == workers * batches


@pytest.mark.slow
@FEW
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 2),
    st.integers(1, 16),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.sets(st.integers(0, 12), max_size=6),
)
def test_slices_bring_what_whole_rows_do_whatever_is_lost(
    seed: int, workers: int, cases: int, lengths: list[int], losses: set[int]
) -> None:
    chosen = {"seed": seed, "workers": workers, "cases": cases, "shrink_seconds": 0.0}
    whole, cut = FakeCluster([cases]), FakeCluster(lengths, losses)
    with TemporaryDirectory() as path:
        expected = campaign(whole, Path(path) / "whole", **chosen)
        board = campaign(cut, Path(path) / "cut", **chosen)
    assert board.tally.cases == cases
    assert cut.drawn == whole.drawn
    assert sums(board) == sums(expected)


@pytest.fixture(scope="module")
def rows() -> list[list[Json]]:
    """Return the reports of three workers' slices."""
    with TemporaryDirectory() as path:
        board = a_board(Folder(Path(path)), Path(path), **THREE)
        return [
            list(_slice_of(draw_arguments(board, index), length=2))
            for index in range(3)
        ]


def _slice_of(arguments: Json, length: int) -> tuple[Json, ...]:
    return FakeCluster([length]).submit("draw", arguments, 0.0).result().reports


THREE = {"seed": 5, "workers": 3, "cases": 24, "shrink_seconds": 0.0}


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_boards_are_the_same_in_whatever_order_reports_come(
    rows: list[list[Json]], data: st.DataObject
) -> None:
    left = [[(index, report) for report in row] for index, row in enumerate(rows)]
    in_turn = [each for row in left for each in row]
    mixed = []
    while any(left):
        row = data.draw(st.sampled_from([row for row in left if row]))
        mixed.append(row.pop(0))
    boards = []
    for order in (in_turn, mixed):
        with TemporaryDirectory() as path:
            boards.append(a_board(Folder(Path(path)), Path(path), **THREE))
            for index, report in order:
                boards[-1].take(index, report)
    first, second = boards
    assert {**sums(second), "workers": None} == {**sums(first), "workers": None}
    assert second.positions == first.positions
    assert second.tally.cases == 6


def test_findings_are_shrunk_once_and_by_the_cluster(tmp_path: Path) -> None:
    cluster = FakeCluster([10])
    board = campaign(cluster, tmp_path, seed=5, workers=2, cases=40)
    entries = list(board.findings)
    assert entries
    assert {entry.state for entry in entries} == {"settled"}
    assert cluster.works.count("shrink") == len(entries)
    assert all(Path(str(entry.file)).exists() for entry in entries)


def test_an_error_of_a_slice_stops_the_campaign_and_its_reports_stand(
    tmp_path: Path,
) -> None:
    class Failing(FakeCluster):
        def _work(self, work: str, arguments: Json) -> Brought:
            return replace(super()._work(work, arguments), error=SubjectError("gone"))

    board = a_board(Folder(tmp_path / "corpus"), tmp_path, cases=9)
    RemotePlaces(Failing([4]))(board, 0).run()
    assert isinstance(board.error, SubjectError)
    assert board.tally.cases == 4


def test_a_slice_is_not_waited_for_once_all_is_cut(tmp_path: Path) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path, cases=9)
    board.stop("interrupted")
    board.cut.set()
    endless = EndlessCluster()
    slot = RemotePlaces(endless)(board, 0)
    board.why = ""
    slot._draw()
    assert endless.cancelled == 1
    assert board.tally.cases == 0


@pytest.mark.parametrize("limit", ["seconds", "silence"])
def test_no_slice_is_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    module = "kvzero.campaign.remote"
    board = a_board(
        Folder(tmp_path / "corpus"),
        tmp_path,
        seconds=0.01 if limit == "seconds" else None,
        case_seconds=0.0,
        shrink_seconds=0.0,
    )
    monkeypatch.setattr(f"{module}.SLICE_SECONDS", 0.0)
    if limit == "silence":
        monkeypatch.setattr(f"{module}.SILENT_SECONDS", 0.0)
    endless = EndlessCluster()
    RemotePlaces(endless)(board, 0).run()
    assert endless.cancelled >= 1
    if limit == "seconds":
        assert board.error is None
        assert board.why == "time is up"
    else:
        assert "cluster=silent for" in str(board.error)


def test_a_death_is_a_report_like_any_other(tmp_path: Path) -> None:
    died = Death("killed-by-sigsegv", "killed by SIGSEGV")
    case = a_case(7)
    seen = Observation("fake", "footprint", "TTIR", "", died=died)
    judged = Judged(case, seen, judged_properties(case, seen, SUBJECT.contract))
    place = Position("batches", 2, 3, skip=(4,))
    one = a_board(Folder(tmp_path / "a"), tmp_path / "a")
    one.take_death(0, judged, place)
    other = a_board(Folder(tmp_path / "b"), tmp_path / "b")
    other.take(0, json.loads(json.dumps(death_report(judged, place))))
    assert sums(one) == sums(other)
    assert [each.violation for each in one.findings] == [
        each.violation for each in other.findings
    ]
    assert one.worker_cases == other.worker_cases == {0: 1}


def test_a_slice_lasts_from_its_first_case_on(tmp_path: Path) -> None:
    board = SliceBoard(
        Settings(),
        Folder(tmp_path),
        Judge(SUBJECT, FakeExecutor(many_blocks)),
        lambda *_event: None,
        tmp_path,
    )
    idle = {**death_report(_passing(), Position()), "counts": _no_counts()}
    board.take(0, idle)
    assert not board.is_over(0)
    board.take(0, death_report(_passing(), Position()))
    assert board.is_over(0)
    assert len(board.reports) == 2
    assert not board.may_shrink()


def _passing() -> Judged:
    return Judge(SUBJECT, FakeExecutor(lambda _case: False))(a_case(2))


def _no_counts() -> Json:
    counts = death_report(_passing(), Position())["counts"]
    return {**counts, "cases": 0, "judged": {}, "not_judged": [], "environments": []}


def test_a_worker_gets_its_own_cases_of_the_corpus_alone(tmp_path: Path) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path, workers=2)
    for blocks in (2, 3, 4):
        write_case_file(board.folder.case_path(f"{blocks}.json"), a_case(blocks))
    board.replay = ["2.json", "3.json", "4.json"]
    assert list(draw_arguments(board, 0)["replay"]) == ["2.json", "4.json"]
    assert list(draw_arguments(board, 1)["replay"]) == ["3.json"]
    board.positions[1] = Position("batches")
    assert draw_arguments(board, 1)["replay"] == {}


def test_another_kvzero_is_refused() -> None:
    with pytest.raises(EnvironmentMissingError, match=r"but must be 0\.0\.1 as where"):
        carried_out("draw", "0.0.1", {}, 1.0)
    assert code_version() == code_version.__wrapped__()


@pytest.mark.slow
def test_a_slice_draws_where_it_was_told_to_and_says_what_it_brought(
    tmp_path: Path,
) -> None:
    """The real thing: workers in processes, cases of the corpus, shrinking."""
    board = a_board(
        Folder(tmp_path / "corpus"),
        tmp_path,
        subject="page-as-stride",
        cases=40,
        seed=3,
        workers=2,
    )
    write_case_file(board.folder.case_path("one.json"), a_case(3))
    write_case_file(board.folder.case_path("two.json"), a_case(4))
    board.replay = ["one.json", "two.json"]
    while not board.is_over(1):
        sent = json.loads(json.dumps(draw_arguments(board, 1)))
        brought = carried_out("draw", code_version(), sent, 0.5)
        assert brought.error is None
        for report in brought.reports:
            board.take(1, report)
    assert board.tally.cases == 21  # its half, and one of the two cases of the corpus
    assert isinstance(board.coverage, Coverage)
    assert board.coverage.features > 0
    entry = board.findings.claim()
    assert entry is not None
    sent = json.loads(json.dumps(shrink_arguments(board, 1, entry)))
    brought = carried_out("shrink", code_version(), sent, 2.0)
    assert brought.settled is not None
    assert brought.settled["state"] == "settled"
    assert not brought.settled["flaky"]


def test_places_have_the_numbers_of_their_workers(tmp_path: Path) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path, first_worker=7, workers=2)
    slot = RemotePlaces(FakeCluster([1]))(board, 1)
    assert isinstance(slot, RemoteSlot)
    assert (slot.index, slot.worker, slot.pid, slot.resident_bytes) == (1, 8, None, 0)


def test_an_entry_of_a_death_is_told_to_slices_once_it_is_settled(
    tmp_path: Path,
) -> None:
    board = a_board(Folder(tmp_path / "corpus"), tmp_path)
    entry = an_entry("usual")
    seen = replace(entry.judged.observation, died=Death("usual", "usual"))
    entry.judged = replace(entry.judged, observation=seen)
    board.findings.see(entry)
    assert draw_arguments(board, 0)["usual"] == []
    entry.state = "settled"
    assert len(draw_arguments(board, 0)["usual"]) == 1
