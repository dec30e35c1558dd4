"""How a run went on, in few samples: of too many, every other one is dropped."""

from dataclasses import dataclass, field

from kvzero.report.facts import Sample

MOST_SAMPLES = 128
_START = Sample(0.0, 0, 0)
FIRST_SECONDS = 0.25
"""Seconds between samples at first; they double whenever samples are dropped."""


@dataclass
class Sampler:
    """Takes samples of a run of any length."""

    _seconds_apart: float = FIRST_SECONDS
    _samples: list[Sample] = field(default_factory=lambda: [_START])
    _newest: Sample = _START

    def add(self, seconds: float, cases: int, launches: int) -> None:
        """Say what has been done after some seconds."""
        self._newest = Sample(seconds, cases, launches)
        if seconds - self._samples[-1].seconds < self._seconds_apart:
            return
        self._samples.append(self._newest)
        if len(self._samples) > MOST_SAMPLES:
            self._samples = self._samples[::2]
            self._seconds_apart *= 2

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Return the samples in order of time, the newest last."""
        if self._newest.seconds > self._samples[-1].seconds:
            return (*self._samples, self._newest)
        return tuple(self._samples)
