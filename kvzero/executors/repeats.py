"""The calls of a case once more: on a held stream, in a CUDA graph, again and again.

What each call does alone is known by then. Here they are queued together on a stream of
their own while nothing on it runs, and their caller reuses and frees the ids at once,
as an engine that is ahead of its device does. What acts too early is undone by the
stream itself, which writes the poison back behind the hold; what acts too late is
missing in the copy that it takes behind the last call.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from kvzero.case import Call, Case, id_runs
from kvzero.executors.arena import Memory
from kvzero.executors.arrival import block_ids_for, reuse_ids
from kvzero.executors.comparing import Comparison, Difference
from kvzero.executors.hold import Held, Hold
from kvzero.executors.real_memory import Alone, Together
from kvzero.observation import Queued, Raised, Replayed
from kvzero.oracle import may_be_zero, must_be_zero, union
from kvzero.subjects.protocol import Zeroer

IN_ORDER = "queued_calls_act_in_order"
IN_GRAPH = "graphs_replay_with_new_ids"
NO_GROWTH = "calls_keep_no_memory"
REPEATED = (IN_ORDER, IN_GRAPH, NO_GROWTH)
"""What repeated calls are judged for."""

MOST_IDS = 2**16
"""Ids of all calls: the host's own time with more is longer than any hold."""
HOLD_SECONDS = 1.0
"""What a call may take on the host beyond some times what it took before."""
HOLD_FACTOR = 4
ROUNDS = 8
"""Repetitions after which what is kept for good tells itself from what fills up."""
REUSES = 16
"""Allocations tried until one gets the memory of freed ids."""
SHOWN_IDS = 8


class Repeats:
    """Repeats the calls of one case after another on one NVIDIA GPU."""

    def __init__(self, device: torch.device, wait: Callable[[], None]) -> None:
        """Take a device and what waits for it.

        Args:
            device: The device.
            wait: Raises where the device is dead.
        """
        self._device = device
        self._wait = wait
        self._hold = Hold(device)
        self._mark = torch.zeros(64, dtype=torch.uint8, device=device)
        _queue_copy(torch.empty_like(self._mark), self._mark)  # loads its kernel
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own gap
        self._maker = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own gap

    def __call__(self, alone: Alone) -> Together:
        """Return what the calls did."""
        reason = _why_not(alone)
        if reason is not None:
            return Together(not_judged=tuple((name, reason) for name in REPEATED))
        not_judged, queued, replayed = [], None, None
        if any(call.host_waits for call in alone.calls):
            waits = "its calls wait for the device: none is queued behind another"
            not_judged.append((IN_ORDER, waits))
        else:
            queued = self._queued(alone)
        index = _call_to_capture(alone)
        if index is None:
            none = "no contract that allows a capture, or no call that a graph can hold"
            not_judged.append((IN_GRAPH, none))
        else:
            replayed = self._replayed(alone, index)
        kept = self._kept_bytes(alone)
        return Together(queued, replayed, kept, tuple(not_judged))

    def _queued(self, alone: Alone) -> Queued:
        case, content = alone.memory.case, alone.memory.content
        poison, comparison = self._poisoned(alone.memory)
        after = torch.empty_like(poison)
        lists = [self._given(call, alone) for call in case.calls]
        self._wait()
        most_seconds = HOLD_SECONDS + HOLD_FACTOR * alone.seconds
        with (
            torch.cuda.stream(self._stream),
            self._hold.on_current_stream(most_seconds) as held,
        ):
            _queue_copy(content, poison)
            raised, waited_in = self._make_calls(alone, lists, held)
            self._let_other_streams_act()
            _queue_copy(after, content)
        self._wait()
        content.copy_(after)
        seen = _difference(comparison, case)
        return Queued(seen.missed, seen.touched, raised, waited_in)

    def _let_other_streams_act(self) -> None:
        """Wait until the device has worked on another stream than the held one.

        It may be at work for other processes: what a call has put on a wrong stream
        would come too late to be seen, were the hold over before this one's next turn.
        """
        with torch.cuda.stream(self._maker):
            _queue_copy(torch.empty_like(self._mark), self._mark)
        self._maker.synchronize()

    def _make_calls(
        self, alone: Alone, lists: list["Given"], held: Held
    ) -> tuple[Raised | None, int | None]:
        """Return what a call raised that did not raise alone, and which one waited."""
        first, waited_in = None, None
        for index, seen in enumerate(alone.calls):
            raised = lists[index].zero_and_reuse(alone.zeroer)
            if raised is not None and seen.raised is None:
                first = first or raised
            if waited_in is None and not held.lasts():
                waited_in = index
        return first, waited_in

    def _given(self, call: Call, alone: Alone) -> "Given":
        owner = self._maker if alone.contract.holds_device_ids else self._stream
        return Given(call, self._device, alone.memory.case.layout.num_blocks, owner)

    def _poisoned(self, memory: Memory) -> tuple[torch.Tensor, Comparison]:
        """Return a copy of freshly poisoned memory, and what compares with it."""
        memory.poison()
        return memory.content.clone(), Comparison(memory)

    def _replayed(self, alone: Alone, index: int) -> Replayed:
        case, num_blocks = alone.memory.case, alone.memory.case.layout.num_blocks
        call = case.calls[index]
        ids = block_ids_for(call, self._device, num_blocks)
        others = [(block_id + 1) % num_blocks for block_id in call.expand()]
        new_ids = torch.tensor(others).to(self._device)
        shown = tuple(others[:SHOWN_IDS])
        _, comparison = self._poisoned(alone.memory)
        self._wait()
        graph = torch.cuda.CUDAGraph()
        raised = self._captured(graph, alone.zeroer, ids)
        self._wait()
        if raised is not None:
            return Replayed(index, shown, raised=raised)
        ids.copy_(new_ids)
        graph.replay()
        self._wait()
        variant = replace(case, calls=(replace(call, ids=id_runs(others)),))
        seen = _difference(comparison, variant)
        return Replayed(index, shown, seen.missed, seen.touched)

    def _captured(
        self, graph: torch.cuda.CUDAGraph, zeroer: Zeroer, ids: torch.Tensor
    ) -> Raised | None:
        """Capture a call and return what it raised.

        Not by `torch.cuda.graph`, which empties the allocator's cache every time.
        """

        def capture() -> None:
            with torch.cuda.stream(self._stream):
                graph.capture_begin()
                try:
                    zeroer.zero(ids)
                finally:
                    graph.capture_end()

        return _attempt(capture)

    def _kept_bytes(self, alone: Alone) -> int:
        """Return the device memory that each round of the calls keeps."""
        first = self._in_use_after(1, alone)
        if self._in_use_after(1, alone) <= first:
            return 0
        filled = self._in_use_after(ROUNDS, alone)
        return max(self._in_use_after(ROUNDS, alone) - filled, 0) // ROUNDS

    def _in_use_after(self, rounds: int, alone: Alone) -> int:
        for _ in range(rounds):
            for call in alone.memory.case.calls:
                self._given(call, alone).zero_and_reuse(alone.zeroer)
            self._wait()
        # The allocator looks for blocks that other streams are done with when asked.
        torch.empty(1, device=self._device)
        return torch.cuda.memory_allocated(self._device)


class Given:
    """The ids of one call, as its caller made them and lets go of them."""

    def __init__(
        self,
        call: Call,
        device: torch.device,
        num_blocks: int,
        owner: torch.cuda.Stream,
    ) -> None:
        """Make the ids.

        Args:
            call: The call.
            device: Where the case's memory lies.
            num_blocks: Blocks of the cache.
            owner: Stream that ids on the device belong to.
        """
        self._num_blocks = num_blocks
        self._owner = owner
        with torch.cuda.stream(owner):
            self._ids = block_ids_for(call, device, num_blocks)
            self._filler = _filler(call, device, num_blocks)

    def zero_and_reuse(self, zeroer: Zeroer) -> Raised | None:
        """Make the call, then reuse and free the ids; return what it raised."""
        ids, self._ids = self._ids, None
        address = 0
        if self._filler is not None:
            address = ids.untyped_storage().data_ptr()
        raised = _attempt(zeroer.zero, ids)
        reuse_ids(ids, self._num_blocks)
        del ids
        if self._filler is not None:
            self._overwrite(address, self._filler)
        return raised

    def _overwrite(self, address: int, filler: torch.Tensor) -> None:
        """Let the owner's stream write other ids where freed ones stood."""
        taken = []
        with torch.cuda.stream(self._owner):
            for _ in range(REUSES):
                taken.append(torch.empty_like(filler))
                if taken[-1].data_ptr() == address:
                    _queue_copy(taken[-1], filler)
                    return


def _queue_copy(out: torch.Tensor, values: torch.Tensor) -> None:
    """Queue a copy of bytes as a kernel on the current stream.

    Copy engines take the copies of all streams in one order: one that waits for a held
    stream would hold the uploads of the others up as well.
    """
    torch.bitwise_or(values, 0, out=out)


def _why_not(alone: Alone) -> str | None:
    """Return why repeating the calls would tell nothing, or None."""
    if not alone.calls:
        return "the case makes no call"
    if any(call.missed.count or call.touched.count for call in alone.calls):
        return "the calls already go wrong when they are made alone"
    if not all(call.bytes_judged for call in alone.calls):
        return "not all bytes were seen when the calls were made alone"
    pieces = len(alone.memory.pieces)
    if pieces > 1:
        return f"calls are repeated on memory of one piece, and this has {pieces}"
    if sum(call.num_ids for call in alone.memory.case.calls) > MOST_IDS:
        return f"calls are repeated with at most {MOST_IDS:,} ids"
    return None


def _filler(call: Call, device: torch.device, num_blocks: int) -> torch.Tensor | None:
    """Return a buffer as large as that of a call's ids, of ids that it does not list.

    None for ids that are not on the device: `reuse_ids` overwrites those.
    """
    if call.arrival != "device" or not call.num_ids:
        return None
    plain = replace(call, arrival="array", offset_el=0, step_el=1)
    others: np.ndarray[Any, Any] = block_ids_for(plain, "cpu", num_blocks)
    reuse_ids(others, num_blocks)
    size = call.offset_el + call.num_ids * call.step_el + 1
    return torch.from_numpy(np.resize(others, size)).view(torch.uint8).to(device)


def _attempt(action: Callable[..., object], *arguments: object) -> Raised | None:
    """Return what an action of the subject raises."""
    try:
        action(*arguments)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except (Exception, SystemExit) as error:  # what a subject raises is observed
        return Raised(type(error).__name__, str(error), isinstance(error, ValueError))
    return None


def _call_to_capture(alone: Alone) -> int | None:
    """Return the first call that a graph can hold, None without one."""
    if not (alone.contract.allows_capture and alone.memory.case.layout.num_blocks):
        return None
    for index, call in enumerate(alone.memory.case.calls):
        plain = (call.arrival, call.dtype, call.step_el) == ("device", "int64", 1)
        if plain and call.num_ids and alone.calls[index].raised is None:
            return index
    return None


def _difference(comparison: Comparison, case: Case) -> Difference:
    """Return what all calls of a case did together."""
    bases = comparison.memory.addresses.base_bytes
    must, may = must_be_zero(case, 0, bases), may_be_zero(case, 0, bases)
    for index in range(1, len(case.calls)):
        must = union(must, must_be_zero(case, index, bases))
        may = union(may, may_be_zero(case, index, bases))
    return comparison.after_call(must, may)
