"""Times as medians of samples that take turns, so that a slow minute hits everyone.

On the device a sample is one replay of a CUDA graph that holds a call many times, so
that neither the host nor the events weigh; what no graph can hold is timed by events
around a row of calls, which shows the host wherever the host is slower.
"""

import statistics
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

import torch

from kvzero.bench.contenders import TimedCall

SAMPLE_US = 2000.0
"""About how long a sample of a short call is."""
MOST_REPEATS = 400
FEWEST_SAMPLES = 3
LONGEST_SECONDS = 1.0
"""Time that the samples of one call take, beyond which there are only the fewest."""
_TURNS = Random(0)
"""Goes on from call to call: no two layouts are measured in the same turns."""


@dataclass
class Sampler:
    """What takes samples of one call.

    Attributes:
        repeats: Calls of a sample.
        sample: Takes one and returns its time, all repeats together, in microseconds.
        times_us: One call's time in each sample so far.
        seconds: What they took, the waiting for the device included.
    """

    repeats: int
    sample: Callable[[], float]
    times_us: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def take(self) -> None:
        """Take a sample, unless they have become too many for their length."""
        if len(self.times_us) >= FEWEST_SAMPLES and self.seconds >= LONGEST_SECONDS:
            return
        begin = perf_counter()
        self.times_us.append(self.sample() / self.repeats)
        self.seconds += perf_counter() - begin


def medians_us(samplers: Mapping[str, Sampler], rounds: int) -> dict[str, float]:
    """Return the median time of one call of each, samples taken in turns.

    The turns of each round are in an order of their own. On an H200 the same call took
    2 to 5 per cent longer in each sample that followed one of the empty kernel, so in
    one order for all rounds somebody would always be the slower one.

    Args:
        samplers: By name.
        rounds: Samples of each, at least `FEWEST_SAMPLES`.
    """
    turns = list(samplers.values())
    for _ in range(max(rounds, FEWEST_SAMPLES)):
        _TURNS.shuffle(turns)
        for sampler in turns:
            sampler.take()
    return {name: statistics.median(s.times_us) for name, s in samplers.items()}


def repeats_for(estimate_us: float) -> int:
    """Return how often a call is repeated in one sample."""
    return max(1, min(MOST_REPEATS, int(SAMPLE_US / max(estimate_us, 1e-3))))


def device_sampler(call: TimedCall, device: torch.device) -> tuple[Sampler, bool]:
    """Return the sampler of a call on a GPU, and whether it is a graph's.

    Args:
        call: It has been made before, so that everything is compiled and loaded.
        device: The GPU.
    """
    if call.on_device:
        # What a graph cannot hold says so in an error of torch's or the driver's.
        with suppress(RuntimeError):
            repeats = repeats_for(_estimate(_replay(call, device, 1)))
            return Sampler(repeats, _replay(call, device, repeats)), True
        torch.cuda.synchronize(device)
    repeats = repeats_for(_estimate(_row(call, 1)))
    return Sampler(repeats, _row(call, repeats)), False


def _estimate(once: Callable[[], float]) -> float:
    """Return about how long a call takes; the first of short ones may be slower."""
    first = once()
    return first if first > SAMPLE_US else once()


def _replay(call: TimedCall, device: torch.device, repeats: int) -> Callable[[], float]:
    """Return what replays a graph of repeated calls and says how long it took.

    Captured by hand: `torch.cuda.graph` collects garbage each time, which takes longer
    than all that is measured here.
    """
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's
    torch.cuda.synchronize(device)
    with torch.cuda.stream(stream), warnings.catch_warnings():
        # After a call that no graph can hold, torch warns that this one is empty.
        warnings.simplefilter("ignore")
        graph.capture_begin()
        try:
            for _ in range(repeats):
                call.run()
        finally:
            graph.capture_end()
    return lambda: _timed(graph.replay)


def _row(call: TimedCall, repeats: int) -> Callable[[], float]:
    def run() -> None:
        for _ in range(repeats):
            call.run()

    return lambda: _timed(run)


def _timed(run: Callable[[], object]) -> float:
    """Return the time between two events around something, in microseconds."""
    begin, end = _event(), _event()
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's


HOST_ROUNDS = 7
HOST_CALLS = 9
"""Calls of one sample of the host. They follow each other: the first after another
subject's turn finds that one's code and data in the caches of the processor."""
SERIES_SECONDS = 0.05
"""Time after which such a series ends early: the device may take seconds for a call."""


def host_sampler(call: TimedCall, wait: Callable[[], object]) -> Sampler:
    """Return the sampler of the time until a call returns, the median of a series.

    Each call finds the device idle, as a server's does: one that follows another at
    once may have to wait for it, or for memory that the other still uses.

    Args:
        call: The call; it has been made before.
        wait: Waits until the device is idle.
    """

    def once() -> float:
        wait()
        begin = perf_counter()
        call.run()
        return (perf_counter() - begin) * 1e6

    def series() -> float:
        end = perf_counter() + SERIES_SECONDS
        times = [once()]
        while len(times) < HOST_CALLS and perf_counter() < end:
            times.append(once())
        return statistics.median(times)

    return Sampler(1, series)


def host_medians_us(
    calls: Mapping[str, TimedCall], wait: Callable[[], object]
) -> dict[str, float]:
    """Return the median time of the host for one call of each, series in turns."""
    samplers = {name: host_sampler(call, wait) for name, call in calls.items()}
    found = medians_us(samplers, HOST_ROUNDS)
    wait()
    return found
