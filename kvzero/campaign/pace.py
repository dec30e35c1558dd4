"""How fast a fuzzing run checks launches, and who spends its time.

The time of one process is either a case's own (running the subject, evaluating or
comparing, judging) or Hypothesis's, which draws the next case. Shrinking is neither:
the clock stops at the first failure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from kvzero.observation import Observation


def launches_to_the_byte(seen: Observation) -> int:
    """Return how many launches were checked whole, the bytes of their call included."""
    return sum(
        launch.is_of_warmup
        or (launch.call < len(seen.calls) and seen.calls[launch.call].bytes_judged)
        for launch in seen.launches
    )


@dataclass
class Pace:
    """Launches checked and seconds spent.

    Attributes:
        launches: Launches that were checked; of those beyond the cap of a case, only
            the legality and the compiled variant.
        to_the_byte: Launches whose bytes were judged too.
        checking_seconds: Time from each case to its verdict.
        drawing_seconds: Time between cases, which is Hypothesis's.
    """

    launches: int = 0
    to_the_byte: int = 0
    checking_seconds: float = 0.0
    drawing_seconds: float = 0.0
    _since: float = field(default_factory=perf_counter, repr=False)

    def resume(self) -> None:
        """Begin to draw: what was before is nobody's time."""
        self._since = perf_counter()

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Count the block as checking, and what was before it as drawing."""
        begin = perf_counter()
        self.drawing_seconds += begin - self._since
        try:
            yield
        finally:
            self._since = perf_counter()
            self.checking_seconds += self._since - begin

    def count(self, seen: Observation) -> None:
        """Count the launches of a case."""
        self.launches += len(seen.launches)
        self.to_the_byte += launches_to_the_byte(seen)

    @property
    def per_second(self) -> float:
        """Return launches checked a second, end to end."""
        return self.launches / max(self.checking_seconds + self.drawing_seconds, 1e-9)

    @property
    def per_second_of_checking(self) -> float:
        """Return launches checked a second, with drawing excluded."""
        return self.launches / max(self.checking_seconds, 1e-9)

    @property
    def drawing_share(self) -> float:
        """Return which part of the time drawing took."""
        total = self.checking_seconds + self.drawing_seconds
        return self.drawing_seconds / max(total, 1e-9)

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the numbers as plain data."""
        return {
            "checked_launches": self.launches,
            "checked_to_the_byte": self.to_the_byte,
            "per_second": round(self.per_second, 1),
            "per_second_without_drawing": round(self.per_second_of_checking, 1),
            "drawing_share": round(self.drawing_share, 3),
            "checking_seconds": round(self.checking_seconds, 3),
            "drawing_seconds": round(self.drawing_seconds, 3),
        }

    def __str__(self) -> str:
        """Return the numbers as a line says them."""
        whole = self.to_the_byte / max(self.launches, 1)
        return (
            f"{self.per_second:,.0f} launches checked a second, "
            f"{self.per_second_of_checking:,.0f} with drawing excluded "
            f"({whole:.0%} to the byte; Hypothesis took {self.drawing_share:.0%})"
        )
