from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kvzero.report.facts import Sample
from kvzero.report.sampling import MOST_SAMPLES, Sampler


@given(st.lists(st.floats(0, 100), min_size=1, max_size=400))
def test_samples_are_few_in_order_and_end_with_the_newest(steps: list[float]) -> None:
    sampler, seconds = Sampler(), 0.0
    for count, step in enumerate(steps, 1):
        seconds += step
        sampler.add(seconds, count, 2 * count)
    samples = sampler.samples
    assert len(samples) <= MOST_SAMPLES + 1
    assert all(a.seconds < b.seconds for a, b in pairwise(samples))
    assert samples[0] == Sample(0.0, 0, 0)
    assert samples[-1].seconds == seconds


def test_samples_of_a_long_run_span_all_of_it() -> None:
    sampler = Sampler()
    for second in range(1, 100_001):
        sampler.add(float(second), second, second)
    gaps = [b.seconds - a.seconds for a, b in pairwise(sampler.samples)]
    assert len(gaps) >= MOST_SAMPLES // 2 - 1
    assert max(gaps) <= 4 * 100_000 / MOST_SAMPLES
