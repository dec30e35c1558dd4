"""Medians, turns and repeats; what a GPU adds is in test_gpu.py."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.bench.contenders import TimedCall
from kvzero.bench.timing import (
    FEWEST_SAMPLES,
    HOST_ROUNDS,
    LONGEST_US,
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


def test_a_long_call_is_sampled_the_fewest_times() -> None:
    sampler = Sampler(1, lambda: LONGEST_US)
    medians_us({"long": sampler}, 11)
    assert len(sampler.times_us) == FEWEST_SAMPLES


def test_each_call_of_the_host_finds_the_device_idle() -> None:
    seen: list[str] = []
    calls = {
        name: TimedCall(partial(seen.append, name), on_device=False) for name in "ab"
    }
    found = host_medians_us(calls, lambda: seen.append("wait"))
    assert found.keys() == calls.keys()
    assert min(found.values()) > 0
    assert seen[::2] == ["wait"] * (2 * HOST_ROUNDS + 1)
    assert Counter(seen[1::2]) == {"a": HOST_ROUNDS, "b": HOST_ROUNDS}


def test_a_call_of_the_host_is_timed_in_microseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(x * 0.2 for x in range(100))
    monkeypatch.setattr("kvzero.bench.timing.perf_counter", lambda: next(clock))
    call = TimedCall(lambda: None, on_device=False)
    found = host_medians_us({"slow": call}, lambda: None)
    assert found["slow"] == pytest.approx(2e5)
