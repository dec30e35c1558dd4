"""A campaign's worker: it draws and judges cases in its own process, the fast path.

It is asked to work for a slice of time and answers with what that slice brought, so
whoever asks can pause it, watch it and end it. Before a case runs it is in the journal.
Generation never depends on a verdict, with one exception that is a function of the
worker's own cases: the first case that shows a failure ends its batch, which is how
Hypothesis comes to keep the example in its database.
"""

import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import SkipTest

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase
from hypothesis.errors import Flaky

from kvzero.campaign.counts import counts_to_json, pace_to_json
from kvzero.campaign.coverage import Coverage, coverage_from_json, coverage_of
from kvzero.campaign.fuzz import batch_seed, cases_for, failure_class
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.pace import Pace
from kvzero.campaign.position import position_from_json
from kvzero.campaign.settings import Settings, known_from_json, settings_from_json
from kvzero.campaign.tally import Tally
from kvzero.case import Case
from kvzero.casefile import encode_case, read_case_file
from kvzero.errors import (
    CaseError,
    EnvironmentMissingError,
    InternalError,
    KvzeroError,
    PropertyFailure,
)
from kvzero.executors import executor_in_process
from kvzero.executors.channel import Channel
from kvzero.executors.journal import Journal
from kvzero.executors.leaks import LeakWatch
from kvzero.executors.transcript import to_json
from kvzero.properties.verdict import Identity, Violation
from kvzero.subjects.registry import find_subject

Json = Any  # a JSON document
Exchange = Callable[[Json], float]
"""Takes a report and returns for how many seconds to work next."""

BATCH = 100
"""Cases of one run of Hypothesis: whoever replaces a worker draws its batch again."""
MOST_ERRORS = 10
"""Errors of the harness that one slice tells."""


class _Leaves(BaseException):
    """Leaves Hypothesis from inside the test body."""


def identity_digest(identity: Identity) -> str:
    """Return a short name of a failure, equal for equal failures."""
    return sha256("\0".join(identity).encode()).hexdigest()[:16]


def judge_for(settings: Settings) -> Judge:
    """Return a judge that runs cases in this very process."""
    cap = settings.max_programs
    executor = executor_in_process(
        settings.executor, max_programs=cap, memory_bytes=settings.case_bytes
    )
    fallback = None
    if settings.executor == "device":
        fallback = executor_in_process("footprint", max_programs=cap)
    known = tuple(known_from_json(each) for each in settings.known)
    subject = find_subject(settings.subject)
    watch = LeakWatch(executor)
    return Judge(subject, watch, fallback, settings.strict_cost, known)


class Shard:
    """One worker's row of cases.

    Attributes:
        position: Where it stands.
    """

    def __init__(
        self,
        judge: Judge,
        settings: Settings,
        arguments: Json,
        exchange: Exchange,
        seconds: float,
    ) -> None:
        """Prepare; nothing is drawn yet.

        Args:
            judge: What judges every case.
            settings: The campaign's.
            arguments: As for `serve`.
            exchange: What reports go to.
            seconds: Time of the first slice.
        """
        self._judge = judge
        self._settings = settings
        worker = settings.first_worker + arguments["index"]
        self._seed = batch_seed(settings.seed, worker)
        self._share = settings.share(arguments["index"])
        self._replay = [Path(path) for path in arguments["replay"]]
        self._database = _database(arguments["database"])
        self._coverage = coverage_from_json(arguments["coverage"])
        self._journal = Journal(Path(arguments["journal"]))
        self._exchange = exchange
        self._slice_ends = monotonic() + seconds
        self.position = position_from_json(arguments["position"])
        self._place = 0
        self._begun = 0
        self._smallest: dict[Identity, tuple[int, int, str]] = {}
        self._raised: PropertyFailure | None = None
        self._forget()

    def _forget(self) -> None:
        """Begin a new report."""
        self._tally, self._pace = Tally(), Pace()
        self._met = Coverage()
        self._kept: list[Json] = []
        self._errors: list[Json] = []
        self._violations: dict[Identity, Json] = {}

    def run(self) -> None:
        """Work through the row, until its end or until the process is spoilt."""
        stages: dict[str, Callable[[], None]] = {
            "corpus": self._run_corpus,
            "database": self._run_database,
            "batches": self._run_batch,
        }
        try:
            while self.position.stage != "done":
                self._place = 0
                stages[self.position.stage]()
                self.position = self.position.after_batch(self._place)
                if self._is_drawn:
                    self.position = self.position.at_end()
                self._tell()
        except _Leaves:
            return

    @property
    def _is_drawn(self) -> bool:
        return self._share is not None and self.position.behind >= self._share

    def _run_corpus(self) -> None:
        for path in self._replay:
            if self._comes():
                self._replay_file(path)

    def _replay_file(self, path: Path) -> None:
        try:
            case = read_case_file(path).case
        except CaseError as error:  # it was readable when the campaign began
            self._note_error(error, None)
        else:
            self._meet(case)

    def _run_database(self) -> None:
        if self._database is not None:
            with suppress(SkipTest):  # there is no example
                self._run_hypothesis((Phase.reuse,), 1)

    def _run_batch(self) -> None:
        self._run_hypothesis((Phase.generate,), self._batch_size())

    def _batch_size(self) -> int:
        if self._share is None:
            return BATCH
        return max(1, min(BATCH, self._share - self.position.drawn))

    def _run_hypothesis(self, phases: tuple[Phase, ...], most: int) -> None:
        test = hypothesis.given(cases_for(self._judge, self._settings.target))(
            self._body
        )
        seed = batch_seed(self._seed, self.position.batch)
        test = hypothesis.settings(
            max_examples=most,
            database=self._database,
            deadline=None,
            derandomize=False,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            verbosity=hypothesis.Verbosity.quiet,
            print_blob=False,
            report_multiple_bugs=False,
        )(hypothesis.seed(seed)(test))
        self._pace.resume()
        try:
            test()
        except (PropertyFailure, BaseExceptionGroup, Flaky):
            if self._raised is None:
                raise
        finally:
            self._raised = None

    def _body(self, case: Case) -> None:
        """Judge one case; what Hypothesis calls."""
        if self._raised is not None:  # it wants to see the failure once more
            raise self._raised
        if self._comes():
            self._meet(case)
            if self._raised is not None:
                raise self._raised

    def _comes(self) -> bool:
        """Return whether the next case of the batch is still to be judged."""
        place, position = self._place, self.position
        self._place += 1
        return place >= position.case and place not in position.skip

    def _meet(self, case: Case) -> None:
        """Journal and judge one case, and note what it brought."""
        if monotonic() >= self._slice_ends:
            self._tell()
        encoded = encode_case(case)
        number = self._journal.begin(
            self._settings.executor, self._settings.subject, encoded
        )
        self._begun += 1
        # What leaves this process without an end in the journal is a death.
        outcome = self._judged(case, encoded)
        self._journal.end(number, outcome)
        self.position = self.position.at(self._place)
        if outcome not in ("survived", "error"):
            self._tell(retired=True)
            raise _Leaves

    def _judged(self, case: Case, encoded: Json) -> str:
        """Judge one case; return how the process is after it."""
        with self._pace.checking():
            try:
                judged = self._judge(case)
            except Exception as error:  # a bug of ours costs the case, not the night
                self._note_error(error, encoded)
                return "error"
            self._tally.add(judged)
            self._pace.count(judged.observation)
            self._note(judged, encoded)
        died = judged.observation.died
        return died.what if died is not None else "survived"

    def _note_error(self, error: Exception, encoded: Json) -> None:
        if len(self._errors) < MOST_ERRORS:
            self._errors.append(
                {
                    "type": type(error).__name__,
                    "message": str(error),
                    "traceback": traceback.format_exc(),
                    "case": encoded,
                }
            )

    def _note(self, judged: Judged, encoded: Json) -> None:
        """Note a case's violations, or what it covers if it has none that count."""
        for violation in judged.violations:
            self._note_violation(violation, judged, encoded)
        met = coverage_of(judged.case, judged.observation.launches)
        self._met.add(met)
        failures = self._judge.failures(judged)
        if failures:
            self._end_batch(failures)
        elif judged.observation.died is None and self._coverage.add(met):
            self._kept.append({"case": encoded, "coverage": met.as_json()})

    def _note_violation(
        self, violation: Violation, judged: Judged, encoded: Json
    ) -> None:
        """Keep the smallest case of each violation that has not been told yet."""
        text = repr(encoded)
        size = len(judged.case.layout.runs) + len(judged.case.calls), len(text), text
        identity = violation.identity
        if identity in self._smallest and self._smallest[identity] <= size:
            return
        self._smallest[identity] = size
        self._violations[identity] = {
            "violation": asdict(violation),
            "case": encoded,
            "observation": to_json(judged.observation),
        }

    def _end_batch(self, failures: tuple[Violation, ...]) -> None:
        """Let Hypothesis keep the first example of each failure."""
        for failure in failures:
            digest = identity_digest(failure.identity)
            if digest not in self.position.raised:
                self.position = self.position.raising(digest)
                if self.position.stage != "corpus":
                    self._raised = failure_class(failure.identity)(failure.headline)
                return

    def _tell(self, *, retired: bool = False) -> None:
        """Report, and wait until there is more to do."""
        found = self._tally.found
        report = {
            "position": self.position.as_json(),
            "begun": self._begun,
            "counts": counts_to_json(self._tally),
            "pace": pace_to_json(self._pace),
            "seen": [[list(identity), each.count] for identity, each in found.items()],
            "violations": list(self._violations.values()),
            "met": self._met.as_json(),
            "kept": self._kept,
            "errors": self._errors,
            "fell_back": self._judge.fell_back,
            "retired": retired,
        }
        self._judge.fell_back = 0
        self._forget()
        self._slice_ends = monotonic() + self._exchange(report)
        self._pace.resume()


def _database(path: str | None) -> ExampleDatabase | None:
    return None if path is None else DirectoryBasedExampleDatabase(path)


def serve(channel: Channel, arguments: Json) -> None:
    """Be a worker: answer each request for a slice of work.

    Args:
        channel: Where requests ``{"seconds"}`` come from. A report answers each, or
            ``{"failed": {"type", "message", "notes"}}`` where no case can be run.
        arguments: ``settings``, ``index`` in them, ``position``, ``replay`` (paths of
            the cases to run before any is drawn), ``database`` (its folder or null),
            ``coverage`` so far, and the path of the ``journal``.
    """

    def exchange(report: Json) -> float:
        channel.send(report)
        try:
            return float(channel.receive()["seconds"])
        except EOFError:
            raise _Leaves from None

    try:
        seconds = float(channel.receive()["seconds"])
        try:
            settings = settings_from_json(arguments["settings"])
            judge = judge_for(settings)
            shard = Shard(judge, settings, arguments, exchange, seconds)
        except KvzeroError as error:
            exchange({"failed": _told(error)})
            return
        try:
            shard.run()
        except OSError as error:
            text = f"a worker's journal: {error.strerror}, but must be writable"
            exchange({"failed": _told(EnvironmentMissingError(text))})
        except Exception as error:  # a bug of ours, which must not pass for a death
            bug = InternalError(f"{type(error).__name__}: {error}")
            bug.add_note(traceback.format_exc())
            exchange({"failed": _told(bug)})
    except (EOFError, _Leaves):
        return


def _told(error: KvzeroError) -> Json:
    notes = list(getattr(error, "__notes__", ()))
    return {"type": type(error).__name__, "message": str(error), "notes": notes}
