"""One layout on one card: each contender verified, then all of them timed in turns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from kvzero.bench.cards import Card, Times
from kvzero.bench.contenders import Contender, TimedCall, first_line
from kvzero.bench.memory import FILLED, BenchMemory
from kvzero.bench.records import Report
from kvzero.bench.timing import host_medians_us
from kvzero.layout import Layout
from kvzero.subjects.protocol import Subject

SLOW_US = 1e5
"""A contender that takes longer for one call is not tried on longer lists."""
SEED = 0


@dataclass(frozen=True)
class Measured:
    """What a trial found for one length of list.

    Attributes:
        n_blocks: The length.
        times: Device times of the yardsticks and of those that were right.
        host_us: Host times of those that were right.
    """

    n_blocks: int
    times: Times
    host_us: dict[str, float]


@dataclass
class Trial:
    """The contenders on the memory of one layout.

    Attributes:
        name: Of the layout.
        layout: The layout, as large as the card allows.
        card: Where.
        rounds: Samples of each call.
        report: Where to note what a number cannot say.
    """

    name: str
    layout: Layout
    card: Card
    rounds: int
    report: Report
    _contenders: list[Contender] = field(default_factory=list)
    _dropped: dict[str, str] = field(default_factory=dict)

    def run(
        self, subjects: Sequence[Subject], sizes: Sequence[int]
    ) -> Iterator[Measured]:
        """Measure lists of the given lengths, ascending.

        Raises:
            EnvironmentMissingError: The device died.
        """
        self._memory = BenchMemory(self.layout, self.card.device)
        self._flat = self._memory.flat
        most = max(sizes, default=0) * self._memory.block_bytes
        if self._flat.numel() < most:
            self._flat = torch.empty(most, dtype=torch.uint8, device=self.card.device)
        self._contenders = [*self._built(subjects)]
        self._memory.fill()  # a warm-up may have zeroed what its contract reserves
        order = np.random.default_rng(SEED).permutation(self.layout.num_blocks)
        scattered = torch.from_numpy(order).to(self.card.device)
        for size in sizes:
            yield self._measured(scattered[:size].clone())

    def _built(self, subjects: Sequence[Subject]) -> Iterator[Contender]:
        for subject in subjects:
            try:
                yield Contender.on(subject, self._memory.pool)
            except Exception as error:  # a subject may raise anything
                self._note(f"not built: {first_line(error)}", subject.name)
            self.card.wait()

    def _measured(self, block_ids: torch.Tensor) -> Measured:
        size = len(block_ids) * self._memory.block_bytes
        calls = self.card.yardsticks(self._flat, size)
        for yardstick in calls.values():
            yardstick.run()
        self._restore(block_ids, size)
        for name, why in self._dropped.items():
            self._note(why, name, len(block_ids))
        for contender in self._contenders:
            call = self._verified(contender, block_ids)
            if call is not None:
                calls[contender.subject.name] = call
        times = self._times(calls, len(block_ids))
        found = Measured(len(block_ids), times, self._host_times(calls, block_ids))
        self._drop_slow(times, len(block_ids))
        return found

    def _verified(
        self, contender: Contender, block_ids: torch.Tensor
    ) -> TimedCall | None:
        """Return the call to time, if what it leaves is right."""
        call = contender.device_call(block_ids)
        try:
            call.run()
            wrong = None
        except Exception as error:  # a subject may raise anything
            wrong = f"raised {first_line(error)}"
        self.card.wait()
        left = self._memory.faults(block_ids)
        wrong = wrong or (f"WRONG: {left}" if left else None)
        if wrong is None:
            return call
        self._note(f"{wrong}; not timed", contender.subject.name, len(block_ids))
        return None

    def _times(self, calls: dict[str, TimedCall], n_blocks: int) -> Times:
        try:
            times = self.card.times(calls, self.rounds)
        except torch.OutOfMemoryError as error:
            self._note(f"not timed: {first_line(error)}", n_blocks=n_blocks)
            return Times({}, frozenset())
        for name in sorted(times.by_events):
            self._note("timed by events around calls, no graph can hold them", name)
        return times

    def _host_times(
        self, calls: dict[str, TimedCall], block_ids: torch.Tensor
    ) -> dict[str, float]:
        ids = block_ids.tolist()
        takes_lists = (
            each
            for each in self._contenders
            if each.subject.name in calls and "list" in each.subject.contract.arrivals
        )
        timed = {each.subject.name: each.host_call(ids) for each in takes_lists}
        return host_medians_us(timed, self.card.wait)

    def _restore(self, block_ids: torch.Tensor, memset_bytes: int) -> None:
        """Fill what memset and the calls on shorter lists have zeroed."""
        self._memory.fill_pages(block_ids)
        self._flat[:memset_bytes].fill_(FILLED)

    def _drop_slow(self, times: Times, n_blocks: int) -> None:
        for contender in list(self._contenders):
            name = contender.subject.name
            time = times.us.get(name, 0.0)
            if time > SLOW_US:
                self._contenders.remove(contender)
                slow = f"{n_blocks:,} blocks took {time / 1e3:,.0f} ms"
                self._dropped[name] = f"not tried, since {slow}"

    def _note(
        self, text: str, subject: str | None = None, n_blocks: int | None = None
    ) -> None:
        self.report.note(text, subject, self.name, n_blocks)
