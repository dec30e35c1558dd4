"""One run of the benchmark: every layout that was asked for, one after the other.

What cannot be had is a note, never the end: a subject that is not installed, a layout
that the card has no room for, a contender that is wrong, raises or would take minutes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic

import torch

from kvzero.bench.cards import Card
from kvzero.bench.contenders import find_subjects, first_line
from kvzero.bench.counting import Counted, Counter
from kvzero.bench.layouts import BenchLayout, bench_layouts
from kvzero.bench.machine import Origin
from kvzero.bench.pages import bytes_of_block, smallest_page
from kvzero.bench.records import EMPTY, MEMSET, YARDSTICKS, Record, Report
from kvzero.bench.trial import Measured, Trial
from kvzero.errors import EnvironmentMissingError, LayoutError
from kvzero.layout import Layout

ROUNDS = 11
QUICK_ROUNDS = 7
QUICK_POOL_BYTES = 24 * 2**30
"""A model's pool in a quick run; the made layouts have their size for a reason."""


@dataclass(frozen=True)
class Request:
    """What to measure.

    Attributes:
        subjects: Names of subjects, or None: all that are installed.
        layouts: Names of layouts, or None: all.
        sizes: Lengths of block lists, or None: the usual ones.
        quick: Leave out the lists of each model, cut its pool, take fewer samples.
        seconds: Time after which no further layout is begun.
    """

    subjects: Sequence[str] | None = None
    layouts: Sequence[str] | None = None
    sizes: Sequence[int] | None = None
    quick: bool = False
    seconds: float | None = None


@dataclass
class Bench:
    """One run.

    Attributes:
        request: What to measure.
        origin: What the report says of machine and command.
        card: Where to time, or None: then only what can be known without.
        platform: What launches are counted for.
        say: Gets a line on progress.
    """

    request: Request
    origin: Origin
    card: Card | None
    platform: str = "cuda:90"
    say: Callable[[str], None] = lambda _line: None
    report: Report = field(init=False)

    def run(self) -> Report:
        """Measure everything that was asked for.

        Raises:
            LayoutError: There is no layout of a name.
            SubjectError: There is no subject of a name.
        """
        self.report = Report(self.origin)
        chosen = bench_layouts(self.request.layouts)
        self._subjects, missing = find_subjects(self.request.subjects)
        for name, why in missing.items():
            self.report.note(f"skipped: {why}", subject=name)
        if self.card is None:
            self.report.note("no GPU: times not measured")
        self._counter = Counter(self.platform, timed=self.card is None)
        self._measure_all(chosen)
        return self.report

    def _measure_all(self, chosen: Sequence[BenchLayout]) -> None:
        started = monotonic()
        for index, layout in enumerate(chosen):
            spent = monotonic() - started
            if self.request.seconds is not None and spent > self.request.seconds:
                self.report.note("left out: the time is up", preset=layout.name)
                continue
            self.say(f"{spent:.0f} s: {layout.name}, {index + 1} of {len(chosen)}")
            try:
                self._measure(layout)
            except KeyboardInterrupt:
                self.report.note("interrupted here", preset=layout.name)
                return
            except (torch.OutOfMemoryError, LayoutError) as error:
                self.report.note(f"no room: {first_line(error)}", preset=layout.name)
            except EnvironmentMissingError as error:
                self.report.note(f"ended here: {first_line(error)}", preset=layout.name)
                return

    def _measure(self, bench_layout: BenchLayout) -> None:
        name, quick = bench_layout.name, self.request.quick
        layout = bench_layout.within(self._most_bytes(bench_layout))
        sizes = bench_layout.sizes(layout.num_blocks, self.request.sizes, quick=quick)
        counts = self._counts(name, layout, sizes)
        rows = Rows(name, layout, counts)
        if self.card is None:
            for size in sizes:
                self.report.records += rows.untimed(size)
            return
        rounds = QUICK_ROUNDS if quick else ROUNDS
        trial = Trial(name, layout, self.card, rounds, self.report)
        for measured in trial.run(self._subjects, sizes):
            self.report.records += rows.timed(measured)

    def _most_bytes(self, layout: BenchLayout) -> int | None:
        """Return how large a pool may be."""
        if self.card is None:
            return None
        most = self.card.free_bytes()
        if layout.make(1).num_allocations > 1:
            most //= 2  # memset needs contiguous memory, as much again
        cut = self.request.quick and layout.model_sizes
        return min(most, QUICK_POOL_BYTES) if cut else most

    def _counts(
        self, name: str, layout: Layout, sizes: Sequence[int]
    ) -> dict[str, dict[int, Counted]]:
        found = {}
        for subject in self._subjects:
            found[subject.name], why = self._counter.count(subject, layout, sizes)
            if why is not None:
                self.report.note(why, subject=subject.name, preset=name)
            for size, counted in found[subject.name].items():
                if counted.refusal is not None:
                    text = f"its launch breaks the limit {counted.refusal}"
                    self.report.note(text, subject.name, name, size)
        return found


@dataclass
class Rows:
    """The records of one layout.

    Attributes:
        name: Of the layout.
        layout: The layout.
        counts: What is known without a device, by subject and length of list.
    """

    name: str
    layout: Layout
    counts: Mapping[str, Mapping[int, Counted]]

    def __post_init__(self) -> None:
        """Find what all records share."""
        self._block_bytes = bytes_of_block(self.layout)
        self._min_page_bytes = smallest_page(self.layout)

    def untimed(self, n_blocks: int) -> Iterator[Record]:
        """Yield the record of each subject where there is no GPU."""
        for subject in self.counts:
            yield self._record(subject, n_blocks)

    def timed(self, measured: Measured) -> Iterator[Record]:
        """Yield the record of each yardstick and subject."""
        for subject in (*YARDSTICKS, *self.counts):
            yield self._record(subject, measured.n_blocks, measured)

    def _record(
        self, subject: str, n_blocks: int, measured: Measured | None = None
    ) -> Record:
        counted = self.counts.get(subject, {}).get(n_blocks, Counted())
        times = measured.times.us if measured else {}
        time, yardstick = times.get(subject), times.get(MEMSET)
        if subject == EMPTY:
            return self._empty(n_blocks, time)
        host = measured.host_us.get(subject) if measured else counted.host_us
        return Record(
            subject,
            self.name,
            n_blocks,
            n_blocks * self._block_bytes,
            self._min_page_bytes,
            _rounded(time),
            _rounded(yardstick / time) if time and yardstick else None,
            counted.programs,
            counted.wasted,
            _rounded(host),
        )

    def _empty(self, n_blocks: int, time: float | None) -> Record:
        """Return the record of a kernel that clears nothing."""
        page = self._min_page_bytes
        return Record(EMPTY, self.name, n_blocks, 0, page, _rounded(time), programs=1)


def _rounded(value: float | None) -> float | None:
    """Return a measured number with as many digits as mean anything."""
    return None if value is None else float(f"{value:.5g}")
