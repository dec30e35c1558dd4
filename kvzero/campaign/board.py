"""What a campaign's threads share: counts, places, findings and the reasons to stop.

All of it changes under one lock, a report at a time, so that what is written down is
always the sum of whole reports: a campaign that is killed goes on from the last one and
ends with the counts of one that never was.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Event, RLock
from time import monotonic
from typing import Any

from kvzero.campaign.counts import (
    add_counts,
    add_pace,
    counts_to_json,
    pace_to_json,
)
from kvzero.campaign.coverage import Coverage, coverage_from_json
from kvzero.campaign.findings import Entry, Findings, violation_from_json
from kvzero.campaign.folder import Folder
from kvzero.campaign.judging import Judge, Judged
from kvzero.campaign.pace import Pace
from kvzero.campaign.position import Position, position_from_json
from kvzero.campaign.settings import Settings
from kvzero.campaign.shard import identity_digest
from kvzero.campaign.tally import Found, Tally
from kvzero.casefile import decode_case
from kvzero.errors import CaseError
from kvzero.executors.transcript import from_json
from kvzero.properties.verdict import Identity, Violation

Json = Any  # a JSON document
OnEvent = Callable[[str, Mapping[str, Any]], None]  # Any: JSON

STATE_VERSION = 1
MOST_ERRORS = 100
"""Errors of the harness whose cases are told; more are counted."""


@dataclass
class Board:
    """The state of one campaign.

    Attributes:
        settings: What it does.
        folder: Where it is written down.
        judge: Runs no case; says which violations count.
        on_event: Called with the name and the fields of every event.
        regressions: Folder of the case files of failures.
        replay: Names of the corpus's cases that workers run before they draw any.
        spent: Seconds of the runs before.
        met: What all cases had in them.
        coverage: What the passing ones had: the corpus brings all of it.
        errors: Errors of the harness so far.
        fell_back: Cases that did not fit the device's memory.
        why: Why no more is drawn; empty: more is.
        error: What has ended the campaign, if it was an error.
        cut: Nobody shrinks any more, either.
    """

    settings: Settings
    folder: Folder
    judge: Judge
    on_event: OnEvent
    regressions: Path
    replay: list[str] = field(default_factory=list)
    spent: float = 0.0
    tally: Tally = field(default_factory=Tally)
    pace: Pace = field(default_factory=Pace)
    met: Coverage = field(default_factory=Coverage)
    coverage: Coverage = field(default_factory=Coverage)
    positions: dict[int, Position] = field(default_factory=dict)
    worker_cases: dict[int, int] = field(default_factory=dict)
    errors: int = 0
    fell_back: int = 0
    why: str = ""
    error: BaseException | None = None
    shrink_until: float | None = None
    cut: Event = field(default_factory=Event)
    lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        """Start the clock."""
        self._started = monotonic()
        self.findings = Findings(self.regressions, self.folder.keep_entry)

    def elapsed(self) -> float:
        """Return seconds since the campaign began, in this run and those before."""
        return self.spent + monotonic() - self._started

    def position(self, index: int) -> Position:
        """Return where a worker stands."""
        with self.lock:
            return self.positions.get(index, Position())

    def stop(self, why: str) -> None:
        """Draw no more; what was found is shrunk."""
        with self.lock:
            if not self.why:
                self.why = why
                self.shrink_until = monotonic() + self.settings.shrink_seconds

    def fail(self, error: BaseException) -> None:
        """Stop at once, because of an error."""
        with self.lock:
            if self.error is None:
                self.error = error
            self.stop("error")
            self.cut.set()

    def is_over(self, index: int) -> bool:
        """Return whether a worker is to draw no more."""
        seconds = self.settings.seconds
        if seconds is not None and self.elapsed() >= seconds:
            self.stop("time is up")
        return bool(self.why) or self.position(index).stage == "done"

    def may_shrink(self) -> bool:
        """Return whether there is still time to shrink."""
        until = self.shrink_until
        return not self.cut.is_set() and (until is None or monotonic() < until)

    def take(self, index: int, report: Json) -> None:
        """Take the report of a worker's slice."""
        worker = self.settings.first_worker + index
        with self.lock:
            add_counts(self.tally, report["counts"])
            add_pace(self.pace, report["pace"])
            self.fell_back += report["fell_back"]
            cases = self.worker_cases.get(index, 0) + report["counts"]["cases"]
            self.worker_cases[index] = cases
            for told in report["violations"]:
                judged = Judged(
                    decode_case(told["case"]), from_json(told["observation"]), ()
                )
                self.see(worker, violation_from_json(told["violation"]), judged)
            for identity, count in report["seen"]:
                self.findings.count(Identity(*identity), count)
            self.met.add(coverage_from_json(report["met"]))
            for kept in report["kept"]:
                self._keep(worker, kept)
            for error in report["errors"]:
                self._note_error(worker, error)
            self.positions[index] = position_from_json(report["position"])

    def take_death(self, index: int, judged: Judged, position: Position) -> None:
        """Take a case that a worker died of, and where the worker stands after it."""
        worker = self.settings.first_worker + index
        alone = Tally()
        alone.add(judged)
        with self.lock:
            add_counts(self.tally, counts_to_json(alone))
            self.worker_cases[index] = self.worker_cases.get(index, 0) + 1
            for identity, found in alone.found.items():
                self.see(worker, found.violation, judged)
                self.findings.count(identity, 1)
            self.positions[index] = position

    def see(self, worker: int, violation: Violation, judged: Judged) -> None:
        """Note a violation with a case that shows it."""
        entry = Entry(
            violation,
            judged,
            count=0,
            known=self.judge.known_as(violation),
            fails=self.judge.counts(violation),
            seconds=self.elapsed(),
            worker=worker,
        )
        if self.findings.see(entry):
            self.on_event("finding", {"worker": worker, **told(entry)})
            most = self.settings.max_failures
            if most is not None and len(self.findings.failures) >= most:
                self.stop("enough failures")

    def settle(self, worker: int, entry: Entry, found: Found) -> None:
        """Take what shrinking has made of a finding."""
        self.findings.settle(entry, found)
        layout = entry.judged.case.layout
        self.on_event(
            "settled",
            {
                "worker": worker,
                **told(entry),
                "flaky": entry.flaky,
                "runs": len(layout.runs),
                "blocks": layout.num_blocks,
                "n": entry.count,
            },
        )

    def _keep(self, worker: int, kept: Json) -> None:
        if self.coverage.add(coverage_from_json(kept["coverage"])):
            path = self.folder.add_case(decode_case(kept["case"]))
            self.on_event("kept", {"worker": worker, "file": str(path)})

    def _note_error(self, worker: int, error: Json) -> None:
        self.errors += 1
        if self.errors <= MOST_ERRORS:
            self.on_event("error", {"worker": worker, **error})

    def as_json(self) -> Json:
        """Return all that a campaign goes on from, findings' cases excepted."""
        with self.lock:
            return {
                "kvzero_campaign": STATE_VERSION,
                "settings": self.settings.as_json(),
                "seconds": self.elapsed(),
                "why": self.why,
                "replay": self.replay,
                "counts": counts_to_json(self.tally),
                "pace": pace_to_json(self.pace),
                "met": self.met.as_json(),
                "coverage": self.coverage.as_json(),
                "errors": self.errors,
                "fell_back": self.fell_back,
                "workers": [
                    {
                        "index": index,
                        "cases": self.worker_cases.get(index, 0),
                        "position": position.as_json(),
                    }
                    for index, position in self.positions.items()
                ],
                "findings": {
                    identity_digest(each.identity): each.count for each in self.findings
                },
            }

    def restore(self, state: Json, name: str) -> None:
        """Go on from where a campaign stood.

        Args:
            state: What `as_json` returned.
            name: What errors call it.

        Raises:
            CaseError: It is no such thing.
        """
        try:
            self._restore(state, name)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, CaseError):
                raise
            raise CaseError(f"{name}: {error!r}, but must be a campaign's") from None

    def _restore(self, state: Json, name: str) -> None:
        self.spent = float(state["seconds"])
        add_counts(self.tally, state["counts"])
        add_pace(self.pace, state["pace"])
        self.met = coverage_from_json(state["met"])
        self.coverage = coverage_from_json(state["coverage"])
        self.errors, self.fell_back = int(state["errors"]), int(state["fell_back"])
        self.replay = [_plain_name(each, f"{name}: replay") for each in state["replay"]]
        for told_worker in state["workers"]:
            index = int(told_worker["index"])
            self.worker_cases[index] = int(told_worker["cases"])
            place = position_from_json(told_worker["position"], f"{name}: workers")
            self.positions[index] = self._reopened(index, place)
        for entry in self.folder.entries():
            entry.count = int(state["findings"].get(identity_digest(entry.identity), 0))
            self.findings.restore(entry, self.judge.known_as(entry.violation))

    def _reopened(self, index: int, place: Position) -> Position:
        """Return where a worker goes on that was done, if it has more to draw now."""
        share = self.settings.share(index)
        if place.stage == "done" and (share is None or place.drawn < share):
            return replace(place, stage="batches")
        return place


def told(entry: Entry) -> dict[str, Any]:  # Any: JSON
    """Return what events say of a finding."""
    violation = entry.violation
    what = asdict(violation)
    fields = {name: what[name] for name in ("property", "kind", "what", "place")}
    return {
        **fields,
        "headline": violation.headline,
        "fails": entry.fails,
        "file": entry.file,
    }


def _plain_name(name: Json, told_as: str) -> str:
    """Return the name of a file of the corpus, and of no other."""
    is_plain = isinstance(name, str) and name.endswith(".json") and "/" not in name
    if not is_plain:
        raise CaseError(f"{told_as}={name!r}, but must name a file of the corpus")
    return str(name)
