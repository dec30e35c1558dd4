"""A campaign on the terminal: a live view, or plain lines where there is none."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvzero.campaign.coverage import total_features
from kvzero.campaign.findings import Entry
from kvzero.campaign.watching import Snapshot, Watcher
from kvzero.cli.output import PLAIN_SECONDS
from kvzero.properties.wording import counted

REFRESHES = 4
"""Refreshes of the live view a second."""
MOST_FINDINGS = 12
MOST_WORKERS = 16
MIB = 2**20


@contextmanager
def watcher(name: str) -> Iterator[Watcher]:
    """Give what shows a campaign on standard error, while it runs.

    Args:
        name: What runs, in words.
    """
    if not sys.stderr.isatty():
        yield PlainView(name)
        return
    console = Console(file=sys.stderr)
    with Live(console=console, refresh_per_second=REFRESHES, transient=True) as live:
        yield LiveView(name, live)


class PlainView(Watcher):
    """Writes a line at times, and one for each finding."""

    def __init__(self, name: str) -> None:
        """Take what runs, in words."""
        self._name = name
        self._last = monotonic()

    def event(self, event: str, fields: Mapping[str, Any]) -> None:  # Any: JSON
        """Write what was found."""
        if event == "finding" and fields["fails"]:
            self._write(f"found {fields['kind']}: {fields['headline']}")
        elif event == "settled":
            how = "flaky" if fields["flaky"] else "shrunk"
            self._write(f"{how} {fields['what']}: {fields['file']}")

    def look(self, snapshot: Snapshot) -> None:
        """Write how things stand, if it is time to."""
        if monotonic() - self._last >= PLAIN_SECONDS:
            self._last = monotonic()
            self._write(summary(snapshot))

    def _write(self, text: str) -> None:
        sys.stderr.write(f"{self._name}: {text}\n")
        sys.stderr.flush()


class LiveView(Watcher):
    """Draws everything anew, a few times a second."""

    def __init__(self, name: str, live: Live) -> None:
        """Take what runs, in words, and where to draw."""
        self._name = name
        self._live = live

    def look(self, snapshot: Snapshot) -> None:
        """Draw how things stand."""
        self._live.update(drawn(self._name, snapshot))


def drawn(name: str, snapshot: Snapshot) -> Group:
    """Return the whole view."""
    parts: list[Text | Table] = [
        Text(f"kvzero {name}", style="bold"),
        Text(summary(snapshot)),
        _workers(snapshot),
    ]
    if snapshot.failures:
        parts.append(_findings(snapshot.failures))
    return Group(*parts)


def summary(snapshot: Snapshot) -> str:
    """Return how things stand, in one line."""
    return ", ".join(
        (
            _clock(snapshot.seconds),
            f"{snapshot.cases:,} cases",
            f"{snapshot.launches_per_second:,.0f} launches a second",
            f"{snapshot.features} of {total_features()} features "
            f"({snapshot.feature_pairs:,} pairs)",
            counted(len(snapshot.failures), "finding"),
            _left(snapshot),
        )
    )


def _left(snapshot: Snapshot) -> str:
    if snapshot.why:
        return f"{snapshot.why}: shrinking what was found"
    if snapshot.seconds_left is not None:
        return f"{_clock(snapshot.seconds_left)} left"
    if snapshot.cases_left is not None:
        return f"{snapshot.cases_left:,} cases left"
    return "until it is stopped"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _workers(snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("worker", "does", "cases", "MiB"):
        table.add_column(title, justify="left" if title == "does" else "right")
    for each in snapshot.workers[:MOST_WORKERS]:
        memory = f"{each.resident_bytes // MIB:,}"
        table.add_row(str(each.worker), each.state, f"{each.cases:,}", memory)
    hidden = len(snapshot.workers) - MOST_WORKERS
    if hidden > 0:
        table.add_row("", f"{hidden} more", "", "")
    return table


def _findings(failures: tuple[Entry, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("finding", "what", "seen", "case"):
        table.add_column(title, justify="right" if title == "seen" else "left")
    for entry in failures[:MOST_FINDINGS]:
        violation = entry.violation
        state = "flaky" if entry.flaky else entry.state
        table.add_row(
            Text(violation.property),
            Text(f"{violation.what} {violation.place}".strip()),
            f"{entry.count:,}",
            state,
        )
    hidden = len(failures) - MOST_FINDINGS
    if hidden > 0:
        table.add_row(f"{hidden} more", "", "", "")
    return table
