"""Medians, turns and repeats; what a GPU adds is in test_gpu.py."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.bench.contenders import TimedCall
from kvzero.bench.timing import (
    FEWEST_SAMPLES,
    HOST_CALLS,
    HOST_ROUNDS,
    LONGEST_SECONDS,
    MOST_REPEATS,
    SAMPLE_US,
    Sampler,
    host_medians_us,
    medians_us,
    repeats_for,
)


@given(st.floats(0, 1e9))
def test_repeats_fill_a_sample_and_are_at_least_one(estimate: float) -> None:
    repeats = repeats_for(estimate)
    assert 1 <= repeats <= MOST_REPEATS
    assert repeats == 1 or repeats * estimate <= SAMPLE_US


def test_samples_take_turns() -> None:
    order: list[str] = []

    def sampler(name: str, times: list[float]) -> Sampler:
        left = iter(times)

        def sample() -> float:
            order.append(name)
            return next(left)

        return Sampler(2, sample)

    both = {
        "a": sampler("a", [20, 2, 200, 4, 6]),
        "b": sampler("b", [8, 8, 8, 8, 8]),
    }
    assert medians_us(both, 5) == {"a": 3.0, "b": 4.0}
    rounds = [order[at : at + 2] for at in range(0, 10, 2)]
    assert all(sorted(turns) == ["a", "b"] for turns in rounds)


def test_turns_differ_from_round_to_round() -> None:
    order: list[int] = []

    def sampler(name: int) -> Sampler:
        def sample() -> float:
            order.append(name)
            return 1.0

        return Sampler(1, sample)

    medians_us({str(name): sampler(name) for name in range(8)}, 9)
    rounds = {tuple(order[at : at + 8]) for at in range(0, 72, 8)}
    assert len(rounds) == 9
    followers = {order[at + 1] for at in range(71) if order[at] == 0}
    assert len(followers) > 3, "nobody always follows the same one"


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def passes(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which everything is timed."""
    made = Clock()
    monkeypatch.setattr("kvzero.bench.timing.perf_counter", lambda: made.now)
    return made


def test_a_long_call_is_sampled_the_fewest_times(clock: Clock) -> None:
    def sample() -> float:
        clock.passes(LONGEST_SECONDS)
        return 1.0

    sampler = Sampler(1, sample)
    medians_us({"long": sampler}, 11)
    assert len(sampler.times_us) == FEWEST_SAMPLES


@pytest.mark.usefixtures("clock")
def test_each_call_of_the_host_finds_the_device_idle() -> None:
    seen: list[str] = []
    calls = {
        name: TimedCall(partial(seen.append, name), on_device=False) for name in "ab"
    }
    found = host_medians_us(calls, lambda: seen.append("wait"))
    assert found.keys() == calls.keys()
    each = HOST_ROUNDS * HOST_CALLS
    assert seen[::2] == ["wait"] * (2 * each + 1)
    assert Counter(seen[1::2]) == {"a": each, "b": each}
    series = [
        seen[at : at + 2 * HOST_CALLS] for at in range(0, 4 * each, 2 * HOST_CALLS)
    ]
    assert all(len(set(calls)) == 2 for calls in series), "a series is of one subject"


def test_a_call_of_the_host_is_timed_in_microseconds(clock: Clock) -> None:
    call = TimedCall(lambda: clock.passes(0.002), on_device=False)
    found = host_medians_us({"slow": call}, lambda: clock.passes(0.001))
    assert found == {"slow": pytest.approx(2000)}


def test_a_host_that_waits_long_for_the_device_is_timed_seldom(clock: Clock) -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        calls += 1

    host_medians_us({"": TimedCall(run, on_device=False)}, lambda: clock.passes(1.2))
    assert calls == FEWEST_SAMPLES


def test_a_slow_first_call_of_a_series_does_not_count(clock: Clock) -> None:
    calls = 0

    def run() -> None:
        nonlocal calls
        clock.passes(1e-6 if calls % HOST_CALLS else 1e-4)
        calls += 1

    found = host_medians_us({"": TimedCall(run, on_device=False)}, lambda: None)
    assert found[""] == pytest.approx(1)
