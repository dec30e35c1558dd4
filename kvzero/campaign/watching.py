"""What watchers of a campaign see: its events, and how things stand at a moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvzero.campaign.findings import Entry

Json = Any  # a JSON document


@dataclass(frozen=True)
class WorkerView:
    """A worker, as watchers see it."""

    worker: int
    pid: int | None
    cases: int
    state: str
    resident_bytes: int
    peak_resident_bytes: int


@dataclass(frozen=True)
class Snapshot:
    """A campaign at one moment, as watchers see it.

    Attributes:
        seconds: Since it began.
        seconds_left: Until its time is up; None: it has no limit, or is over.
        cases: Cases judged.
        cases_left: Cases to draw, or None.
        launches: Launches checked.
        launches_per_second: In the last moments.
        features: Features met.
        feature_pairs: Pairs of features met.
        failures: Findings that make it fail, the gravest first.
        others: Findings that do not.
        workers: Its workers.
        parent_bytes: Resident memory of this process.
        why: Why no more is drawn, or nothing.
    """

    seconds: float
    seconds_left: float | None
    cases: int
    cases_left: int | None
    launches: int
    launches_per_second: float
    features: int
    feature_pairs: int
    failures: tuple[Entry, ...]
    others: int
    workers: tuple[WorkerView, ...]
    parent_bytes: int
    why: str

    def as_json(self) -> Json:
        """Return the fields of a ``status`` event."""
        return {
            "cases": self.cases,
            "launches": self.launches,
            "launches_per_second": round(self.launches_per_second, 1),
            "features": self.features,
            "feature_pairs": self.feature_pairs,
            "findings": len(self.failures),
            "parent_resident_bytes": self.parent_bytes,
            "workers": [vars(each) for each in self.workers],
        }


@dataclass
class Watcher:
    """Sees a campaign; this one looks away."""

    def event(self, event: str, fields: Mapping[str, Any]) -> None:  # Any: JSON
        """See an event; called by any thread."""

    def look(self, snapshot: Snapshot) -> None:
        """See how things stand, a few times a second."""
