"""Programs of a call, those without work among them, and its host time without a GPU.

The subject runs on addresses under a driver that records launches instead of making
them, at any size. What a program stores is known for calls that the footprint executor
evaluates: one block always, and longer lists where launches are not simply so many
times that of one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from kvzero.bench.contenders import Contender, first_line
from kvzero.bench.timing import host_medians_us
from kvzero.campaign.verify import spread_ids
from kvzero.case import Call, Case
from kvzero.executors.footprint import FootprintExecutor
from kvzero.executors.footprint.arena import arena, arena_tensors
from kvzero.layout import Layout
from kvzero.memory import Pool, place
from kvzero.observation import CallObservation
from kvzero.subjects.protocol import Subject
from kvzero.triton_internals import LaunchEvent, dry_driver

EVALUATED_PROGRAMS = 2**20
"""Programs that the footprint evaluates for one count: about 0.2 us each."""


class Counted(NamedTuple):
    """What is known of one call without making it.

    Attributes:
        programs: Programs of its launches.
        wasted: Those that store nothing; None where that is not known.
        host_us: Time until it returns, its launches recorded and not made.
        refusal: The limit that a launch of it breaks, if any: it would not be made.
    """

    programs: int | None = None
    wasted: int | None = None
    host_us: float | None = None
    refusal: str | None = None


@dataclass
class Counter:
    """Counts for one platform; keeps what is compiled.

    Attributes:
        platform: Such as ``"cuda:90"``.
        timed: Whether host times are wanted too.
    """

    platform: str
    timed: bool = False
    _footprint: FootprintExecutor = field(
        default_factory=lambda: FootprintExecutor(max_programs=EVALUATED_PROGRAMS)
    )

    def count(
        self, subject: Subject, layout: Layout, sizes: Sequence[int]
    ) -> tuple[dict[int, Counted], str | None]:
        """Return the counts by length of list, and why there are none, if so."""
        if not subject.contract.uses_triton:
            return {}, None
        try:
            launched = self._launched(subject, layout, (1, *sizes))
        except Exception as error:  # a subject that needs a real GPU, or is broken
            return {}, f"programs not counted: {first_line(error)}"
        one = launched[1].programs or 0
        idle_of_one = self._idle(subject, layout, 1, one)
        counts = {}
        for size in sizes:
            programs = launched[size].programs or 0
            wasted = None if idle_of_one is None else idle_of_one * size
            if programs != one * size:
                wasted = self._idle(subject, layout, size, programs)
            counts[size] = launched[size]._replace(wasted=wasted)
        return counts, None

    def _launched(
        self, subject: Subject, layout: Layout, sizes: Sequence[int]
    ) -> dict[int, Counted]:
        """Return programs, and host times if wanted."""
        events: list[LaunchEvent] = []
        found = {}
        with dry_driver(self.platform, events.append):
            contender = Contender.on(subject, _pool(layout))
            for size in sizes:
                events.clear()
                found[size] = self._recorded(contender, size, layout, events)
        return found

    def _recorded(
        self,
        contender: Contender,
        size: int,
        layout: Layout,
        events: list[LaunchEvent],
    ) -> Counted:
        """Return what one call launches."""
        ids = _ids(size, layout.num_blocks)
        try:
            contender.zeroer.zero(ids)
        except (OverflowError, RuntimeError):
            if not any(event.limit for event in events):
                raise  # it is not the launcher that refuses
        programs = sum(event.shape.programs for event in events)
        limits = [event.limit for event in events if event.limit is not None]
        if limits or not self.timed:
            return Counted(programs, refusal=limits[0] if limits else None)
        call = contender.host_call(ids)
        host = host_medians_us({"": call}, events.clear)
        return Counted(programs, host_us=host[""])

    def _idle(
        self, subject: Subject, layout: Layout, size: int, programs: int
    ) -> int | None:
        """Return how many programs store nothing, if they can be evaluated."""
        if programs > EVALUATED_PROGRAMS:
            return None
        call = Call((spread_ids(size, layout.num_blocks),))
        case = Case(layout, (call,), platform=self.platform)
        seen = self._footprint.run(subject, case)
        return _idle_programs(seen.calls)


def _idle_programs(calls: Sequence[CallObservation]) -> int | None:
    return calls[0].idle_programs if calls else None


def _ids(size: int, num_blocks: int) -> list[int]:
    return Call((spread_ids(size, num_blocks),)).expand()


def _pool(layout: Layout) -> Pool:
    """Return addresses for a layout, with no memory behind them."""
    addresses = place(Case(layout, ()))
    bases = arena().start + addresses.base_bytes
    tensors = arena_tensors(bases, layout.allocation_sizes)
    return Pool(layout, tensors, torch.device("cpu"))
