"""What the verbs print: progress on standard error, results on standard output."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from rich.console import Console
from rich.table import Table

from kvzero.campaign.outcome import RunResult, found_text
from kvzero.campaign.tally import Tally
from kvzero.properties.wording import counted, launch_text
from kvzero.report.sampling import Sampler

PLAIN_SECONDS = 10.0
"""Seconds between two lines of progress where standard error is no terminal."""
LIVE_SECONDS = 0.2


@dataclass
class Progress:
    """Says how far a run is: one live line on a terminal, else a line at times.

    Attributes:
        what: What runs.
        started: When it began.
        sampler: Keeps how it went on.
    """

    what: str
    started: float = field(default_factory=monotonic)
    sampler: Sampler = field(default_factory=Sampler)
    _last: float = field(default_factory=monotonic)

    def __call__(self, tally: Tally) -> None:
        """Say where the run stands, if it is time to."""
        live = sys.stderr.isatty()
        now = monotonic()
        self.sampler.add(now - self.started, tally.cases, tally.launches)
        if now - self._last < (LIVE_SECONDS if live else PLAIN_SECONDS):
            return
        self._last = now
        seconds = now - self.started
        text = (
            f"{self.what}: {seconds:.0f} s, {tally.cases} cases, "
            f"{tally.launches} launches ({tally.launches / seconds:.0f} a second), "
            f"{len(tally.found)} found"
        )
        sys.stderr.write(f"\r\x1b[K{text}" if live else f"{text}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Clear the live line."""
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


def print_results(results: Sequence[RunResult], *, as_json: bool) -> None:
    """Print the results of a verb, one JSON document or text."""
    if as_json:
        documents = [result.as_json() for result in results]
        whole = documents[0] if len(documents) == 1 else documents
        sys.stdout.write(json.dumps(whole, indent=1) + "\n")
        return
    for result in results:
        _print_found(result)
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 110)
    if len(results) > 1:
        console.print(_comparison(results))
    for result in results:
        _print_verdict(result)


def _print_found(result: RunResult) -> None:
    for found in result.found:
        seen = f"seen {found.count} times" if found.count > 1 else "seen once"
        flaky = ", FLAKY: it did not repeat" if found.flaky else ""
        sys.stdout.write(f"{found.violation.kind} ({seen}{flaky})\n")
        sys.stdout.write(found_text(found) + "\n\n")


def _known_lines(result: RunResult) -> list[str]:
    """Return a line for each known finding of a run."""
    lines = []
    for each in result.known:
        known, seen = each.known, counted(result.times_seen(each.known), "case")
        told = f"{known.property}, {known.kind}: {known.what}"
        if each.state == "no longer fails":
            lines.append(f"  STALE       {each.line}")
        elif each.state == "not judged":
            lines.append(f"  known       {told}: not judged here ({each.why})")
        else:
            lines.append(f"  known       {told}: {seen} ({known.reason})")
    return lines


def _comparison(results: Sequence[RunResult]) -> Table:
    table = Table(title=None)
    for name in ("subject", "verdict", "launches", "largest", "programs", "time"):
        right = name in ("launches", "programs", "time")
        table.add_column(name, justify="right" if right else "left")
    for result in results:
        tally = result.tally
        table.add_row(
            result.subject,
            _short_verdict(result),
            f"{tally.launches}",
            launch_text(tally.largest) if tally.largest else "",
            f"{tally.programs:,}",
            f"{result.seconds:.1f} s",
        )
    return table


def _short_verdict(result: RunResult) -> str:
    if result.exit_code != 1:
        return result.verdict
    found = "; ".join(f"{f.violation.kind}: {f.violation.what}" for f in result.found)
    return found or result.verdict


def _print_verdict(result: RunResult) -> None:
    tally = result.tally
    data = result.as_json()
    lines = [
        f"{result.subject}: {data['verdict']} (exit code {result.exit_code}) after "
        f"{tally.cases} cases, {tally.launches} launches, {tally.programs:,} programs, "
        f"{result.seconds:.1f} s"
    ]
    if result.seed is not None:
        lines.append(f"  seed        {result.seed}")
    if tally.narrowest_store_bytes:
        lines.append(
            f"  stores      at the narrowest {tally.narrowest_store_bytes} B; "
            f"{tally.idle_programs:,} programs stored nothing"
        )
    if result.pace is not None and result.pace.launches:
        lines.append(f"  speed       {result.pace}")
    for (executor, semantics, versions), n in tally.environments.most_common():
        lines.append(f"  judged by   {executor} ({semantics}), {versions}: {n} cases")
    for name, n in sorted(tally.judged.items()):
        lines.append(f"  judged      {name}: {n}")
    for (name, reason), n in tally.not_judged.most_common(8):
        lines.append(f"  not judged  {name}: {n} ({reason})")
    hidden = len(tally.not_judged) - 8
    if hidden > 0:
        lines.append(f"  not judged  {hidden} more reasons: see --json")
    lines.extend(_known_lines(result))
    lines.extend(f"  note        {note}" for note in result.notes)
    sys.stdout.write("\n".join(lines) + "\n")
